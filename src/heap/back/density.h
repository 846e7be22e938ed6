/*
 * density.h - how much memory the pages hold beside the blocks that are out of them, and which classes are sparse.
 *
 * A block outside its page, live or at rest in a bin or in the depot, keeps its system page from being given back. In a
 * dense class that costs little. In a sparse class, of whose blocks few are out, one block of 64 bytes can cost 4 KiB.
 * So while the pages hold much more than the blocks that are out, blocks of sparse classes rest nowhere.
 */
#ifndef HZ_HEAP_BACK_DENSITY_H
#define HZ_HEAP_BACK_DENSITY_H

#include "heap/threads/thread_block.h"

/* Bytes that the shards' pages hold beside the blocks that are out. */
size_t hz_density_slack(void);

/* Bytes of the blocks that are out of the pages, live or at rest. */
size_t hz_density_out(void);

/* The highest such figure of late: a look raises it, ageing lets it fall by 1/8 in each interval. Any thread. */
size_t hz_density_recent_out(void);
void hz_density_look(void);
void hz_density_age(void);

/* That figure less all pages of long blocks: live long blocks are no reason to let more small ones rest. Too little if
   blocks of these pages are free. */
size_t hz_density_recent_out_short(void);

/* What the slack and the depot may have together: these bytes, and one in `share` of the bytes that were out of late.
 */
struct hz_density_bound {
    size_t bytes;
    size_t share;
};

/* Whether the slack plus `resting`, the bytes in the depot, is above the bound. Any thread. */
bool hz_density_is_low(size_t resting, struct hz_density_bound bound);

/* Makes all classes not sparse, when the density is no longer low. Any thread. */
void hz_classes_forget_sparse(void);

/* Decides anew whether the class is sparse, and returns it. Call it while the density is low. Any thread. */
bool hz_class_look(unsigned size_class);

/* Whether the class is sparse, as of a recent look. Any thread. */
bool hz_class_is_sparse(unsigned size_class);

#endif
