/*
 * bins.h - the calling thread's bins, which are empty when a test begins and have all their room.
 */
#ifndef HZ_TESTS_UNIT_HEAP_CACHE_BINS_H
#define HZ_TESTS_UNIT_HEAP_CACHE_BINS_H

#include "unit/heap/fixture.h"

namespace unit {

class EmptyBins : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit::self();
        hz_heap_purge(); /* empties bins and depot */
        grow_bins(self_);
    }
    void TearDown() override {
        hz_heap_purge();
        EXPECT_EQ(support::live_bytes(), 0U);
    }
    uint32_t held(unsigned size_class) {
        return bin_count(self_, size_class);
    }
    struct hz_counters counters() {
        return self_->counters;
    }
    static Blocks allocate(unsigned size_class, size_t count) {
        Blocks blocks;
        for (size_t i = 0; i < count; i++)
            blocks.push_back(t_malloc(hz_class_bytes(size_class)));
        return blocks;
    }
    static void free_all(const Blocks &blocks) {
        for (void *block : blocks)
            t_free(block);
    }
    struct hz_thread_block *self_ = nullptr;
};

} // namespace unit

#endif
