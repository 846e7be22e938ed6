/*
 * fixture.h - what the unit tests of core share: the shard's lock as a scope, blocks taken from a shard's
 * pages past the bins, lists of them, and a shard that belongs to the test alone.
 */
#ifndef HZ_TESTS_UNIT_CORE_FIXTURE_H
#define HZ_TESTS_UNIT_CORE_FIXTURE_H

#include "unit/heap/shim.h"
#include "unit/on_cpu.h"
#include "unit/together.h"

#include <gtest/gtest.h>
#include <vector>

namespace unit {

using Blocks = std::vector<void *>;

/* The smallest, one that is no power of two, the last linear, the first of the steps above, one near 1 KiB, the largest
   small, a medium and the largest class. */
inline std::vector<unsigned> some_classes() {
    return {1,
            3,
            HZ_LINEAR_CLASSES,
            HZ_LINEAR_CLASSES + 1,
            hz_class_of(1008),
            hz_class_of(HZ_SMALL_MAX),
            hz_class_of(15000),
            class_count - 1};
}

/* Those classes of some_classes() that `chosen` says yes to. */
template <typename Chosen> std::vector<unsigned> some_classes(Chosen chosen) {
    std::vector<unsigned> classes;
    for (unsigned size_class : some_classes())
        if (chosen(size_class))
            classes.push_back(size_class);
    return classes;
}

/* Holds a shard's exclusive. */
class Exclusive {
  public:
    explicit Exclusive(struct hz_shard *shard) : lock_(unit_shard_exclusive(shard)) {
        hz_lock_acquire(lock_);
    }
    ~Exclusive() {
        hz_lock_release(lock_);
    }
    Exclusive(const Exclusive &) = delete;
    Exclusive &operator=(const Exclusive &) = delete;

  private:
    struct hz_lock *lock_;
};

/* `count` blocks straight from the shard's pages, making pages as needed. */
inline Blocks take(struct hz_shard *shard, unsigned size_class, uint32_t count) {
    Blocks blocks(count);
    Exclusive exclusive(shard);
    for (uint32_t got = 0; got < count;) {
        got += hz_pages_take_locked(shard, size_class, blocks.data() + got, count - got);
        if (got < count && !hz_page_create_locked(shard, size_class))
            abort();
    }
    return blocks;
}

/* All of them back into the shard's pages; returns the pages retired. */
inline uint32_t put(struct hz_shard *shard, const Blocks &blocks) {
    uint32_t retired = 0;
    Exclusive exclusive(shard);
    for (void *block : blocks)
        retired += hz_page_put_locked(shard, block);
    return retired;
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

/* The same of a word that somebody took. */
inline Blocks blocks_of(hz_list_word word) {
    return blocks_of({hz_list_word_head(word), nullptr, hz_list_word_count(word)});
}

inline size_t retire_all(struct hz_shard *shard) {
    size_t retired = 0;
    Exclusive exclusive(shard);
    for (unsigned size_class = 1; size_class < class_count; size_class++)
        retired += hz_pages_retire_all_locked(shard, size_class);
    return retired;
}

/* The calling thread as one of another shard, which the test has claimed. */
class ThreadOf {
  public:
    ThreadOf(struct hz_thread_block *self, struct hz_shard *shard) : self_(self), own_(unit_thread_shard(self)) {
        unit_thread_shard_set(self_, shard);
    }
    ~ThreadOf() {
        unit_thread_shard_set(self_, own_);
    }
    ThreadOf(const ThreadOf &) = delete;
    ThreadOf &operator=(const ThreadOf &) = delete;

  private:
    struct hz_thread_block *self_;
    struct hz_shard *own_;
};

/* Up to `want` blocks, as a thread of the shard gets them. */
inline Blocks refill(struct hz_shard *shard, unsigned size_class, uint32_t want) {
    struct hz_thread_block *self = unit_self();
    ThreadOf as_owner(self, shard);
    Blocks blocks(want);
    blocks.resize(hz_supply_refill(self, size_class, blocks.data(), want));
    return blocks;
}

/* All that was sent to the shard goes into its pages; returns what turned out to be another shard's. */
inline struct hz_list drain(struct hz_shard *shard, unsigned size_class) {
    Exclusive exclusive(shard);
    return hz_shard_drain_locked(unit_self(), shard, size_class);
}

struct SentCount {
    unsigned shard;
    unsigned size_class;
    uint32_t blocks;
};

/* What was sent to the shard and is not in its pages, wherever this engine keeps it: in mailbox and carry, or with the
   pages themselves. */
inline uint32_t waiting(struct hz_shard *shard, unsigned size_class) {
    SentCount sent = {unit_shard_index(shard), size_class, 0};
    hz_pages_walk(
        [](void *context, struct hz_page *page) {
            auto *at = static_cast<SentCount *>(context);
            struct unit_page seen = unit_page_of(page);
            at->blocks += seen.shard == at->shard && seen.size_class == at->size_class ? seen.remote_count : 0;
        },
        &sent);
    return sent.blocks + hz_shard_waiting(shard, size_class);
}

struct PageCount {
    unsigned shard;
    size_t pages;
};

inline size_t pages_of(struct hz_shard *shard) {
    PageCount count = {unit_shard_index(shard), 0};
    hz_pages_walk(
        [](void *context, struct hz_page *page) {
            auto *at = static_cast<PageCount *>(context);
            at->pages += unit_page_of(page).shard == at->shard;
        },
        &count);
    return count.pages;
}

/* A shard that no thread belongs to but the test, who has claimed it; it leaves no pages behind. */
class OwnShard : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit_self();
        hz_heap_purge(); /* no shard has pages to give to this one */
        shard_ = hz_shard_claim();
        ASSERT_NE(shard_, nullptr);
        ASSERT_NE(shard_, unit_thread_shard(self_));
        ASSERT_EQ(unit_shard_threads(shard_), 1U);
    }
    void TearDown() override {
        for (unsigned size_class = 1; size_class < class_count; size_class++)
            EXPECT_EQ(waiting(shard_, size_class), 0U) << "class " << size_class;
        retire_all(shard_);
        EXPECT_EQ(pages_of(shard_), 0U) << "a block did not come home";
        hz_shard_leave(self_, shard_);
    }
    struct hz_thread_block *self_ = nullptr;
    struct hz_shard *shard_ = nullptr;
};

} // namespace unit

#endif
