/*
 * ring.h - a ring that carries blocks from one thread to another: one producer, one consumer.
 *
 * A ring is an element of an array from machine_map. It is opened before the threads start.
 */
#ifndef WORKLOADS_RING_H
#define WORKLOADS_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "block.h"
#include "machine.h"

struct ring {
    _Alignas(MACHINE_LINE_BYTES) _Atomic(uint64_t) sent;     /* sync: ring-publish; written by the producer */
    uint64_t room_until;                                     /* owner: producer; no send below this number blocks */
    _Atomic(bool) closed;                                    /* sync: ring-close; the producer sends no more */
    _Alignas(MACHINE_LINE_BYTES) _Atomic(uint64_t) received; /* sync: ring-free; written by the consumer */
    _Alignas(MACHINE_LINE_BYTES) block_ticket *blocks;       /* const after publish */
    uint64_t mask;                                           /* const after publish */
};

/* `slots` is a power of two. */
static inline void ring_open(struct ring *ring, uint64_t slots) {
    ring->blocks = machine_map(slots, sizeof *ring->blocks);
    ring->mask = slots - 1;
    ring->room_until = slots;
}

/* Consumer. Returns the number behind the last block that has been sent, and the number of the first one in *first. The
   blocks are blocks[number & mask]. ring-publish: a thread that reads the raised `sent` also sees the blocks stored
   before the raise. */
static inline uint64_t ring_sent(struct ring *ring, uint64_t *first) {
    /* relaxed: owner */
    *first = atomic_load_explicit(&ring->received, memory_order_relaxed);
    /* sync: ring-publish, ring_send */
    return atomic_load_explicit(&ring->sent, memory_order_acquire);
}

/* Consumer. Returns the entries of all blocks below `end` to the producer. */
static inline void ring_received(struct ring *ring, uint64_t end) {
    /* sync: ring-free, ring_send */
    atomic_store_explicit(&ring->received, end, memory_order_release);
}

/* Producer; false when the ring is full. ring-free: a thread that reads the raised `received` may overwrite the entries
   that were read before the raise. */
static inline bool ring_send(struct ring *ring, block_ticket block) {
    /* relaxed: owner */
    uint64_t at = atomic_load_explicit(&ring->sent, memory_order_relaxed);
    if (at == ring->room_until) {
        /* sync: ring-free, ring_received */
        ring->room_until = atomic_load_explicit(&ring->received, memory_order_acquire) + ring->mask + 1;
        if (at == ring->room_until) {
            return false;
        }
    }
    ring->blocks[at & ring->mask] = block;
    /* sync: ring-publish, ring_sent */
    atomic_store_explicit(&ring->sent, at + 1, memory_order_release);
    return true;
}

/* Producer: it sends no more. */
static inline void ring_close(struct ring *ring) {
    /* sync: ring-close, ring_is_closed */
    atomic_store_explicit(&ring->closed, true, memory_order_release);
}

/* Consumer. ring-close: all sends come before `closed`, so a look at the ring after reading true finds the last block.
 */
static inline bool ring_is_closed(struct ring *ring) {
    /* sync: ring-close, ring_close */
    return atomic_load_explicit(&ring->closed, memory_order_acquire);
}

#endif /* WORKLOADS_RING_H */
