/*
 * hakozuna.h - the public API of the hakozuna memory allocators.
 *
 * Linking or preloading the library replaces malloc, free and the C++ operators of the whole
 * program; that needs nothing from this header. The header is for programs that want to call the
 * allocator under its own names, read its statistics, or return memory to the operating system.
 *
 * Thread rules: any thread may call any function at any time, and any thread may free any block. A
 * signal handler must not call a function of this header if it may have interrupted one.
 * Units: all sizes are in bytes.
 * Errors: a failing function returns NULL (or the value that its comment names) and sets errno. The
 * functions that free, and those that report without failing, leave errno unchanged.
 */
#ifndef HAKOZUNA_H
#define HAKOZUNA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HZ_VERSION_MAJOR 0
#define HZ_VERSION_MINOR 1
#define HZ_VERSION_PATCH 0

#if defined(__GNUC__) || defined(__clang__)
#define HZ_API              __attribute__((visibility("default")))
#define HZ_ATTR_MALLOC      __attribute__((malloc))
#define HZ_ATTR_SIZE(n)     __attribute__((alloc_size(n)))
#define HZ_ATTR_SIZE2(n, m) __attribute__((alloc_size(n, m)))
#define HZ_ATTR_ALIGN(n)    __attribute__((alloc_align(n)))
#define HZ_ATTR_USED        __attribute__((warn_unused_result))
#else
#define HZ_API
#define HZ_ATTR_MALLOC
#define HZ_ATTR_SIZE(n)
#define HZ_ATTR_SIZE2(n, m)
#define HZ_ATTR_ALIGN(n)
#define HZ_ATTR_USED
#endif

/* ---- the malloc family (semantics of glibc 2.36; ISO C17 7.22.3, POSIX.1-2017) ---------------- */

/* Allocates at least `size` bytes, aligned to 16 bytes; size 0 gives a unique block. Returns NULL and
   sets ENOMEM when `size` is above PTRDIFF_MAX or there is not enough memory. */
HZ_API void *hz_malloc(size_t size) HZ_ATTR_MALLOC HZ_ATTR_SIZE(1) HZ_ATTR_USED;

/* Frees a block of this library; NULL is ignored. For a pointer that is not the start of a live block
   the library prints a message and aborts the program as soon as it notices. */
HZ_API void hz_free(void *block);

/* Allocates count * size bytes, all zero. Returns NULL and sets ENOMEM as hz_malloc does, and also
   when the product overflows. */
HZ_API void *hz_calloc(size_t count, size_t size) HZ_ATTR_MALLOC HZ_ATTR_SIZE2(1, 2) HZ_ATTR_USED;

/* Resizes a block, moving it if necessary; the contents up to the smaller of both sizes are kept.
   With block NULL it allocates as hz_malloc does. With size 0 it frees the block and returns NULL,
   as glibc does. On failure it returns NULL, sets ENOMEM and leaves `block` unchanged. */
HZ_API void *hz_realloc(void *block, size_t size) HZ_ATTR_SIZE(2) HZ_ATTR_USED;

/* As hz_realloc(block, count * size); an overflow of the product is a failure (glibc, OpenBSD). */
HZ_API void *hz_reallocarray(void *block, size_t count, size_t size) HZ_ATTR_SIZE2(2, 3) HZ_ATTR_USED;

/* Allocates a block aligned to `alignment`. Returns NULL and sets EINVAL when `alignment` is not a
   power of two, ENOMEM as hz_malloc does. `size` need not be a multiple of `alignment` (C17 as
   amended by DR 460). */
HZ_API void *hz_aligned_alloc(size_t alignment, size_t size) HZ_ATTR_MALLOC HZ_ATTR_SIZE(2)
    HZ_ATTR_ALIGN(1) HZ_ATTR_USED;

