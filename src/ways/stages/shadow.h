/*
 * shadow.h - keeps a second record of central: a note of each block's link. It finds a block that comes twice and a
 * link that changed meanwhile, and names the block. For debugging (HZ_CENTRAL_SHADOW, and the check build where central
 * has a mutex): notes take up to half as much memory as the blocks.
 *
 * Add and remove need the lock of the central that they work for. Blocks outside the arena are not watched, nor blocks
 * of a segment for whose notes there was no memory.
 */
#ifndef HZ_WAYS_STAGES_SHADOW_H
#define HZ_WAYS_STAGES_SHADOW_H

#include "heap/knobs.h"
#include "list.h"

#define HZ_TEXT_TWICE     "block is on central already:"
#define HZ_TEXT_REWRITTEN "link was rewritten on central in block:"

_Static_assert(!(HZ_CENTRAL_SHADOW == 1 && HZ_CENTRAL_LOCKFREE == 1),
               "HZ_CENTRAL_SHADOW: needs HZ_CENTRAL_LOCKFREE=0, or block and note cannot change together");

enum { HZ_CENTRAL_SHADOWED = (HZ_CENTRAL_SHADOW == 1 || HZ_CONFIG_CHECKS == 1) && HZ_CENTRAL_LOCKFREE == 0 };

/* Makes room for notes on the list's blocks. May need memory, so the caller does it before it takes the lock. */
void hz_shadow_prepare(const struct hz_list *list);

/* Notes a list that comes onto central; its tail is already linked to what is there. Ends the program if one of its
   blocks is there already. */
void hz_shadow_add(const struct hz_list *list);

/* Forgets a list that was taken. Ends the program if a link is not what was noted. */
void hz_shadow_remove(hz_list_word word);

#endif
