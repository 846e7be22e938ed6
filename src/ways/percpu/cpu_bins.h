/*
 * cpu_bins.h - free blocks of the CPUs: for each CPU a slab with one stack for each size class.
 *
 * A thread that has joined takes blocks from the slab of the CPU on which it runs, and frees into it, by restartable
 * sequences (rseq.h). Its own bins (heap/cache/bin.h) are then only a way through: a refill fills them, and
 * hz_cpu_bins_fill moves the blocks on. They also serve when the CPU has no slab at the moment. So what threads keep
 * grows with the number of CPUs and not of threads.
 *
 * Threads join only while the keeper runs. Without it nobody could empty the slab of a CPU that no thread uses any
 * more, and a process with one thread gains nothing. Threads do not join without glibc's rseq, without
 * membarrier(2), and while allocations are sampled (heap/cache/sampler.h): they use their own bins, as in other lanes.
 *
 * A slab is open or closed. An open slab is in hz_cpu_slabs, where the sections find it. To close one, a thread takes
 * it out of the table and has the kernel restart every section that is under way (hz_rseq_fence). Afterwards no
 * section can commit in it: one that began before was restarted, and one that began later finds no slab. A closed slab
 * may have blocks; whoever marks it as taken, under slabs_lock, has them to himself. A slow path opens it again when it
 * is empty.
 *
 * Edge "cpu-bins": the fence, between the last commit in a slab and the thread that closes it; and the release of
 * the slab into the table, between that thread and the next section, whose loads depend on the slab's address. Between
 * two sections of one CPU, or one virtual CPU, lies a switch of threads, which the kernel orders.
 *
 * A fork copies a slab whole at any instant, since one store changes a stack. It may lack a block that was in a
 * thread's hands.
 */
#ifndef HZ_WAYS_PERCPU_CPU_BINS_H
#define HZ_WAYS_PERCPU_CPU_BINS_H

#include "heap/threads/thread_block.h"
#include "rseq.h"

_Static_assert(HZ_CPU_BYTES > 0, "the build compiled ways/percpu, but HZ_CPU_BYTES is 0");
_Static_assert(!HZ_HAS_HOME,
               "HZ_CPU_BYTES: needs HZ_HOME_BELOW_BYTES=0, or blocks of other shards would rest in a CPU's bins");

enum { HZ_HAS_CPU_BINS = 1 };

/* A stack of block pointers. The slot below its first one is always NULL. */
struct hz_cpu_bin {
    _Atomic(uint32_t) top;   /* sync: cpu-bins; changed by sections, or while the slab is taken */
    _Atomic(uint32_t) limit; /* hint; at most the end of the stack's slots */
    uint32_t first;          /* const after publish: offset of the first slot */
    _Atomic(uint32_t) room;  /* hint: blocks that it may hold now, at most hz_bin_capacity */
};

_Static_assert(sizeof(struct hz_cpu_bin) == sizeof(struct hz_bin), "one offset names a class's bin in both");
_Static_assert(offsetof(struct hz_cpu_bin, top) == HZ_RSEQ_TOP && offsetof(struct hz_cpu_bin, limit) == HZ_RSEQ_LIMIT,
               "rseq.h has the offsets");

/* Bins of one CPU. The slots follow behind it. */
struct hz_cpu_slab {
    struct hz_cpu_bin bins[HZ_CLASS_COUNT]; /* bins[0] is empty and full for ever */
    struct hz_cpu_slab *made_before;        /* const after publish */
    uint32_t number;                        /* const after publish: of the CPU */
    uint32_t state;                         /* lock: slabs_lock; enum slab_state */
    bool is_unused;                         /* keeper: to be closed in this round */
    uint32_t rounds_unused;                 /* keeper: rounds since the tops moved */
    uint64_t tops_seen;                     /* keeper: digest of the tops at the last round */
    _Atomic(uint32_t) victim;               /* hint: the class that last had to give up room */
    _Atomic(uint32_t) visits;               /* hint: slow-path visits of all bins */
    _Atomic(uint32_t) idle_next;            /* hint: class at which the look for idle bins goes on; 0: none goes on */
    _Atomic(uint64_t) idle_at_ms;           /* hint: when that look began */
    _Atomic(uint32_t) visited[HZ_CLASS_COUNT];   /* hint: for each bin, `visits` at the last one */
    _Atomic(uint32_t) idle_tops[HZ_CLASS_COUNT]; /* hint: each top at the look before */
};

/* How the thread reaches the bins of its CPU. `pops` NULL: it has not joined. */
struct hz_cpu_link {
    uint64_t *pops;      /* owner; rseq_cs, for pops */
    uint64_t *pushes;    /* owner; the same, for pushes; NULL while the thread's frees are watched */
    const uint32_t *cpu; /* owner; the number of the CPU, which the kernel writes */
};