/* Resizes a block as hz_realloc does, to one that is aligned to `alignment`, whatever the block's alignment was before.
   With block NULL it allocates as hz_aligned_alloc does; with size 0 it frees the block and returns NULL. On failure it
   returns NULL, leaves `block` unchanged and sets EINVAL when `alignment` is not a power of two, ENOMEM as hz_malloc
   does. (realloc itself keeps only the alignment of malloc when it moves a block.) */
HZ_API void *hz_aligned_realloc(void *block, size_t alignment, size_t size) HZ_ATTR_SIZE(3)
    HZ_ATTR_ALIGN(2) HZ_ATTR_USED;

/* Resizes a block as hz_realloc does, and zeroes the new bytes. The library knows a block's usable size
   (hz_usable_size) and not the size that was asked for. So what counts as old, and is kept, is the smaller of the old
   usable size and `size`; all bytes behind that are zero, up to the new usable size. A block that these two functions
   have made or resized is zero behind the size that was asked for unless the program wrote there: if it grows by them,
   all that it gains is zero. Of a block of hz_malloc or hz_calloc the bytes between the requested and the usable size
   are kept and can hold anything, so begin with hz_rezalloc(NULL, size), which allocates a zeroed block. Errors as for
   hz_realloc, and for hz_recalloc, which resizes to count * size bytes, an overflow of the product. */
HZ_API void *hz_rezalloc(void *block, size_t size) HZ_ATTR_SIZE(2) HZ_ATTR_USED;
HZ_API void *hz_recalloc(void *block, size_t count, size_t size) HZ_ATTR_SIZE2(2, 3) HZ_ATTR_USED;

/* Makes a block's usable size at least `size` without moving the block, and returns the block. Blocks above 2 MiB can
   grow into free memory behind them. So can blocks above 64 KiB that hz_realloc has grown, and blocks above 512 KiB
   from hz_calloc. Any other block keeps its usable size. What is new holds anything. When the block cannot grow in
   place it returns NULL, leaves the block unchanged and sets ENOMEM; EINVAL when `block` is NULL. Never makes a block
   smaller. */
HZ_API void *hz_expand(void *block, size_t size) HZ_ATTR_USED;

/* A block and its usable size, for containers that use all of it (as std::allocate_at_least does). */
struct hz_sized_block {
    void *block;
    size_t bytes;
};

/* As hz_malloc, and says how many bytes the block has: hz_usable_size. Block NULL, and 0 bytes, on failure. The block
   can be passed to hz_free_sized with `size` or with any size up to these bytes. C++ programs have the same as the
   functions
   __size_returning_new and __size_returning_new_aligned, by which compilers and libraries know it. */
HZ_API struct hz_sized_block hz_malloc_sized(size_t size);

/* As POSIX: stores the block in *out and returns 0. On failure it leaves *out and errno unchanged and
   returns EINVAL (`alignment` is not a power of two, or not a multiple of sizeof(void *)) or ENOMEM. */
HZ_API int hz_posix_memalign(void **out, size_t alignment, size_t size) HZ_ATTR_USED;

/* As glibc's memalign: an alignment that is not a power of two is rounded up to the next one. Returns
   NULL and sets EINVAL when `alignment` is above PTRDIFF_MAX / 2 + 1, ENOMEM as hz_malloc does. */
HZ_API void *hz_memalign(size_t alignment, size_t size) HZ_ATTR_MALLOC HZ_ATTR_SIZE(2) HZ_ATTR_USED;

/* Allocate a block aligned to the system's page size; hz_pvalloc also rounds `size` up to a multiple of
   the page size. Errors as for hz_malloc. */
HZ_API void *hz_valloc(size_t size) HZ_ATTR_MALLOC HZ_ATTR_SIZE(1) HZ_ATTR_USED;
HZ_API void *hz_pvalloc(size_t size) HZ_ATTR_MALLOC HZ_ATTR_USED;

/* As hz_free (C23 7.24.3.4, 7.24.3.5). `size` (and `alignment`) must be the values that were passed when
   the block was allocated. The check build aborts the program when the block cannot have that size. */
