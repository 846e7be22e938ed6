/*
 * huge.h - which units of 2 MiB the kernel is asked to back with huge pages.
 *
 * A huge page costs one page fault instead of 512, and one TLB entry. It also makes all of its 2 MiB resident. So a
 * unit is asked for when the first run in it is handed out, and only while the heap is large and nearly all of it is
 * dense: runs that hold small blocks, whose memory the program soon touches everywhere. Before a part of such a unit is
 * given back, huge pages are refused for the whole unit. Otherwise khugepaged would make the purged part resident
 * again.
 *
 * A unit gets small pages if the heap is not large and dense yet, or if the kernel was slow. hz_huge_collapse turns
 * them into a huge page later. The layer above calls it, in the background, for units that are in use everywhere.
 *
 * Where the kernel gives huge pages to everybody (THP = always), units that nobody asked for are refused in the same
 * way. Where it gives none, nothing is asked.
 */
#ifndef HZ_BASE_MAP_HUGE_H
#define HZ_BASE_MAP_HUGE_H

#include "base/os/atomic.h"
#include "base/os/compiler.h"

enum {
    HZ_HUGE_LOG2 = 21,
    HZ_HUGE_BYTES = 1 << HZ_HUGE_LOG2,
};

/* What the kernel was told about the two units of a segment: bits 0 and 1 asked, bits 2 and 3 an attempt to
   collapse is under way, bits 4 and 5 refused. Zero: nothing. */
typedef _Atomic(uint8_t) hz_huge_units;

/* Counts bytes of dense runs. Any thread. */
void hz_huge_count_dense(ptrdiff_t bytes);
void hz_huge_dense_set(size_t bytes); /* in a fork's child */

/* Whether a new unit should be asked for, in a heap with so many bytes in runs. Any thread. */
bool hz_huge_is_wanted(size_t used_bytes);

/* Asks for a unit. `run`: memory in it that the caller holds, which reads as zero, and is made resident here. If that
   takes long, because the kernel first has to move other memory, no unit is wanted for a while. Time spent waiting for
   a CPU does not count if hz_os_usage_get can tell how long that was. */
void hz_huge_ask(hz_huge_units *units, char *base, unsigned unit, char *run);

/* Whether small pages should be made huge. `used_bytes`: in all runs. Any thread. */
bool hz_huge_collapse_is_wanted(size_t used_bytes);

/* Three steps, one thread at a time. `begin` is false if the unit was asked for or refused. From then on a thread that
   gives back a part of the unit refuses the unit. So after `begin` the caller looks whether all of the unit holds
   memory, then calls `collapse` or `cancel`. `collapse` is true if it has made the unit huge, false if the unit was
   refused meanwhile or the kernel declined. */
bool hz_huge_collapse_begin(hz_huge_units *units, unsigned unit);
void hz_huge_collapse_cancel(hz_huge_units *units, unsigned unit);
bool hz_huge_collapse(hz_huge_units *units, char *base, unsigned unit);

/* After collapsing took `took_us`, no collapse is wanted for 19 times as long. */
void hz_huge_collapse_rest(uint64_t took_us);

/* A run is handed out in a segment at `base`: pages [first, first + pages) of HZ_PAGE_BYTES, all clean. Looks at those
   of its units that are new, that is, without a bit in `dirty_mask`. In a dense heap asks for them; otherwise refuses
   those that were asked for when it was dense. `used_bytes`: in all runs. */
void hz_huge_run_begin(hz_huge_units *units, char *base, unsigned first, unsigned pages, uint64_t dirty_mask,
                       size_t used_bytes);

/* Whether the unit was asked for, and not refused since. Any thread. */
HZ_INLINE bool hz_huge_is_asked(hz_huge_units *units, unsigned unit) {
    return (hz_load_rlx(units) >> unit & 1) != 0; /* relaxed: hint */
}

/* Before [offset, offset + bytes) of the segment at `base` is given back: refuses huge pages for units of which this is
   a part. Returns the pages, of HZ_PAGE_BYTES, of units that are refused now: these can hold memory where no run has
   been yet. Any thread that holds the range. */
uint64_t hz_huge_refuse_parts(hz_huge_units *units, char *base, size_t offset, size_t bytes);

/* [offset, offset + bytes) of the segment at `base` was mapped anew: tells the kernel again what it was told about the
   units. */
void hz_huge_tell_again(hz_huge_units *units, char *base, size_t offset, size_t bytes);

/* Whether a block should be a mapping of its own so that it can have huge pages: blocks that share a region get none,
   since the advice would outlive them. Not when as much rests as it takes (`resting_bytes`), nor when as large a block
   with huge pages was freed within the last second: such blocks had better share a region, where they are reused with
   their memory. Not in a pause after a slow unit either. Any thread. */
bool hz_huge_block_is_wanted(size_t bytes, size_t resting_bytes);

/* A block that is a mapping of its own begins at `base`. True if huge pages were asked for in it, which is never so in
   a pause after a slow unit. Nobody knows how much of such a block the program will touch. So all blocks with huge
   pages together may hold a quarter of the bytes of dense runs, which bounds what they can waste. The advice covers the
   whole block, since mremap refuses a range of two mappings. Any thread. */
bool hz_huge_block_begin(char *base, size_t bytes);

/* The block has got another length, and may have moved. `huge_bytes`: its length before if it had huge pages, else 0.
   True if it has them now. Any thread. */
bool hz_huge_block_resized(char *base, size_t huge_bytes, size_t bytes);

/* A block with huge pages ends. Any thread. */
void hz_huge_block_end(size_t bytes);

/* When the segment ends. */
void hz_huge_forget(hz_huge_units *units);

/* Reads how the kernel gives huge pages: `folder` is HZ_HUGE_FOLDER, or one of its form. What cannot be read stays as
   it was last read; before the first call, madvise is assumed. Any thread. */
#define HZ_HUGE_FOLDER "/sys/kernel/mm/transparent_hugepage"
void hz_huge_look(const char *folder);

struct hz_huge_figures {
    size_t asked;     /* units asked for since the start, */
    size_t refused;   /* and refused */
    size_t slow;      /* units that took the kernel more than 2 ms to make resident */
    size_t most_us;   /* the longest that one took */
    size_t collapsed; /* units whose small pages were made huge */
};
void hz_huge_figures_get(struct hz_huge_figures *figures);

#endif
