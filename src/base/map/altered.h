/*
 * altered.h - the system pages of a segment that the program has changed by calls of its own (mprotect, mlock, madvise,
 * ...), and how they become plain memory again.
 *
 * The program changes the memory of its live blocks, and what it has set lies on the addresses, not in the block. So
 * each change leaves marks, and memory with marks is mapped anew before anybody else gets it. What a program changes
 * behind our back (a system call of its own) leaves no mark; it ends when the memory is mapped anew on demand.
 *
 * The thread that holds a block sets its marks, and the program orders that before the block's free, so relaxed
 * operations are enough. A mark is cleared after its memory was mapped anew, so a fork's copy never has altered memory
 * without a mark.
 */
#ifndef HZ_BASE_MAP_ALTERED_H
#define HZ_BASE_MAP_ALTERED_H

#include "base/map/huge.h"
#include "base/map/pagetag.h"
#include "base/os/atomic.h"
#include "base/os/compiler.h"

enum {
    HZ_MARK_LOG2 = 12, /* a mark stands for 4 KiB, the smallest system page */
    HZ_MARK_PAGES = 64,
    HZ_MARKS = (HZ_MARK_PAGES << HZ_PAGE_LOG2) >> HZ_MARK_LOG2,
};

/* Of one segment. */
struct hz_altered {
    _Atomic(uint64_t) pages;                /* hint; arena pages that can have marks */
    _Atomic(uint64_t) plain;                /* owner: the memory's holder; pages that went back by being mapped anew */
    _Atomic(uint64_t) marks[HZ_MARKS / 64]; /* owner: the memory's holder */
};

/* Marks [offset, offset + bytes) of the segment: whole system pages. Any thread, in a signal handler too. */
void hz_altered_mark(struct hz_altered *altered, size_t offset, size_t bytes);

/* Whether a run of arena pages can have marks. */
HZ_INLINE bool hz_altered_is_likely(struct hz_altered *altered, unsigned first, unsigned pages) {
    /* relaxed: the holder of the run has set the bits, or has got the block from the thread that has */
    return HZ_UNLIKELY(((hz_load_rlx(&altered->pages) >> first) & (UINT64_MAX >> (64 - pages))) != 0);
}

/* Maps the marked pages within [offset, offset + bytes), whole system pages, of the segment at `base` anew. The new
   memory is empty, and the library tells the kernel again what it had told it about the old. If the kernel refuses, the
   pages are made accessible and keep their marks. False if that is refused too: the memory cannot be used. The caller
   holds the memory. */
bool hz_altered_heal(struct hz_altered *altered, hz_huge_units *units, char *base, size_t offset, size_t bytes);

/* After hz_altered_heal of whole arena pages: clears the hint of each page that has no marks left. */
void hz_altered_forget(struct hz_altered *altered, unsigned first, unsigned pages);

/* Gives the memory of [offset, offset + bytes) back, and heals marked pages. With `anew` all of it is mapped anew, so
   that changes without marks end as well. That is skipped while new mappings are locked, and in a fork's child once it
   may have added 2,048 mappings. False when refused. The caller holds the memory. */
bool hz_altered_give_back(struct hz_altered *altered, hz_huge_units *units, char *base, size_t offset, size_t bytes,
                          bool anew);

/* Whether the program wants new mappings locked (mlockall with MCL_FUTURE): memory that is mapped is filled at once,
   and the kernel takes none back. */
void hz_altered_lock_set(bool new_is_locked);

/* In a fork's child. Its memory is not locked (mlock), and the number of its renewals is limited from now on: older
   kernels do not merge its new mappings with their neighbours, and a process has 65,530 mappings. */
void hz_altered_after_fork(void);

#endif