extern HZ_HIDDEN HZ_TLS struct hz_cpu_link hz_cpu_link;

/* sync: cpu-bins; by the CPU's number. NULL: closed, or never made */
extern HZ_HIDDEN _Atomic(struct hz_cpu_slab *) hz_cpu_slabs[HZ_CPUS];

/* What rests in the slabs, as the keeper sees it: nothing; something; something that changes. */
enum hz_cpu_rest { HZ_CPU_EMPTY, HZ_CPU_RESTS, HZ_CPU_WORKS };

/* The newest block of the CPU's bin that the offset names; NULL: none. */
HZ_INLINE void *hz_cpu_pop(size_t offset) {
    uint64_t *cs = hz_cpu_link.pops;
    /* sync: cpu-bins, partners slab_open, hz_cpu_push. The section reads the slab, and then the block, by its address
     */
    return HZ_LIKELY(cs != NULL) ? hz_rseq_pop(cs, hz_cpu_link.cpu, hz_cpu_slabs, offset) : NULL;
}

/* Whether the thread frees into the bins of its CPU. */
HZ_INLINE bool hz_cpu_is_joined(void) {
    return HZ_LIKELY(hz_cpu_link.pushes != NULL);
}

/* False, and nothing was done, if the bin is at its limit, if the block is its newest one, or if there is no bin. The
   thread has joined. */
HZ_INLINE bool hz_cpu_push(size_t offset, void *block) {
    uint64_t *cs = hz_cpu_link.pushes; /* NULL: a handler has forked since, and the child's thread has left */
    /* sync: cpu-bins, partners slab_open, slab_inspect. The section reads the slab by its address */
    return HZ_LIKELY(cs != NULL) && hz_rseq_push(cs, hz_cpu_link.cpu, hz_cpu_slabs, offset, block);
}

/* For slow paths. Joins the thread if it can join now, for frees as soon as they are no longer watched. Leaves when
   there is no keeper any more. */
void hz_cpu_bins_join(struct hz_thread_block *self);
void hz_cpu_bins_leave(struct hz_thread_block *self);

/* Moves the blocks of the thread's own bin, which a refill has just filled, into the CPU's bin, as far as there is
   room. */
void hz_cpu_bins_fill(struct hz_thread_block *self, unsigned size_class);

/* Frees a block that no push took. Ends the program if it is free already. False if the CPU's bin is full, or there is
   none: the caller still has the block. */
bool hz_cpu_bins_free(struct hz_thread_block *self, unsigned size_class, void *block);

/* Takes half of the blocks out of the CPU's bin, for the depot or home. */
void hz_cpu_bins_relieve(struct hz_thread_block *self, unsigned size_class);

/* Sends home what the CPU's bin has. */
void hz_cpu_bins_class_send(struct hz_thread_block *self, unsigned size_class);

/* As hz_idle_bins_flush, for the bins of the CPU. */
void hz_cpu_bins_idle(struct hz_thread_block *self, unsigned busy, uint64_t now_ms);

/* The keeper begins, or ends: threads may join, unless allocations are sampled, or no longer, and all slabs are closed.
   If the kernel no longer allows the fence, everything stays as it is. Any thread, holding no lock. */
void hz_cpu_bins_start(void);
void hz_cpu_bins_stop(bool for_ever);
bool hz_cpu_bins_are_on(void);

/* Whether the thread frees into the bins of its CPU. A hint, for other threads. */
bool hz_cpu_bins_has(struct hz_thread_block *thread);

/* A round of the keeper. Empties the slabs that were not used for many rounds. */
enum hz_cpu_rest hz_cpu_bins_look(struct hz_thread_block *self);

/* Closes all slabs. Slow paths open the empty ones again, and the others after hz_cpu_bins_reclaim, which must follow.
   False if the kernel refused the fence: all slabs are open. Any thread, holding no lock. */
bool hz_cpu_bins_close(void);

/* Sends home what is in closed slabs. Returns the number of blocks. Any thread, holding no lock. */
uint32_t hz_cpu_bins_reclaim(struct hz_thread_block *self);

/* Blocks of a class in all slabs. A figure. */
size_t hz_cpu_bins_held(unsigned size_class);

/* Calls `visit` for each block in the slabs; and for the memory of each slab. For a moment at which no other thread is
   in the heap or runs. */
void hz_cpu_bins_walk(void (*visit)(void *context, const void *block), void *context);
void hz_cpu_bins_memory_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context);

/* In a fork's child: hz_cpu_bins_after_fork repairs the lock; hz_cpu_bins_settle_fork, while the child's thread is
   outside the heap, closes all slabs, whose blocks hz_cpu_bins_reclaim then finds. */
void hz_cpu_bins_after_fork(void);
void hz_cpu_bins_settle_fork(void);

#endif
