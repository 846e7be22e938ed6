/*
 * shadow.h - what is on central, written down a second time: for each block there, its link. A block that comes a
 * second time and a link that changed meanwhile are found, and the block is named. For debugging (HZ_CENTRAL_SHADOW,
 * and the check build where central has a mutex): it doubles the memory of 16-byte blocks.
 *
 * Add and remove need the lock of the central they are for. Blocks outside the arena, and those of a segment for whose
 * notes there was no memory, are not watched.
 */
#ifndef HZ3_SHADOW_H
#define HZ3_SHADOW_H

#include "base/list.h"
#include "core/knobs.h"

_Static_assert(!(HZ_CENTRAL_SHADOW && HZ_CENTRAL_LOCKFREE),
               "HZ_CENTRAL_SHADOW: needs HZ_CENTRAL_LOCKFREE=0, else block and note cannot change together");

enum { HZ3_CENTRAL_SHADOWED = (HZ_CENTRAL_SHADOW || HZ_CONFIG_CHECKS) && !HZ_CENTRAL_LOCKFREE };

/* Makes room for notes on the list's blocks. Before the lock is taken: it may need memory. */
void hz3_shadow_prepare(const struct hz_list *list);

/* The list, which is linked to what is there already, comes onto central. Ends the program if a block of it is there.
 */
void hz3_shadow_add(const struct hz_list *list);

/* All of it is taken. Ends the program if a link is not what was written down. */
void hz3_shadow_remove(hz_list_word word);

#endif