HZ_API void hz_free_sized(void *block, size_t size);
HZ_API void hz_free_aligned_sized(void *block, size_t alignment, size_t size);

/* Frees `count` blocks; NULLs among them are ignored. The same as a loop of hz_free, in one call. The array stays the
   caller's. */
HZ_API void hz_free_batch(void *const *blocks, size_t count);

/* The number of bytes that the program may use at `block`: at least the requested size. 0 for NULL. */
HZ_API size_t hz_usable_size(const void *block);

/* The number of bytes that every block of hz_malloc(size) has at least. Above 8 KiB a block often has
   more: hz_malloc_sized and hz_usable_size say how many. 0 if no block of `size` bytes is
   possible. Allocates nothing. */
HZ_API size_t hz_good_size(size_t size);

/* ---- zones: heaps of one's own ------------------------------------------------------------------ */

/* A zone is a heap beside the common one, for what belongs together: a request, a document, a phase, a plugin. All its
   blocks can be freed at once, and it has figures of its own. (mimalloc calls it a first-class heap, macOS a zone.)
   Any thread may allocate from any zone. One thread at a time is the zone's user: the first one that allocates, until
   another one has allocated much, or nobody has for a while. The user takes blocks of up to 8 KiB without a lock, so to
   create a zone, allocate 30 small blocks and destroy the zone takes about as long as 30 pairs of hz_malloc and
   hz_free. Other threads wait for the zone's lock in turn. A zone's blocks are blocks like any other: any thread may
   pass them to hz_free, free, operator delete, hz_usable_size and so on. hz_realloc and its relatives leave a block in
   its zone. A freed block returns to its zone at once, which takes several times as long as the free of a common block.
   What was freed in a zone goes back to the system by itself, as elsewhere. Each size class that a zone uses takes a
   page of 64 KiB or more, of which only what is used is touched. */
struct hz_zone;

/* Returns NULL and sets ENOMEM when there is not enough memory. A zone itself takes about 13 KiB, which the next zone
   uses again after hz_zone_destroy. */
HZ_API struct hz_zone *hz_zone_create(void) HZ_ATTR_USED;

/* Frees the zone and all of its live blocks at once; their destructors are the program's business. Takes time for each
   page and each large block, not for each block. The library keeps up to 1 MiB of the zone's pages for the next zone,
   or one page of each size class if the zone has used little. It does so for about 4 zones at most. These pages go back
   to the system after a while, or by hz_purge. NULL is ignored. No thread may use the zone or one of its blocks
   meanwhile, or afterwards. */
HZ_API void hz_zone_destroy(struct hz_zone *zone);

/* As hz_malloc, hz_calloc and hz_aligned_alloc, from a zone. The sampling guard and the guard build's fences do not
   watch these blocks. */
HZ_API void *hz_zone_malloc(struct hz_zone *zone, size_t size) HZ_ATTR_MALLOC HZ_ATTR_SIZE(2) HZ_ATTR_USED;
HZ_API void *hz_zone_calloc(struct hz_zone *zone, size_t count, size_t size) HZ_ATTR_MALLOC
    HZ_ATTR_SIZE2(2, 3) HZ_ATTR_USED;
HZ_API void *hz_zone_aligned_alloc(struct hz_zone *zone, size_t alignment, size_t size) HZ_ATTR_MALLOC HZ_ATTR_SIZE(3)
    HZ_ATTR_ALIGN(2) HZ_ATTR_USED;

/* The zone of a live block; NULL for a block of the common heap, and for NULL. */
HZ_API struct hz_zone *hz_zone_of(const void *block);

/* A later version can add members at the end, as for struct hz_stats. */
struct hz_zone_stats {
    size_t live_blocks;
    size_t live_bytes; /* of live blocks, with all the memory that they take; hz_stats_get counts them too */
    size_t free_bytes; /* free space in pages that hold the zone's blocks */
    size_t held_bytes; /* the zone's pages and large blocks, touched or not */
};

