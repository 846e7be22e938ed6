# Arrays, recursion, strings, pipes and subshells: all of bash's memory passes through malloc.
set -euo pipefail
declare -A squares
for i in {1..20000}; do squares[$((i * 7919 % 65537))]=$((i * i)); done
for i in {1..20000..3}; do unset "squares[$((i * 7919 % 65537))]"; done
sum=0
for key in "${!squares[@]}"; do sum=$(((sum + key * squares[$key]) % 1000003)); done
echo "${#squares[@]} $sum"

hanoi() {
    [ "$1" -eq 0 ] && return
    hanoi $(($1 - 1)) "$2" "$4" "$3"
    moves+=("$2$3")
    hanoi $(($1 - 1)) "$4" "$3" "$2"
}
moves=()
hanoi 11 a b c
echo "${#moves[@]} ${moves[1023]} ${moves[*]:500:5}"

text=
for i in {1..3000}; do text+="word$i "; done
upper=${text^^}
echo "${#text} ${upper:5000:20} ${text//word/w}" | cksum

total=0
for i in {1..300}; do total=$((total + $(echo "$i" | { read -r n; echo $((n * 2)); }))); done
echo "$total"
mapfile -t lines < <(seq 1 30000 | grep 7)
echo "${#lines[@]} ${lines[-1]}"
trap 'echo ended' EXIT
printf '%s\n' "${moves[@]}" | sort | uniq -c
