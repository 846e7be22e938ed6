#!/bin/bash
# Arrays, associative arrays and strings in bash: the words of a text, counted, joined and changed.
# usage: bash bench/apps/word_arrays.sh FILE; prints a digest
set -u
if [ $# != 1 ] || [ ! -r "$1" ]; then
    echo "word_arrays.sh: arguments are '$*'; allowed: one file that can be read" >&2
    exit 2
fi
declare -A count first
mapfile -t lines <"$1"
total=0
for line in "${lines[@]}"; do
    read -r -a words <<<"${line//./ end}"
    for word in "${words[@]}"; do
        count[$word]=$((${count[$word]:-0} + 1))
        first[$word]=${first[$word]:-$line}
    done
    total=$((total + ${#words[@]}))
done
sum=0
for word in "${!first[@]}"; do
    text=${first[$word]^^}
    sum=$(((sum + ${count[$word]} * ${#text}) % 1000000007))
done
echo "${#count[@]} $total $sum"