/* Fills *out; exact. `bytes`: sizeof(*out), as for hz_stats_get. Returns 0, or -1 with errno EINVAL when `out` is NULL
   or `bytes` is 0. Takes time for each page of the zone. */
HZ_API int hz_zone_stats_get(struct hz_zone *zone, struct hz_zone_stats *out, size_t bytes);

/* ---- statistics, and returning memory ---------------------------------------------------------- */

/* Returns as much memory to the OS as it can: the cached blocks of all threads and those that threads share, all free
   pages, and the parts of other pages that hold no live block. In the cache of another thread
   two blocks of each size up to 2 KiB may stay; docs/memory.md says when. Returns the number of bytes given to the
   OS. Ends even if other threads keep allocating. A call takes milliseconds, so keep it out of hot loops. */
HZ_API size_t hz_purge(void);

/* For a thread that will not allocate for a while, such as a worker that waits for its next task: returns all blocks in
   the calling thread's cache to their pages. Other threads can use pages that become empty, or they return to the OS in
   time, as docs/memory.md says; hz_purge returns them at once. The thread may allocate again at any time, and then
   fills its cache anew. Takes about a microsecond for each hundred blocks. In a process with a keeper the cache of a
   sleeping thread is returned by itself within seconds. */
HZ_API void hz_thread_idle(void);

/* 0: ends the library's background thread (the keeper, docs/memory.md) and waits for its end; none starts until 1.
   Until then memory goes back only inside calls of the program. 1: the keeper may start again, once several threads
   allocate. For a program that must have one thread for a moment, as for unshare. The kernel counts an ended thread for
   some milliseconds more: repeat a call that fails with EINVAL. Not needed before unshare, setns and the like with a
   library or archive that replaces malloc. The threads of HAKOZUNA_STATS stay. A fork's child inherits the setting. Any
   thread; not from a signal handler. Returns 0, or -1 with errno EINVAL for another value, or EPERM when the process
   can have no keeper: after HAKOZUNA_BACKGROUND=0 or hz_confine, and when its first thread has ended. */
HZ_API int hz_background_set(int on);

/* Before the program restricts its system calls (seccomp): ends the library's threads. From then on the library makes
   only system calls that every malloc needs (docs/failure.md). Cannot be undone. Not needed with a library or archive
   that replaces malloc if the program calls prctl, or with the shared library syscall. Any thread; not from a signal
   handler. */
HZ_API void hz_confine(void);

/* Limits what the heap may hold, in bytes: memory in use, and free memory that was not returned yet. A block
   above 64 KiB counts in full, touched or not. 0 means no limit.
   Above `soft_bytes` no free pages are kept, and an allocation that notices it purges as hz_purge does, for at
   most a sixteenth of the time, or sooner when the heap has grown by 1/32; if the heap still holds more, the
   callback of hz_limit_notify is called. An allocation that would exceed `hard_bytes` after a purge returns NULL and
   sets ENOMEM. Limits hold for what is allocated from now on. Threads that allocate at the same time can together
   exceed them by what each allocates. Returns 0, or -1 with errno EINVAL when the soft limit is above the hard one. By
   default there is no hard limit. The soft limit is memory.high of the process's cgroup (v2), or 7/8 of its memory.max
   if that is less, minus the private memory that the process uses outside the heap, but at least an eighth of that. It
   is read at the first thread's start or when the heap has 16 MiB, and then as the heap grows. What counts against this
   default are the library's own tables too, but not blocks above 2 MiB; what the program has touched of these lowers
   the limit. */
HZ_API int hz_limit_set(size_t soft_bytes, size_t hard_bytes);

struct hz_limits {
    size_t soft_bytes; /* 0: none */
    size_t hard_bytes; /* 0: none */
    size_t held_bytes; /* as hz_limit_set counts it; the default soft limit does not count blocks above 2 MiB */
};

