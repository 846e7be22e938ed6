#!/bin/bash
# Lays out build/documents: the directory in which the five documents' command lines work as they are written. It has
# their Makefiles, script and programs at their paths; `hakmem` is the directory itself, since document 003 changes into
# it. README.md lists the commands.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$root/build/documents
mkdir -p "$tree"/hakozuna/{out,hz3/scripts,hz4} "$tree"/benchmarks/redis
ln -sfn . "$tree/hakmem"
ln -sf "$root/bench/documents/hakozuna.mk" "$tree/hakozuna/Makefile"
ln -sf "$root/bench/documents/hz3.mk" "$tree/hakozuna/hz3/Makefile"
ln -sf "$root/bench/documents/hz4.mk" "$tree/hakozuna/hz4/Makefile"
ln -sf "$root/bench/documents/run_bench_hz3_ssot.sh" "$tree/hakozuna/hz3/scripts/"
ln -sf "$root/build/release/bench/workload_bench_system" "$tree/benchmarks/redis/"
ln -sf "$root/build/release/bench/xmalloc_test" "$tree/hakozuna/out/xmalloc-testN"
make --no-print-directory -C "$tree/hakozuna" all
cmake --build "$root/build/release" --target workload_bench_system xmalloc_test
make --no-print-directory -C "$tree/hakozuna/hz3" all_ldpreload all_ldpreload_scale all_ldpreload_fast all_ldpreload_p32
make --no-print-directory -C "$tree/hakozuna/hz4" all
echo "documents: cd build/documents; bench/documents/README.md lists the commands"
