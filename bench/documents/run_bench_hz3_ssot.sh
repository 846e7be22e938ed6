#!/bin/bash
# The benchmark runner of document 003: RUNS runs of one program under the system's malloc, hz3, tcmalloc and mimalloc.
# Environment, with the defaults:
#   RUNS=10 ITERS=20000000 WS=400 MIN=16 MAX=32768      the program gets ITERS WS MIN MAX, then BENCH_EXTRA_ARGS
#   BENCH_BIN=./hakozuna/out/bench_random_mixed_malloc_args  BENCH_EXTRA_ARGS=
#   HZ3_SO, TCMALLOC_SO, MIMALLOC_SO     libraries; default: what `make documents` and `hakobench peers` have made. An
#                                        allocator whose library is missing is left out, and a line says so
#   LOG_DIR=/tmp/hz3_ssot_DATE_COMMIT    one log for each allocator, which is kept
# A round runs all allocators, in a new order each time, because a machine's speed changes. Each log begins with a
# [BENCH-HEADER] and has the program's whole output. The last lines on stdout are the medians.
set -eu
tree=$(cd "$(dirname "$0")/../../.." && pwd)
root=$(cd "$tree/../.." && pwd)
: "${RUNS:=10}" "${ITERS:=20000000}" "${WS:=400}" "${MIN:=16}" "${MAX:=32768}" "${BENCH_EXTRA_ARGS:=}"
: "${BENCH_BIN:=$tree/hakozuna/out/bench_random_mixed_malloc_args}"
commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)
: "${LOG_DIR:=/tmp/hz3_ssot_$(date +%Y%m%d-%H%M%S)_$commit}"

first_file() { # the first argument that is a file
    local path
    for path in "$@"; do
        [ ! -f "$path" ] || { echo "$path"; return; }
    done
}
peers=$root/.cache/hakobench/peers
: "${HZ3_SO:=$(first_file "$tree"/libhakozuna_hz3_ldpreload.so "$tree"/libhakozuna_hz3_scale.so)}"
: "${TCMALLOC_SO:=$(first_file /usr/lib/*/libtcmalloc.so /usr/lib/*/libtcmalloc_minimal.so.4)}"
: "${MIMALLOC_SO:=$(first_file "$peers"/mimalloc/*/libmimalloc.so* /usr/lib/*/libmimalloc.so*)}"

declare -A preload=([system]="" [hz3]=$HZ3_SO [tcmalloc]=$TCMALLOC_SO [mimalloc]=$MIMALLOC_SO)
read -ra extra <<<"$BENCH_EXTRA_ARGS"
command_line=("$BENCH_BIN" "$ITERS" "$WS" "$MIN" "$MAX" "${extra[@]}")
mkdir -p "$LOG_DIR"
allocators=()
for name in system hz3 tcmalloc mimalloc; do
    library=${preload[$name]}
    if [ "$name" != system ] && [ ! -f "$library" ]; then
        echo "run_bench_hz3_ssot.sh: $name is left out: no library '$library'" >&2
        continue
    fi
    allocators+=("$name")
    config=-
    [ "$name" != hz3 ] || config=$(HAKOZUNA_SHOW_CONFIG=2 LD_PRELOAD=$library /bin/true 2>&1 | grep ^engine=)
    {
        echo "[BENCH-HEADER] date=$(date -u +%Y-%m-%dT%H:%M:%SZ) commit=$commit runs=$RUNS cores=$(nproc) kernel=$(uname -r)"
        echo "[BENCH-HEADER] cpu=$(sed -n 's/^model name[[:space:]]*: //p;T;q' /proc/cpuinfo)"
        echo "[BENCH-HEADER] preload=$name lib=${library:-libc} sha256=$([ -z "$library" ] || sha256sum <"$library" | cut -c1-64)"
        echo "[BENCH-HEADER] config=$config"
        echo "[BENCH-HEADER] command=${library:+LD_PRELOAD=$library }${command_line[*]}"
    } >"$LOG_DIR/$name.log"
done

for round in $(seq "$RUNS"); do
    for name in $(printf '%s\n' "${allocators[@]}" | shuf); do
        echo "run=$round" >>"$LOG_DIR/$name.log"
        env -u LD_PRELOAD ${preload[$name]:+LD_PRELOAD="${preload[$name]}"} "${command_line[@]}" >>"$LOG_DIR/$name.log"
    done
done

for name in "${allocators[@]}"; do
    # median: the middle one of the sorted figures, or the mean of the two in the middle
    median=$(sed -n 's/^ops_per_s=//p' "$LOG_DIR/$name.log" | sort -n |
        awk '{ v[NR] = $1 } END { printf "%.0f", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }')
    echo "allocator=$name runs=$RUNS median_ops_per_s=$median log=$LOG_DIR/$name.log"
done
