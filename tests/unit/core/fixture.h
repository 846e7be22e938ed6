/*
 * fixture.h - what the unit tests of core share: the shard's lock as a scope, blocks taken from a shard's pages past the
 * bins, lists of them, and a shard that belongs to the test alone.
 */
#ifndef HZ_TESTS_UNIT_CORE_FIXTURE_H
#define HZ_TESTS_UNIT_CORE_FIXTURE_H

#include "unit/core/shim.h"
#include "unit/together.h"

#include <gtest/gtest.h>
#include <vector>

namespace unit {

using Blocks = std::vector<void *>;

inline constexpr unsigned class_count = HZ_CLASS_COUNT;

/* The smallest, one that is no power of two, the last linear, a medium and the largest class. */
inline std::vector<unsigned> some_classes() {
    return {1, 3, 63, HZ_LINEAR_CLASSES, HZ_LINEAR_CLASSES + 5, class_count - 1};
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

/* The blocks of a word that somebody took; stops at its count. */
inline Blocks blocks_of(hz_list_word word) {
    Blocks blocks;
    void *block = hz_list_word_head(word);
    for (uint32_t i = 0; i < hz_list_word_count(word); i++) {
        blocks.push_back(block);
        block = hz_block_next(block);
    }
    return blocks;
}

inline size_t retire_all(struct hz_shard *shard) {
    size_t retired = 0;
    Exclusive exclusive(shard);
    for (unsigned size_class = 1; size_class < class_count; size_class++)
        retired += hz_pages_retire_all_locked(shard, size_class);
    return retired;
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
        shard_ = hz_shard_claim();
        ASSERT_NE(shard_, nullptr);
        ASSERT_NE(shard_, unit_thread_shard(self_));
        ASSERT_EQ(unit_shard_threads(shard_), 1U);
    }
    void TearDown() override {
        for (unsigned size_class = 1; size_class < class_count; size_class++)
            EXPECT_EQ(hz_shard_waiting(shard_, size_class), 0U) << "class " << size_class;
        retire_all(shard_);
        EXPECT_EQ(pages_of(shard_), 0U) << "a block did not come home";
        hz_shard_release(self_, shard_);
    }
    struct hz_thread_block *self_ = nullptr;
    struct hz_shard *shard_ = nullptr;
};

} // namespace unit

#endif
