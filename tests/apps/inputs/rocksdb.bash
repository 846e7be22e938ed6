# ldb with data that is always the same, then db_bench with threads, whose figures vary.
set -euo pipefail
awk '{ print $1 ":" $2 " ==> " $3 $2 $3 }' "$DATA/words.txt" >rows
ldb --db=fixed --create_if_missing load --disable_wal <rows
ldb --db=fixed compact
ldb --db=fixed scan | sha256sum
ldb --db=fixed checkconsistency
ldb --db=fixed dump --count_only | grep 'Keys in range'
sst_dump --file=fixed --command=verify | grep -c 'The file is ok'
db_bench --db=random --num=30000 --threads=4 --value_size=400 --write_buffer_size=4000000 --seed=1 --compression_type=lz4 \
    --cache_size=8000000 --benchmarks=fillrandom,overwrite,readwhilewriting,readrandom,deleterandom,seekrandom,compact,verifychecksum \
    >bench.log 2>&1
sed -nE 's/^(fillrandom|overwrite|readwhilewriting|readrandom|deleterandom|seekrandom|verifychecksum) .*/\1 done/p' bench.log
ldb --db=random checkconsistency
