/*
 * link.h - follows a link in a free block. The link lies in memory that the program had and may still write to.
 */
#ifndef HZ_HEAP_PAGES_LINK_H
#define HZ_HEAP_PAGES_LINK_H

#include "base/list.h"
#include "base/pagetag.h"
#include "heap/misuse.h"

/* The block that the program's memory names as the next one. Ends the program unless that lies in a page of the class,
   as it does not if the program has overwritten the link. */
HZ_INLINE void *hz_link_follow(unsigned size_class, const void *block) {
    void *next = hz_block_next(block);
    if (HZ_UNLIKELY(hz_pagetag_class(next) != size_class))
        hz_misuse(HZ_TEXT_LIST, block, HZ_FOUND_LATER);
    return next;
}

#endif