/* Fills *out with the limits in force and what the heap holds now. `bytes`: sizeof(*out), as for hz_stats_get. Returns
   0, or -1 with errno EINVAL when `out` is NULL or `bytes` is 0. */
HZ_API int hz_limit_get(struct hz_limits *out, size_t bytes);

/* Registers a callback; NULL removes it. It is called once when the heap holds more than the soft limit and a purge
   did not help, and again only after the heap has meanwhile held less than 15/16 of the limit. It runs inside the
   allocation that noticed, in any thread, with no lock of the library held, but perhaps with locks of whoever
   allocates (the C library's among them). It may allocate and free, and call any function of this header; it is not
   called again from inside itself. It must return: no longjmp, no exception. When a callback is replaced or removed,
   a call of it can still be under way in another thread. */
typedef void hz_limit_callback(size_t held_bytes, void *context);
HZ_API void hz_limit_notify(hz_limit_callback *callback, void *context);

/* The version of the library as a constant string, such as "0.1.0"; never NULL. */
HZ_API const char *hz_version(void);

/* The compiled-in configuration as "key=value" words on one line: engine, lane, version, shards, every
   knob, compiler, build. A constant string, never NULL. */
HZ_API const char *hz_config_string(void);

enum hz_stats_format { HZ_STATS_TEXT = 0, HZ_STATS_JSON = 1, HZ_STATS_VERBOSE = 2 };

/* Writes a report of the heap to a file descriptor. HZ_STATS_TEXT is for people: the first five lines say how much
   memory is live, cached, free, and how much of the process's memory that is, in MiB; then come the ranges of sizes,
   the classes that hold most, and how much each thread caches. HZ_STATS_VERBOSE adds all classes and threads, the
   counters and the configuration. HZ_STATS_JSON has all of it in one line for programs
   (docs/formats/stats-schema.json). Allocates nothing, and holds no lock while it writes. Reads /proc/self, unless the
   program has restricted its system calls. Returns 0, or -1 with errno set to EINVAL (unknown format) or to an error of
   write(2). Figures are exact while no other thread allocates or frees; otherwise those that belong together can be a
   little apart. */
HZ_API int hz_stats_print(int fd, enum hz_stats_format format);

/* The totals that hz_stats_print writes, for use by programs. Members named _bytes are in bytes. A later version can
   add members at the end; hz_stats_get is told how many the program knows. */
struct hz_stats {
    size_t live_bytes;     /* allocated and not yet freed, with all the memory that the blocks take */
    size_t cached_bytes;   /* freed blocks that are cached: by threads, between threads, on the way to their pages */
    size_t free_bytes;     /* free space in pages that hold blocks, and free pages; not what was purged or untouched */
    size_t resident_bytes; /* live_bytes + cached_bytes + free_bytes: an upper bound of the heap's RSS */
    size_t mapped_bytes;   /* address space obtained from the OS for blocks */
    size_t purged_bytes;   /* memory returned to the OS since the program started */
    size_t mapping_count;  /* live direct mappings (blocks above 2 MiB) */
    size_t peak_bytes;     /* the highest resident_bytes since the start, or since hz_stats_peak_reset; measured at
                              allocations, and now */
};

/* Fills *out. `bytes`: sizeof(*out), the size of the struct in the header that the program was compiled with. The
   library never writes more, so a program runs with a later library, and zeroes members that it does not know itself.
   Returns 0, or -1 with errno EINVAL when `out` is NULL or `bytes` is 0. */
HZ_API int hz_stats_get(struct hz_stats *out, size_t bytes);

/* Begins a new peak_bytes at what the heap holds now, for a peak by phase or by request. An allocation that another
   thread makes at that moment may still count for the old peak. Any thread. */
HZ_API void hz_stats_peak_reset(void);

