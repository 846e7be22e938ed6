/*
 * block_link.h - follows the link in a free block. The program had that memory and may still write to it.
 */
#ifndef HZ_WAYS_LISTS_BLOCK_LINK_H
#define HZ_WAYS_LISTS_BLOCK_LINK_H

#include "base/map/pagetag.h"
#include "heap/misuse.h"
#include "list.h"

/* The next block, as the link names it. Ends the program unless that block lies in a page of the class: otherwise the
   program has overwritten the link. */
HZ_INLINE void *hz_link_follow(unsigned size_class, const void *block) {
    void *next = hz_block_next(block);
    if (HZ_UNLIKELY(hz_pagetag_class(next) != size_class))
        hz_misuse(HZ_TEXT_LIST, block, HZ_FOUND_LATER);
    return next;
}

#endif
