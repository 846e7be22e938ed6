/*
 * batches.h - batches of blocks, and stacks of them: arrays of block pointers that pass from thread to thread. The
 * depot (depot.h) says which stack a block goes to. Any thread; lock-free.
 *
 * *Parts* divide among the CPUs what all threads use: a thread takes the part of its CPU first.
 */
#ifndef HZ_HEAP_CACHE_BATCHES_H
#define HZ_HEAP_CACHE_BATCHES_H

#include "heap/pages/shard.h"

/* A stack on a line of its own, so that threads that use different classes do not disturb each other. */
struct hz_part_stack {
    HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct hz_stack stack;
};

enum {
    HZ_STACK_COUNT_BITS = 20,
    HZ_STACK_BLOCKS_MAX = (1 << HZ_STACK_COUNT_BITS) - 1,
};

/* The most parts for `cpus` CPUs: 8, or a part for every 4 CPUs if that is more, but never more than HZ_DEPOT_PARTS.
   With few parts each one's share of a limit is large; with many parts few CPUs contend for a stack. */
HZ_INLINE uint32_t hz_parts_for(uint32_t cpus) {
    return (uint32_t)hz_min(hz_max(8, cpus / 4), HZ_DEPOT_PARTS);
}

/* Makes parts for the CPUs of the last look (base/process/cpus.h), unless there would then be fewer. Before the first
   call there is one part. Any thread. */
void hz_parts_divide(void);

/* The number of parts, the part of the CPU that the thread is on, and the next one. */
uint32_t hz_part_count(void);
uint32_t hz_part_here(void);
uint32_t hz_part_after(uint32_t part);

/* Differs between most threads. */
uint16_t hz_thread_mark(const struct hz_thread_block *self);

/* Pushes `count` (1..HZ_BATCH_COUNT) blocks as a batch. False if the stack would then have more than `cap` blocks, or
   when there is no memory for a batch. */
bool hz_stack_push(struct hz_thread_block *self, struct hz_stack *stack, uint32_t cap, void *const *blocks,
                   uint32_t count);

/* Pops a batch, for hz_batch_take. 0 when the stack is empty. `count`: most blocks that the caller will read. */
uint32_t hz_stack_pop(struct hz_stack *stack, uint32_t count);

/* Copies the blocks of a popped batch to `out` or, if that is NULL, above the top of the thread's bin, which is empty,
   and the mark of the thread that pushed them to *from. Keeps the empty batch. Returns the number of blocks; 0 if
   `index` is 0. */
uint32_t hz_batch_take(struct hz_thread_block *self, unsigned size_class, uint32_t index, void **out, uint16_t *from);

/* Blocks in the stack now. */
uint32_t hz_stack_blocks(struct hz_stack *stack);

/* Whether the stack was pushed to or popped from since the last call. One thread at a time, else a hint. */
bool hz_stack_was_used(struct hz_stack *stack);

/* Calls `visit` for each block in the stack; and for each piece of memory that batches are in. For a moment at which no
   other thread is in the heap. */
void hz_stack_walk(struct hz_stack *stack, void (*visit)(void *context, const void *block), void *context);
void hz_batches_memory_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context);

/* Returns the thread's empty batches, for other threads. */
void hz_spares_return(struct hz_thread_block *self);

#endif
