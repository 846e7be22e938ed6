/*
 * pressure.h - how much the heap holds beside what the program uses, whether that is too much, and which classes are
 * sparse.
 *
 * A block outside its page, live or at rest in a bin or in the depot, keeps its system page from being given back. In a
 * dense class that costs little. In a sparse class, of whose blocks few are out, one block of 64 bytes can cost 4 KiB.
 * So while the pages hold much more than the blocks that are out, blocks of sparse classes do not rest in the depot,
 * and a bin of such a class has room for at most 8 blocks.
 *
 * All functions: any thread.
 */
#ifndef HZ_HEAP_BACK_PRESSURE_H
#define HZ_HEAP_BACK_PRESSURE_H

#include "heap/threads/thread_block.h"

/* Bytes that the shards' pages hold beside the blocks that are out. */
size_t hz_pressure_slack(void);

/* Bytes of the blocks that are out of the pages, live or at rest. */
size_t hz_pressure_out(void);

/* The highest such figure of late: a look raises it, ageing lets it fall by 1/8 in each interval. */
size_t hz_pressure_recent_out(void);
void hz_pressure_look(void);
void hz_pressure_age(void);

/* That figure less all pages of long blocks: live long blocks are no reason to let more small ones rest. An
   underestimate while blocks of these pages are free. */
size_t hz_pressure_recent_out_short(void);

/* Who gives memory back (chores.h). */
enum hz_driver {
    HZ_TICK_BESIDE, /* a slow path while the keeper runs */
    HZ_TICK_ALONE,  /* a slow path where there is no keeper */
    HZ_ROUND,       /* the keeper */
    HZ_DEMAND,      /* hz_purge, malloc_trim, an allocation that finds no memory, a soft limit */
};

/* In rising order. */
enum hz_pressure {
    HZ_CALM,
    HZ_LOOSE, /* the slack is large: the keeper walks over the pages even while threads work */
    HZ_LOW,   /* above the driver's bound, so the density of pages is low: blocks of sparse classes go home */
    HZ_OVER,  /* above the soft limit, with more than the limit's bound held: blocks of all classes go home */
};

/* What the bounds of policy.def say for the driver. `resting`: the bytes in the depot. */
enum hz_pressure hz_pressure_get(enum hz_driver driver, size_t resting);

/* Threads that are attached and not parked, which share what all bins may have; at least 1. A thread joins because it
   attaches or resumes; it leaves because it ends or was parked. After a fork `threads` are left. */
size_t hz_pressure_threads(void);
void hz_pressure_join(void);
void hz_pressure_leave(void);
void hz_pressure_after_fork(uint32_t threads);

/* Makes all classes not sparse, when the pressure is no longer LOW. */
void hz_classes_forget_sparse(void);

/* Decides anew whether the class is sparse, and returns it. `spare`: its blocks in the depot that are as little in use
   as those in pages: when a burst is over, nearly all of a class can be there. Call it while the pressure is LOW or
   OVER. */
bool hz_class_look(unsigned size_class, uint32_t spare);

/* Whether the class is sparse, as of a recent look. */
bool hz_class_is_sparse(unsigned size_class);

#endif
