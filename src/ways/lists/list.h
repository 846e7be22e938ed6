/*
 * list.h - singly linked lists through free blocks.
 *
 * The first word of a free block is its link. A list travels with its count, and no walk goes past the count. A "list
 * word" packs head and count into 64 bits, so that one store or one CAS publishes both. The low 48 bits are the head,
 * which all addresses of os.h fit into; the high 16 bits are the count.
 */
#ifndef HZ_WAYS_LISTS_LIST_H
#define HZ_WAYS_LISTS_LIST_H

#include "base/os/check.h"
#include "base/os/compiler.h"

typedef uint64_t hz_list_word;

_Static_assert(HZ_ADDRESS_BITS <= 48, "a list word has 48 bits for the head");

enum {
    HZ_LIST_COUNT_SHIFT = 48,
    HZ_LIST_COUNT_MAX = 0xffff,
};

struct hz_list {
    void *head;
    void *tail; /* last block; its link is undefined until the list is sent */
    uint32_t count;
};

HZ_INLINE void *hz_block_next(const void *block) {
    return *(void *const *)block;
}

HZ_INLINE void hz_block_link(void *block, void *next) {
    *(void **)block = next;
}

HZ_INLINE hz_list_word hz_list_word_make(const void *head, uint32_t count) {
    hz_assert(((uintptr_t)head >> HZ_LIST_COUNT_SHIFT) == 0 && count <= HZ_LIST_COUNT_MAX);
    return (uint64_t)(uintptr_t)head | (uint64_t)count << HZ_LIST_COUNT_SHIFT;
}

HZ_INLINE void *hz_list_word_head(hz_list_word word) {
    return (void *)(uintptr_t)(word & ((UINT64_C(1) << HZ_LIST_COUNT_SHIFT) - 1));
}

HZ_INLINE uint32_t hz_list_word_count(hz_list_word word) {
    return (uint32_t)(word >> HZ_LIST_COUNT_SHIFT);
}

/* Prepends a block to a list that only the caller uses. */
HZ_INLINE void hz_list_push(struct hz_list *list, void *block) {
    hz_block_link(block, list->head);
    if (list->head == NULL)
        list->tail = block;
    list->head = block;
    list->count++;
}

#endif