/* What a thread caches. The heap profile (docs/profile.md) estimates how much of the live memory each thread
   has allocated. A later version can add members at the end, as for struct hz_stats. */
struct hz_thread_stats {
    unsigned thread_id;  /* the kernel's number of the thread; 0: not known */
    unsigned shard;      /* number of the shard that the thread belongs to; threads can share one */
    int is_parked;       /* 1: the thread has not allocated for a while, and its cache was emptied */
    size_t cached_bytes; /* freed blocks in the thread's cache and its remote buffer */
    size_t remote_bytes; /* of these, blocks in the remote buffer, which return to other shards */
};

/* Fills *out for the calling thread; with zeros if it has not allocated yet. `bytes`: sizeof(*out), as for
   hz_stats_get. Returns 0, or -1 with errno EINVAL when `out` is NULL or `bytes` is 0. */
HZ_API int hz_thread_stats_get(struct hz_thread_stats *out, size_t bytes);

/* Fills the first `count` elements of `out`, of `bytes` bytes each (sizeof(*out), as for hz_stats_get), one for each
   thread that has allocated and not ended, in no special order, and returns the number of such threads, which can be
   more than `count`. `out` may be NULL if `count` is 0. Otherwise, if `out` is NULL or `bytes` is 0, returns 0 with
   errno EINVAL. Allocates nothing. Exact while no other thread allocates or frees. Any thread. */
HZ_API size_t hz_threads_stats_get(struct hz_thread_stats *out, size_t count, size_t bytes);

/* ---- leaks ----------------------------------------------------------------------------------------- */

/* What hz_leaks_check has found. A leaked block is live, but the program has no address in it any more: not in its data
   and that of its libraries, nor in stacks, registers, thread-local variables, mappings of its own, or blocks that are
   not leaked. An address in the middle of a block counts. Blocks of malloc, of C++, of the aligned functions and of
   zones are looked at alike. A later version can add members at the end, as for struct hz_stats. */
struct hz_leaks {
    size_t direct_blocks; /* leaked, and no other leaked block has their address. Of a ring that nothing else refers to,
                             one block counts */
    size_t direct_bytes;  /* with all the memory that the blocks take, here and below */
    size_t indirect_blocks; /* reached from these */
    size_t indirect_bytes;
    size_t live_blocks; /* all live blocks, leaked or not */
    size_t live_bytes;
    size_t is_exact; /* 0: a thread was inside malloc or free for a second. Blocks that it may have count as reached */
};

/* Looks for leaks, fills *out, and writes a report to the descriptor `fd`, unless it is -1: leaks by stack trace, where
   they were sampled (HAKOZUNA_PROFILE), else by size. `bytes`: sizeof(*out), as for hz_stats_get.
   Stops all other threads meanwhile, as a debugger does (ptrace), for about a second for each GiB of memory in use. A
   system call in which a thread waits can end with EINTR then (signal(7) lists these). The calling thread must hold no
   lock that another thread needs in order to leave malloc or free, and the program must have no filter of system calls
   (seccomp) that kills for ptrace, clone, process_vm_readv or opening files in /proc. Allocates nothing.
   Returns 0, or -1 with errno EINVAL (`out` is NULL or `bytes` is 0), EPERM or EACCES (the system does not let us stop
   the threads: a debugger traces them, or a security module forbids it), EBUSY (another check is under way, or a thread
   did not stop within two seconds), ENOTSUP (the program has restricted its system calls), ENOENT (/proc cannot be
   read), ENOMEM, EIO (the report could not be written; *out is right), or another error of the calls above. In a
   process with one thread nothing needs to be stopped. Any thread, but neither from a signal handler nor from a
   callback of this header. */
HZ_API int hz_leaks_check(int fd, struct hz_leaks *out, size_t bytes);

/* ---- sampled events -------------------------------------------------------------------------------- */

