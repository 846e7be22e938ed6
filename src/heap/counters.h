/*
 * counters.h - what each thread counts. counters.def and engine_counters.def say what each counter means.
 */
#ifndef HZ_HEAP_COUNTERS_H
#define HZ_HEAP_COUNTERS_H

#include "base/os/atomic.h"
#include "base/os/compiler.h"

/* Written by the thread block's owner, read by statistics. */
struct hz_counters {
#define COUNTER(group, field, name, kind, text) _Atomic(uint64_t) field;
#include "engine_counters.def"
#include "heap/counters.def"
#undef COUNTER
    /* Blocks that flushes took out of mid bins, minus blocks that refills brought, modulo 2^64. The number of frees
       follows from it, the hits and what the bins hold, so free itself need not count. */
    _Atomic(uint64_t) mid_moved;
};

/* There is one writer, so no read-modify-write is needed. */
HZ_INLINE void hz_count(_Atomic(uint64_t) *counter, uint64_t by) {
    hz_store_rlx(counter, hz_load_rlx(counter) + by); /* relaxed: counter, written by its owner only */
}

#endif
