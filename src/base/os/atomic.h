/*
 * atomic.h - the only door to C11 atomics. The memory order is part of each name.
 *
 * rlx = relaxed, acq = acquire, rel = release, ar = acquire and release. A compare-and-swap names two orders: that of
 * its success, then that of its failure. Each use in the library carries a comment: `sync: <edge>` with the partner
 * function, or the reason why relaxed is enough (counter, hint, owner, lock, cas, figure).
 */
#ifndef HZ_BASE_OS_ATOMIC_H
#define HZ_BASE_OS_ATOMIC_H

#include "base/os/compiler.h"

#include <stdatomic.h>

#define hz_load_rlx(p)     atomic_load_explicit((p), memory_order_relaxed)
#define hz_load_acq(p)     atomic_load_explicit((p), memory_order_acquire)
#define hz_store_rlx(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define hz_store_rel(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define hz_xchg_rlx(p, v)  atomic_exchange_explicit((p), (v), memory_order_relaxed)
#define hz_xchg_acq(p, v)  atomic_exchange_explicit((p), (v), memory_order_acquire)
#define hz_xchg_rel(p, v)  atomic_exchange_explicit((p), (v), memory_order_release)
#define hz_xchg_ar(p, v)   atomic_exchange_explicit((p), (v), memory_order_acq_rel)
#define hz_add_rlx(p, v)   atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define hz_sub_rlx(p, v)   atomic_fetch_sub_explicit((p), (v), memory_order_relaxed)
#define hz_add_ar(p, v)    atomic_fetch_add_explicit((p), (v), memory_order_acq_rel)
#define hz_sub_ar(p, v)    atomic_fetch_sub_explicit((p), (v), memory_order_acq_rel)
#define hz_or_rlx(p, v)    atomic_fetch_or_explicit((p), (v), memory_order_relaxed)
#define hz_or_acq(p, v)    atomic_fetch_or_explicit((p), (v), memory_order_acquire)
#define hz_or_rel(p, v)    atomic_fetch_or_explicit((p), (v), memory_order_release)
#define hz_and_rlx(p, v)   atomic_fetch_and_explicit((p), (v), memory_order_relaxed)
#define hz_and_rel(p, v)   atomic_fetch_and_explicit((p), (v), memory_order_release)
#define hz_and_acq(p, v)   atomic_fetch_and_explicit((p), (v), memory_order_acquire)
#define hz_cas_rlx_rlx(p, e, v)                                                                                        \
    atomic_compare_exchange_weak_explicit((p), (e), (v), memory_order_relaxed, memory_order_relaxed)
#define hz_cas_acq_rlx(p, e, v)                                                                                        \
    atomic_compare_exchange_weak_explicit((p), (e), (v), memory_order_acquire, memory_order_relaxed)
#define hz_cas_acq_acq(p, e, v)                                                                                        \
    atomic_compare_exchange_weak_explicit((p), (e), (v), memory_order_acquire, memory_order_acquire)
#define hz_cas_rel_rlx(p, e, v)                                                                                        \
    atomic_compare_exchange_weak_explicit((p), (e), (v), memory_order_release, memory_order_relaxed)
#define hz_cas_ar_rlx(p, e, v)                                                                                         \
    atomic_compare_exchange_weak_explicit((p), (e), (v), memory_order_acq_rel, memory_order_relaxed)
/* The strong compare-and-swaps never fail by chance, so a single attempt is enough. */
#define hz_cas_strong_acq_rlx(p, e, v)                                                                                 \
    atomic_compare_exchange_strong_explicit((p), (e), (v), memory_order_acquire, memory_order_relaxed)
#define hz_cas_strong_rel_rlx(p, e, v)                                                                                 \
    atomic_compare_exchange_strong_explicit((p), (e), (v), memory_order_release, memory_order_relaxed)
#define hz_cas_strong_ar_acq(p, e, v)                                                                                  \
    atomic_compare_exchange_strong_explicit((p), (e), (v), memory_order_acq_rel, memory_order_acquire)

/* A slot is a plain word, mostly a pointer, that one thread at a time writes: its owner, or the thread that empties the
   bins of a parked owner. Other threads can read it. */
#define hz_slot_load_acq(slot)         __atomic_load_n((slot), __ATOMIC_ACQUIRE)
#define hz_slot_store_rel(slot, value) __atomic_store_n((slot), (value), __ATOMIC_RELEASE)
#define hz_slot_load_rlx(slot)         __atomic_load_n((slot), __ATOMIC_RELAXED)
#define hz_slot_store_rlx(slot, value) __atomic_store_n((slot), (value), __ATOMIC_RELAXED)

/*
 * Adds a constant to a word that only the calling thread writes; other threads can read it at any time. All earlier
 * writes of the thread come before the addition (release). On x86-64 this is one instruction without a lock prefix.
 * Compilers turn the portable form into three instructions.
 */
HZ_INLINE void hz_owner_add_rel(_Atomic(uint32_t) *word, int by) {
    if (HZ_ASM_X86_64)
        __asm__ volatile("addl %1, %0" : "+m"(*word) : "ir"(by) : "memory", "cc");
    else
        hz_store_rel(word, hz_load_rlx(word) + (uint32_t)by);
}

/* Keeps the compiler from moving memory accesses across it. Needed where a fork can copy memory between two stores of a
   thread. */
#define hz_signal_fence() atomic_signal_fence(memory_order_seq_cst)

#endif
