/*
 * heap.h - what the scenarios share that use the library from malloc to free, and below.
 */
#ifndef HZ_TESTS_MODEL_HEAP_H
#define HZ_TESTS_MODEL_HEAP_H

#include "hakozuna/hakozuna.h"
#include "model/scheduler.h"
#include "unit/heap/shim.h"

#include <gtest/gtest.h>
#include <vector>

namespace model {

using Blocks = std::vector<void *>;

/* Sizes that take different ways (cmake/model.cmake has the knobs). */
enum : size_t {
    SMALL = 64,      /* goes home: eight in a bin, four at once */
    SHARED = 256,    /* by the depot: four in a bin, two at once */
    PAGED = 16384,   /* four to a page, two in a bin: pages come and go */
    RUN = 131072,    /* two pages of the arena */
    MAPPED = 4 << 20 /* a mapping of its own */
};

/* The calling thread gives all up that it has of the library, as at its end. */
inline void detach() {
    if (unit_is_attached())
        hz_thread_detach(unit_self());
}

/* malloc and free of a scenario, watched. The hooks are installed before there are threads, as in the products; no
   shard has threads then. */
class Heap {
  public:
    Heap() {
        unit_self();
        detach();
    }
    /* Of a library that nobody has called yet. */
    explicit Heap(std::nullptr_t) {
    }
    void *take(size_t bytes) {
        void *block = hz_malloc(bytes);
        ledger.taken(block, bytes);
        return block;
    }
    void give(void *block) {
        ledger.given(block);
        hz_free(block);
    }
    Blocks take_many(unsigned count, size_t bytes) {
        Blocks blocks;
        while (blocks.size() < count)
            blocks.push_back(take(bytes));
        return blocks;
    }
    void give_all(const Blocks &blocks) {
        for (void *block : blocks)
            give(block);
    }
    Ledger ledger;
};

/* When all threads have ended and all blocks were freed: a block that is not at home keeps its page. */
inline void check_nothing_is_lost(const Heap &heap) {
    MODEL_CHECK(heap.ledger.held() == 0);
    hz_purge();
    for (unsigned size_class = 1; size_class < unsigned{HZ_CLASS_COUNT}; size_class++)
        if (hz_class_blocks(size_class) != 0)
            fail("blocks of class " + std::to_string(size_class) + " did not come home");
    struct hz_stats stats;
    MODEL_CHECK(hz_stats_get(&stats) == 0);
    MODEL_CHECK(stats.live_bytes == 0);
    MODEL_CHECK(stats.cached_bytes == 0);
}

/* The list made of some blocks, for functions that take lists. */
inline struct hz_list list_of(const Blocks &blocks) {
    struct hz_list list = {};
    for (void *block : blocks)
        hz_list_push(&list, block);
    return list;
}

/* Blocks that belong to no heap: for the structures alone. */
class Pieces {
  public:
    enum : size_t { BYTES = 32 };
    explicit Pieces(size_t count) : words_(count * BYTES / sizeof(uint64_t)) {
    }
    void *operator[](size_t index) {
        return &words_[index * BYTES / sizeof(uint64_t)];
    }
    size_t size() const {
        return words_.size() * sizeof(uint64_t) / BYTES;
    }

  private:
    std::vector<uint64_t> words_;
};

/* The caller takes the blocks of a word that was taken; returns how many there are. */
inline uint32_t take_word(Ledger *ledger, hz_list_word word, size_t bytes) {
    uint32_t count = hz_list_word_count(word);
    void *block = hz_list_word_head(word);
    for (uint32_t i = 0; i < count; i++) {
        void *next = i + 1 < count ? hz_block_next(block) : nullptr;
        ledger->taken(block, bytes, true);
        block = next;
    }
    return count;
}

} // namespace model

#endif
