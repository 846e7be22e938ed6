"""The programs that `make test-apps` runs. One line adds an ordinary command; a server needs a function in services.py.

A script runs in an empty folder, with bash's options -euo pipefail. What it writes must not vary from run to run, or
`normalise` names the part that does. It finds the tests' inputs in $INPUTS, a tree of generated files in $DATA/tree, all
of them in $DATA/all, and 400,000 lines in $DATA/words.txt. tools/setup installs the programs.
"""

from __future__ import annotations

import services
from runner import Program

CPYTHON_MODULES = (
    "test_array test_asyncio.test_queues test_asyncio.test_tasks test_bytes test_bz2 test_codecs test_collections "
    "test_compile test_ctypes test_datetime test_decimal test_deque test_dict test_fork1 test_gc test_heapq "
    "test_io test_itertools test_json test_list test_lzma test_memoryview test_mmap test_os test_pickle "
    "test_posix test_queue test_re test_select test_set test_signal test_sort test_subprocess test_tempfile "
    "test_thread test_threading test_threading_local test_threadsignals test_tracemalloc test_unicode test_weakref test_xml_etree_c test_zlib"
)
# What fails is run again, since some tests depend on the load of the machine; the second result counts.
CPYTHON = """/usr/bin/python3 -m test -j2 -w --timeout 300 {modules} >python.log 2>&1 || true
sed -nE '/ tests? failed again:/,/^$/p; s/^Tests result: (.* then )?([A-Z]+)$/result \\2/p' python.log"""
HASHES = "find {} -type f | LC_ALL=C sort | xargs sha256sum"
ADDRESSES = ((r"0x[0-9a-f]+", "ADDRESS"),)

