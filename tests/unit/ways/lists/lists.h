/*
 * lists.h - lists of blocks, for the tests of lanes with mailboxes.
 */
#ifndef HZ_TESTS_UNIT_WAYS_LISTS_LISTS_H
#define HZ_TESTS_UNIT_WAYS_LISTS_LISTS_H

#include "unit/heap/fixture.h"

extern "C" {
#include "box.h"
#include "list.h"
#include "list_check.h"
#include "mail.h"
#include "mpsc.h"
#include "put_list.h"
}

namespace unit {

/* Blocks in the shard's carry alone. */
inline uint32_t carry_count(struct hz_shard *shard, unsigned size_class) {
    return hz_list_word_count(hz_load_rlx(&hz_box_of(shard, size_class)->carry));
}

inline struct hz_list list_of(const Blocks &blocks, size_t from, size_t count) {
    struct hz_list list = {};
    for (size_t i = from; i < from + count; i++)
        hz_list_push(&list, blocks[i]);
    return list;
}

inline struct hz_list list_of(const Blocks &blocks) {
    return list_of(blocks, 0, blocks.size());
}

inline hz_list_word word_of(const struct hz_list &list) {
    return hz_list_word_make(list.head, list.count);
}

/* The blocks of a list; stops at its count. */
inline Blocks blocks_of(const struct hz_list &list) {
    Blocks blocks;
    void *block = list.head;
    for (uint32_t i = 0; i < list.count; i++) {
        blocks.push_back(block);
        block = hz_block_next(block);
    }
    return blocks;
}

/* The blocks of a list word that was taken. */
inline Blocks blocks_of(hz_list_word word) {
    return blocks_of({hz_list_word_head(word), nullptr, hz_list_word_count(word)});
}

} // namespace unit

#endif
