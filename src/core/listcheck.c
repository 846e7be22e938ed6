/*
 * listcheck.c - whether a list is what it says. Called where lists are sent and taken, with HZ_LIST_FAILFAST and in the
 * check build: a link that a stray write changed is found there, before its blocks are handed out; unless it leads to
 * another block of the class.
 */
#include "base/check.h"
#include "core/core.h"

/* The start of a block of the class, in memory of ours. Who asks holds the list: its pages stay. */
static bool is_block(unsigned size_class, const void *address) {
    if (hz_segment_find(address) == NULL || hz_pagetag_class(address) != size_class)
        return false;
    const struct hz_page *page = hz_page_of(address);
    size_t offset = (size_t)((const char *)address - page->start);
    return offset % page->block_bytes == 0 && offset / page->block_bytes < page->capacity;
}

void hz_list_check(unsigned size_class, const void *head, uint32_t count) {
    const void *block = head;
    const void *linked_by = head;
    for (uint32_t left = count; left > 0; left--) {
        if (!is_block(size_class, block))
            hz_fail_pointer(HZ_TEXT_LIST, linked_by);
        linked_by = block;
        block = left > 1 ? hz_block_next(block) : NULL;
    }
}
