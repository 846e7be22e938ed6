/*
 * list_check.c - checks lists where they are sent and where they are taken, with HZ_LIST_FAILFAST and in the check
 * build. A link that the program has overwritten is found there, before the list's blocks are handed out, unless it
 * leads to another block of the class.
 */
#include "list_check.h"

#include "list.h"

#include "heap/misuse.h"
#include "heap/pages/page.h"
#include "heap/seal.h"

/* Whether one of our blocks of the class can begin at the address. The caller owns the list, so its pages cannot be
   retired. */
static bool is_block(unsigned size_class, const void *address) {
    return hz_segment_find(address) != NULL && hz_pagetag_class(address) == size_class &&
           hz_class_has_start(size_class, address);
}

void hz_list_check(unsigned size_class, const void *head, uint32_t count) {
    const void *block = head;
    const void *linked_by = head;
    for (uint32_t left = count; left > 0; left--) {
        if (!is_block(size_class, block))
            hz_misuse(HZ_TEXT_LIST, linked_by, HZ_FOUND_LATER);
        if (HZ_BLOCKS_SEALED)
            hz_seal_check_linked(block, HZ_WRITTEN_IN_LIST);
        linked_by = block;
        block = left > 1 ? hz_block_next(block) : NULL;
    }
}
