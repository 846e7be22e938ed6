# Stressors that allocate, fork and start threads, each verifying what it does; their figures vary.
set -euo pipefail
run() {
    stress-ng --verify --temp-path . --timeout 100 "$@" >stress.log 2>&1 || { cat stress.log; return 1; }
    sed -nE 's/.*(successful run completed).*/\1/p; /fail|terminated|signal/p' stress.log
}
run --malloc 2 --malloc-ops 30000 --malloc-bytes 16M --malloc-pthreads 2
run --malloc 1 --malloc-ops 40000 --malloc-touch
run --tree 1 --tree-ops 20 --tree-size 20000 --skiplist 1 --skiplist-ops 4000 --hsearch 1 --hsearch-ops 4000
run --zlib 1 --zlib-ops 20 --bigheap 1 --bigheap-ops 4000
run --fork 1 --fork-ops 1500 --vfork 1 --vfork-ops 1500 --pthread 2 --pthread-ops 2000
run --clone 1 --clone-ops 200 --mmapfork 1 --mmapfork-ops 1 --dynlib 1 --dynlib-ops 2000 --env 1 --env-ops 200
