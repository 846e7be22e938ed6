/*
 * record.h - events of all threads into one mapped file.
 *
 * Order. Every event takes a number from one counter of the process: what ends a block (free, and realloc for the
 * block it is given) takes it before the allocator is called, what begins a block after the allocator has returned.
 * Sorting by that number therefore shows each address as begin, end, begin, end, ...:
 *   - begin before end: the freeing thread got the pointer from the allocating one. In a program without data race
 *     the allocating thread's increment happens before the freeing thread's.
 *   - end before the next begin: the first thread's increment comes before its call of free, and the allocator may
 *     only hand out the address again after that call has reached it (it synchronises, or it would hand out memory
 *     that is still written to); the second increment comes after malloc has returned it.
 * In both cases one increment happens before the other, and the modification order of one atomic object agrees with
 * that even when the increments are relaxed. A thread's own events are numbered in its program order.
 *
 * Threads. A thread writes to a chunk of its own. A chunk is a part of a mapped region of the file; leaving a
 * chunk needs no action at the thread's end, so events of destructors and of the C library's last clean-up are kept.
 *
 * Fork. The state lies in memory that a child finds zeroed (MADV_WIPEONFORK), and the chunks are not inherited at all
 * (MADV_DONTFORK): the child starts a recording and a file of its own with its first event. vfork's child runs in the
 * parent's memory and is recorded there, as it should be.
 * A signal handler that interrupts the recorder itself and forks is the exception: when its child returns from the
 * handler, the call it goes on with has a record in a chunk that the child does not have, and the child is killed.
 * POSIX leaves a child that does more than async-signal-safe calls undefined there.
 *
 * Descriptors. None is kept: the file is opened for each region and closed again, so a program that closes
 * everything, or that wants all numbers, is not disturbed. Nothing is ever written to the program's own descriptors,
 * except for one line when the file cannot be made at the start.
 */
#ifndef TRACE_RECORD_H
#define TRACE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "trace_format.h"

/* The number of an event; 0: nothing is being recorded, and the other functions do nothing with it. Any thread. */
uint64_t record_order(void);

/* `operation` is a function and flags, `alignment` 0 or what was asked for; the next power of two is recorded, for
   calls that failed only powers of two. */
void record_write(uint64_t order, unsigned operation, size_t alignment, const void *address, size_t size);

/* Two records side by side: writes the first, returns the second for record_fill (NULL: nothing is recorded). */
struct trace_record *record_pair(uint64_t order, unsigned operation, const void *address);

void record_fill(struct trace_record *record, uint64_t order, unsigned operation, size_t alignment, const void *address,
                 size_t size);

/* The program ends by exit(). */
void record_end(void);

#endif /* TRACE_RECORD_H */