PROGRAMS = [
    Program("bash", "arrays, recursion, pipes, 300 subshells", "bash $INPUTS/work.bash"),
    Program("perl", "hashes of arrays, sorting; ithreads with a queue", "perl $PRELOAD_INPUTS/hashes.pl; perl $INPUTS/threads.pl"),
    Program("ruby", "strings, hashes, threads, fork, compacting GC", "ruby $INPUTS/work.rb"),
    Program("php", "arrays, regular expressions, with its own allocator and without", "php $INPUTS/work.php; USE_ZEND_ALLOC=0 php $INPUTS/work.php"),
    Program("lua", "tables, strings, coroutines", "lua5.4 $INPUTS/work.lua", version="lua5.4 -v", inside=("lua5.4",)),
    Program("git", "six commits, gc, fsck, clone, blame, grep with threads", "bash $INPUTS/git.bash"),
    Program("cpython", "43 modules of its own test suite", CPYTHON.format(modules=CPYTHON_MODULES), version="/usr/bin/python3 -V",
            inside=("python3",), timeout_seconds=900, check=False),
    Program("cpython-all", "its whole test suite", CPYTHON.format(modules="-u all,-network,-urlfetch,-gui,-audio"), version="/usr/bin/python3 -V",
            inside=("python3",), timeout_seconds=7200, check=False, slow=True),
    Program("cpython-malloc", "threads and processes, each object from malloc", "PYTHONMALLOC=malloc /usr/bin/python3 $INPUTS/work.py",
            version="/usr/bin/python3 -V", inside=("python3",)),
    Program("pip", "makes a venv, installs three packages from PyPI", f"""/usr/bin/python3 -m venv v
        v/bin/pip install --quiet --no-cache-dir --no-compile rich==15.0.0 jinja2==3.1.6 click==8.5.1
        v/bin/pip check; v/bin/pip list | sort; {HASHES.format("v/lib/python3*/site-packages/[rjc]*")}""",
            version="/usr/bin/python3 -m pip --version || /usr/bin/python3 -V", inside=("python3",), timeout_seconds=300),
    Program("node", "four workers: zlib, crypto, JSON, transferred buffers", "node $INPUTS/workers.js"),
    Program("java", "javac, then threads, zip, direct buffers", """javac -d classes $INPUTS/Work.java
        sha256sum classes/*; java -Xmx256m -cp classes Work""", version="java -version", inside=("javac", "java")),
    Program("go", "builds and runs a program whose goroutines call malloc", """cp $INPUTS/work.go .; export GOCACHE=$PWD/cache GO111MODULE=off
        CGO_ENABLED=1 go build -o work work.go; ./work""", version="go version", inside=("cc1", "as", "work"), timeout_seconds=400, check=False),
    Program("cargo", "builds, tests and runs a crate with threads", """cp -r $INPUTS/crate .; cd crate; export CARGO_HOME=$HOME/cargo
        cargo build --release --offline --quiet; cargo test --offline --quiet | grep -o 'test result: ok. [0-9]* passed'
        ./target/release/work; sha256sum target/release/work""", inside=("cargo", "rustc", "cc", "work"), timeout_seconds=300),
    Program("g++", "C++ at -O2 and with LTO; objects are equal", """for f in "-O2 -g" "-O1 -flto"; do
        g++ -std=c++17 $f -frandom-seed=1 -c $PRELOAD_INPUTS/large.cc -o large.o; sha256sum large.o; done
        g++ -std=c++17 -O2 -flto=2 -frandom-seed=1 $INPUTS/pool.cc $PRELOAD_INPUTS/large.cc -c; echo compiled
        g++ -std=c++17 -O2 -flto=2 $INPUTS/pool.cc -pthread -o pool; ./pool""", inside=("g++", "cc1plus", "as", "ld", "lto1", "pool")),
    Program("clang", "C++ at -O2, lld with threads; objects are equal", """clang++ -std=c++17 -O2 -g -c $PRELOAD_INPUTS/large.cc -o large.o
        clang++ -std=c++17 -O2 -flto=thin -fuse-ld=lld $INPUTS/pool.cc -pthread -o pool; sha256sum large.o pool; ./pool""",
            inside=("clang++", "ld.lld", "pool")),
    Program("cmake", "configures, builds with ninja, runs ctest", """cmake -G Ninja -S $INPUTS/project -B b >cmake.log; cmake --build b >ninja.log
        cd b; ctest -j2 | grep 'tests passed'; sha256sum work digest.txt""", inside=("cmake", "ninja", "ctest", "work")),
    Program("gdb", "breakpoints, back traces, its Python", "gcc -g -O0 $INPUTS/debug.c -o debug; gdb -nx -batch -x $INPUTS/debug.gdb ./debug",
            normalise=(*ADDRESSES, (r"process \d+", "process N")), inside=("gdb", "debug")),
    Program("redis", "AOF, its rewrite, BGSAVE, benchmark, restarts", work=services.redis, version="redis-server --version",
            inside=("redis-server", "redis-benchmark")),
    Program("redis-unit", "as Debian's unit starts it: its user, its filters", work=services.redis_unit, version="redis-server --version",
            inside=("redis-server",), under=("systemd-tight+systemd-hardening",)),
    Program("memcached", "4 threads, 12 clients, 64 MB, eviction", work=services.memcached),
    Program("postgresql", "SQL, parallel queries, pgbench, dump and restore", work=services.postgresql, version="psql --version",
            inside=("postgres", "pgbench", "psql", "pg_dump"), timeout_seconds=300),
    Program("nginx", "2 workers, gzip, ab with 40 connections, reloads", work=services.nginx, version="/usr/sbin/nginx -v", inside=("nginx", "ab")),
    Program("sshd", "logins by key, commands, files both ways", work=services.sshd, version="ssh -V", inside=("sshd", "ssh", "scp")),
    Program("php-fpm", "70 FastCGI requests to three workers", work=services.php_fpm, version="php --version",
            inside=("php-fpm8.2", "cgi-fcgi")),
    Program("openmpi", "3 processes over UCX: messages, puts, reductions", "bash $INPUTS/mpi.bash", version="mpirun --version",
            inside=("mpi", "mpirun"), stderr=False),
    Program("faketime", "threads and dates, before and behind the library", "bash $INPUTS/faked_time.bash", version="dpkg-query -W faketime",
            inside=("perl", "date"), preloads=True),
    Program("fakeroot", "owners and devices that are not there, in an archive", """fakeroot sh -c 'mkdir d; cp -r $DATA/tree d/tree
        chown -R 7:8 d; mknod d/disk b 8 0; chmod 4755 d; tar --sort=name --mtime=@0 --numeric-owner -cf - d' | tee t.tar | sha256sum
        fakeroot tar -xpf t.tar -C tmp; tar --numeric-owner -tvf t.tar | sha256sum; find tmp -type f | LC_ALL=C sort | xargs sha256sum | sha256sum""",
            version="fakeroot --version", inside=("tar", "cp", "chown"), preloads=True),
    Program("eatmydata", "a database without fsync, git's objects", """eatmydata sqlite3 items.db <$PRELOAD_INPUTS/items.sql | sha256sum
        eatmydata git init -q r; cd r; cp -r $DATA/tree .; eatmydata git add .; eatmydata git write-tree""",
            version="dpkg-query -W eatmydata", inside=("sqlite3", "git"), preloads=True),
    Program("sqlite3", "joins, full text, VACUUM, integrity check", "sqlite3 items.db <$PRELOAD_INPUTS/items.sql"),
    Program("rocksdb", "load, compact, scan; db_bench with 4 threads", "bash $INPUTS/rocksdb.bash", version="db_bench --version",
            inside=("ldb", "db_bench", "sst_dump"), stderr=False),
    Program("ffmpeg", "H.264, AAC and VP9 with threads, scaling, decoding", "bash $INPUTS/ffmpeg.bash", version="ffmpeg -version"),
    Program("imagemagick", "blur, rotate, quantise, montage, PNG and JPEG", "bash $INPUTS/images.bash", version="convert-im6.q16 -version",
            inside=("convert-im6.q16", "montage-im6.q16")),
    Program("xz", "compresses and decompresses with 2 threads", "xz -T2 --block-size=1MiB -4 <$DATA/all >x; sha256sum x; xz -T2 -dc x | sha256sum"),
    Program("zstd", "levels 1 to 12 with 2 threads, dictionary", """for l in 1 5 12; do zstd -q -T2 -$l <$DATA/all | tee x | sha256sum; zstd -dc <x | sha256sum; done
        zstd -q --train -r $DATA/tree -o dictionary --maxdict=20000; sha256sum dictionary"""),
    Program("tar", "packs and unpacks a tree", f"""tar --sort=name --mtime=@0 --owner=0 --group=0 -C $DATA -cf t.tar tree; sha256sum t.tar; tar -xf t.tar
        {HASHES.format("tree")}"""),
    Program("sort", "400,000 lines, by number and text, 2 threads", """sort -S 16M --parallel=2 -k2,2 -k1,1n $DATA/words.txt | sha256sum
        sort -n -u $DATA/words.txt | sha256sum"""),
    Program("awk", "counts words", "awk '{ n[$2] += $1; l[length($3)]++ } END { for (k in n) s += n[k] % 97; print s, length(n), l[7] }' $DATA/words.txt",
            version="readlink -f $(command -v awk); dpkg-query -W mawk gawk"),
    Program("jq", "groups and sorts a JSON document", "jq -Rn '[inputs | split(\" \")] | group_by(.[1]) | map({(.[0][1]): length}) | add' "
            "<(head -n 60000 $DATA/words.txt) | sha256sum"),
    Program("openssl", "TLS certificate chain, digests, ciphers", """for d in sha3-256 blake2b512 md5; do openssl dgst -$d <$DATA/all; done
        openssl enc -aes-256-cbc -K 00 -iv 00 <$DATA/all 2>/dev/null | sha256sum; openssl prime -generate -bits 512 >/dev/null
        openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -keyout k -out c 2>/dev/null; openssl verify -CAfile c c""", version="openssl version"),
    Program("stress-ng", "malloc, tree, zlib, fork, exec, threads, mmap", "bash $INPUTS/stress.bash", timeout_seconds=300),
    Program("chromium", "a page's scripts, headless; malloc is its own", "bash $INPUTS/chromium.bash", stderr=False),
]