/* Allocations are sampled when HAKOZUNA_PROFILE asks for a heap profile (docs/profile.md), or after a call of
   hz_sampling_start: on average one byte in every `rate_bytes` bytes that the program allocates is chosen, and the
   block that contains it is a sampled block until it is freed. */

/* Samples the allocations of the calling thread and of all threads that begin later, from now on until the process
   ends. A fork's child is sampled too. rate_bytes: 1 to 1073741824; 524288 is usual. docs/profile.md says what it
   costs. Call it once, at the beginning of main, before other threads exist. Returns 0, or -1 with errno EINVAL
   (rate_bytes is out of range), EALREADY (allocations are sampled already, for a heap profile or by the sampling
   guard), EBUSY (the caller is not the process's first thread, or another thread has allocated), ENOMEM, or ENOTSUP
   (this is the guard build).

   In a process that was started with HAKOZUNA_PROFILE=wait any thread may call it at any time. It then samples all
   threads, at the rate that the variable says, until somebody ends that from outside; EALREADY if somebody has begun. A
   fork's child is not sampled then. */
HZ_API int hz_sampling_start(size_t rate_bytes);

enum hz_sampling_kind { HZ_SAMPLING_ALLOC = 1, HZ_SAMPLING_FREE = 2 };

/* A sampled block was allocated, or is about to be freed. Until version 1.0 a version can add members at the end. */
struct hz_sampling_event {
    enum hz_sampling_kind kind;
    const void *block;        /* live during the callback */
    size_t bytes;             /* as requested */
    double stands_for;        /* how many blocks of this size the sample stands for, 1 or more: the sum of `stands_for`
                                 is an unbiased estimate of blocks, that of `bytes * stands_for` one of bytes */
    unsigned thread_id;       /* the kernel's number of the calling thread. In a fork's child, the thread that forked
                                 keeps the number it had in the parent, if it was sampled there */
    unsigned allocated_by;    /* thread_id of the thread that allocated the block; the same at its free */
    const void *const *stack; /* return addresses of the allocation, the innermost first; also at the free. The array
                                 stays valid until the process ends */
    size_t depth;             /* addresses in `stack`: 0 to 64. 0 where there are no stack traces (musl) */
};

/* Registers a callback for sampled events; NULL removes it. There is only one, as for hz_limit_notify: a new callback
   replaces the old one. (jemalloc's experimental.hooks.prof_sample and gperftools' MallocHook serve the same purpose.)
   Returns 0, or -1 with errno ENOTSUP if neither HAKOZUNA_PROFILE nor hz_sampling_start has begun the sampling in this
   process; then nothing is registered.

   The library calls the callback in the thread that allocates or frees, inside that call. It holds no lock of its own
   meanwhile, so other threads can go on, but the code that allocates may hold locks (the C library's among them). A
   block's allocation is reported before its free, and its free before another thread can get its address. A free is
   reported only to the registration that the allocation was reported to. So a table of live blocks that the callback
   keeps, with the block's address as key, is right from the registration on. realloc of a block above 64 KiB is
   reported as a free and, if the resized block is sampled, as an allocation. If realloc fails, the same block is
   reported as freed and allocated again.

   The callback may allocate and free, and call any function of this header. It is not called from inside itself: the
   blocks that it allocates are sampled but not reported, and if it frees a sampled block of the program, that is not
   reported either. It must return: it may not use longjmp, throw an exception or end the thread.

   Any thread may register and remove. After that call no new call of the old callback begins, but one that has begun
   can still be under way in another thread; so leave the old callback's code and context in place. A fork's child keeps
   the callback, and a child made from inside a callback returns from it. The callback is also called in a signal
   handler that allocates, unless the handler has interrupted the profile or the callback itself; a sampled block that
   such a handler frees is then not reported. */
typedef void hz_sampling_callback(const struct hz_sampling_event *event, void *context);
HZ_API int hz_sampling_notify(hz_sampling_callback *callback, void *context);

#ifdef __cplusplus
}
#endif

#endif /* HAKOZUNA_H */
