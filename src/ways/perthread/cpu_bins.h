/*
 * cpu_bins.h - in lanes without bins for each CPU: nothing. A thread's free blocks are in its own bins only
 * (heap/cache/bin.h). ../percpu/cpu_bins.h has the other way, and says what each function is for.
 */
#ifndef HZ_WAYS_PERTHREAD_CPU_BINS_H
#define HZ_WAYS_PERTHREAD_CPU_BINS_H

#include "heap/threads/thread_block.h"

_Static_assert(HZ_CPU_BYTES == 0, "the build compiled ways/perthread, but HZ_CPU_BYTES is not 0");

enum { HZ_HAS_CPU_BINS = 0 };

enum hz_cpu_rest { HZ_CPU_EMPTY, HZ_CPU_RESTS, HZ_CPU_WORKS };

HZ_INLINE void *hz_cpu_pop(size_t offset) {
    (void)offset;
    return NULL;
}

HZ_INLINE bool hz_cpu_is_joined(void) {
    return false;
}

HZ_INLINE bool hz_cpu_push(size_t offset, void *block) {
    (void)offset;
    (void)block;
    return false;
}

HZ_INLINE void hz_cpu_bins_join(struct hz_thread_block *self) {
    (void)self;
}

HZ_INLINE void hz_cpu_bins_leave(struct hz_thread_block *self) {
    (void)self;
}

HZ_INLINE void hz_cpu_bins_fill(struct hz_thread_block *self, unsigned size_class) {
    (void)self;
    (void)size_class;
}

HZ_INLINE bool hz_cpu_bins_free(struct hz_thread_block *self, unsigned size_class, void *block) {
    (void)self;
    (void)size_class;
    (void)block;
    return false;
}

HZ_INLINE void hz_cpu_bins_relieve(struct hz_thread_block *self, unsigned size_class) {
    (void)self;
    (void)size_class;
}

HZ_INLINE void hz_cpu_bins_class_send(struct hz_thread_block *self, unsigned size_class) {
    (void)self;
    (void)size_class;
}

HZ_INLINE void hz_cpu_bins_idle(struct hz_thread_block *self, unsigned busy, uint64_t now_ms) {
    (void)self;
    (void)busy;
    (void)now_ms;
}

HZ_INLINE void hz_cpu_bins_start(void) {
}

HZ_INLINE void hz_cpu_bins_stop(bool for_ever) {
    (void)for_ever;
}

HZ_INLINE bool hz_cpu_bins_has(struct hz_thread_block *thread) {
    (void)thread;
    return false;
}

HZ_INLINE enum hz_cpu_rest hz_cpu_bins_look(struct hz_thread_block *self) {
    (void)self;
    return HZ_CPU_EMPTY;
}

HZ_INLINE bool hz_cpu_bins_close(void) {
    return true;
}

HZ_INLINE uint32_t hz_cpu_bins_reclaim(struct hz_thread_block *self) {
    (void)self;
    return 0;
}

HZ_INLINE size_t hz_cpu_bins_held(unsigned size_class) {
    (void)size_class;
    return 0;
}

HZ_INLINE void hz_cpu_bins_walk(void (*visit)(void *context, const void *block), void *context) {
    (void)visit, (void)context;
}

HZ_INLINE void hz_cpu_bins_memory_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context) {
    (void)visit, (void)context;
}

HZ_INLINE void hz_cpu_bins_after_fork(void) {
}

HZ_INLINE void hz_cpu_bins_settle_fork(void) {
}

#endif
