/*
 * record.h - writes the events of all threads into one mapped file.
 *
 * Order. Every event takes a number from one counter of the process. An event that ends a block (free, and realloc for
 * the block it is given) takes its number before the allocator is called; an event that begins a block takes it after
 * the allocator has returned. Sorted by number, the events of each address are therefore begin, end, begin, end, ...:
 *   - begin before end: the freeing thread got the pointer from the allocating one. In a program without data races
 *     the allocating thread's increment happens before the freeing thread's.
 *   - end before the next begin: the first thread's increment comes before its call of free. The allocator may hand out
 *     the address again only after that call has reached it (it synchronises, or it would hand out memory that is still
 *     being written to). The second increment comes after malloc has returned the address.
 * In both cases one increment happens before the other, and the modification order of one atomic object agrees with
 * that even when the increments are relaxed. A thread's own events are numbered in its program order.
 *
 * Threads. A thread writes to its own chunk. A chunk is a part of a mapped region of the file. A thread need not do
 * anything about its chunk when it ends, so events of destructors and of the C library's last clean-up are kept.
 *
 * Fork. The state lies in memory that a child finds zeroed (MADV_WIPEONFORK), and the child does not inherit the chunks
 * (MADV_DONTFORK): with its first event the child starts its own recording in its own file. A child of vfork runs in
 * the parent's memory and is recorded there, as it should be.
 * There is one exception: a signal handler that interrupts the recorder itself and forks. When the child returns from
 * the handler, it continues a call whose record is in a chunk that the child does not have, and is killed. POSIX leaves
 * it undefined what happens when such a child makes calls that are not async-signal-safe.
 *
 * Descriptors. The recorder keeps none: it opens the file for each region and closes it again, so it does not disturb a
 * program that closes all descriptors or relies on their numbers. It never writes to the program's own descriptors,
 * except for one line when the file cannot be created at the start.
 */
#ifndef TRACE_RECORD_H
#define TRACE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "trace_format.h"

/* Any thread. Returns the number of a new event; 0: nothing is being recorded, and the other functions ignore it. */
uint64_t record_order(void);

/* `operation` is a function with flags; `alignment` is the requested one, or 0. The recorded alignment is the next
   power of two; for a failed call an alignment is recorded only if it is a power of two. */
void record_write(uint64_t order, unsigned operation, size_t alignment, const void *address, size_t size);

/* Takes two adjacent records, writes the first and returns the second for record_fill (NULL: nothing is recorded). */
struct trace_record *record_pair(uint64_t order, unsigned operation, const void *address);

void record_fill(struct trace_record *record, uint64_t order, unsigned operation, size_t alignment, const void *address,
                 size_t size);

/* Notes that the program ends by exit(). */
void record_end(void);

#endif /* TRACE_RECORD_H */
