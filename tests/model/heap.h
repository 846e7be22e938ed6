/*
 * heap.h - what scenarios on the whole library share.
 */
#ifndef HZ_TESTS_MODEL_HEAP_H
#define HZ_TESTS_MODEL_HEAP_H

#include "hakozuna/hakozuna.h"
#include "model/scheduler.h"
#include "unit/heap/fixture.h"

#include <gtest/gtest.h>
#include <vector>

namespace model {

using unit::Blocks;

/* Sizes whose blocks take different paths (cmake/model.cmake has the knobs). */
enum : size_t {
    SMALL = 64,      /* goes home: eight in a bin, four in a batch */
    SHARED = 256,    /* through the depot: four in a bin, two in a batch */
    PAGED = 16384,   /* four to a page, two in a bin: pages come and go */
    RUN = 131072,    /* two pages of the arena */
    MAPPED = 4 << 20 /* a mapping of its own */
};

/* The calling thread detaches, as at its end. */
inline void detach() {
    if (hz_is_attached(hz_self()))
        hz_thread_detach(unit::self());
}

/* malloc and free of a scenario, with a ledger. The constructor attaches and detaches the calling thread: so the hooks
   are installed before the scenario has threads, as in the products, and no shard has a thread yet. */
class Heap {
  public:
    Heap() {
        unit::self();
        hz_init_follow_cpus(false); /* once, before there are threads */
        detach();
    }
    /* For a library that has not been called yet. */
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

/* For the end, when all threads have ended and all blocks were freed. A lost block would keep its page. */
inline void check_nothing_is_lost(const Heap &heap) {
    MODEL_CHECK(heap.ledger.held() == 0);
    hz_purge();
    for (unsigned size_class = 1; size_class < unsigned{HZ_CLASS_COUNT}; size_class++)
        if (hz_class_blocks(size_class) != 0)
            fail("blocks of class " + std::to_string(size_class) + " did not come home");
    struct hz_stats stats;
    MODEL_CHECK(hz_stats_get(&stats, sizeof(stats)) == 0);
    MODEL_CHECK(stats.live_bytes == 0);
    MODEL_CHECK(stats.cached_bytes == 0);
}

/* Blocks of no heap, for scenarios on a single structure. */
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

} // namespace model

#endif
