/*
 * lists.h - what scenarios on lists through blocks share.
 */
#ifndef HZ_TESTS_MODEL_LISTS_H
#define HZ_TESTS_MODEL_LISTS_H

#include "model/heap.h"
#include "unit/ways/lists/lists.h"

namespace model {

using unit::list_of;

/* Enters the blocks of a taken word into the ledger. Returns their number. */
inline uint32_t take_word(Ledger *ledger, hz_list_word word, size_t bytes) {
    for (void *block : unit::blocks_of(word))
        ledger->taken(block, bytes, true);
    return hz_list_word_count(word);
}

} // namespace model

#endif
