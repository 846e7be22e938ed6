/*
 * collapse_fixture.h - a fixture for tests that collapse units of 2 MiB into huge pages: blocks in a shard of its own,
 * and a heap that counts as large and dense when the test wants that.
 */
#ifndef HZ_TESTS_UNIT_HEAP_PAGES_COLLAPSE_FIXTURE_H
#define HZ_TESTS_UNIT_HEAP_PAGES_COLLAPSE_FIXTURE_H

#include "unit/heap/fixture.h"

#include <algorithm>
#include <chrono>

namespace unit {

using support::MiB;

inline constexpr size_t unit_bytes = HZ_HUGE_BYTES;

inline bool kernel_collapses() {
    auto *range = static_cast<char *>(hz_os_map(unit_bytes, unit_bytes, false));
    if (range == nullptr)
        return false;
    memset(range, 1, unit_bytes);
    bool does = hz_os_collapse(range, unit_bytes) == 0;
    EXPECT_TRUE(hz_os_unmap(range, unit_bytes));
    return does;
}

class Collapse : public OwnShard {
  protected:
    static constexpr size_t dense_more = 1024 * MiB;

    void SetUp() override {
        OwnShard::SetUp();
        if (!kernel_collapses())
            GTEST_SKIP() << "the kernel does not collapse";
        hz_heap_purge(); /* the units that other tests used become clean, that is, new */
    }
    void TearDown() override {
        unit::put(shard_, blocks_);
        OwnShard::TearDown();
        become_sparse();
    }
    /* Otherwise the next test, in a heap that is not dense yet, would refuse the units that were asked for. */
    static void units_forget() {
        for (uint32_t index = 0; index < hz_arena_segment_count(); index++) {
            struct hz_segment *segment = hz_arena_segment(index);
            if (segment == nullptr || hz_load_rlx(&segment->kind) != HZ_SEGMENT_PAGED)
                continue;
            hz_huge_forget(&segment->huge);
            hz_os_huge(hz_segment_page_address(segment, 0), HZ_SEGMENT_BYTES);
        }
    }

    /* Takes all blocks of `pages` pages, and writes all of them. */
    void use(unsigned size_class, unsigned pages) {
        Blocks more = unit::take(shard_, size_class, 1);
        uint32_t capacity = hz_page_of(more[0])->capacity;
        for (void *block : unit::take(shard_, size_class, pages * capacity - 1))
            more.push_back(block);
        for (void *block : more)
            write(block);
        blocks_.insert(blocks_.end(), more.begin(), more.end());
    }
    static void write(void *block) {
        support::fill(block, hz_page_of(block)->block_bytes, reinterpret_cast<uintptr_t>(block));
    }
    bool are_intact() const {
        return std::all_of(blocks_.begin(), blocks_.end(), [](void *block) {
            return support::holds(block, hz_page_of(block)->block_bytes, reinterpret_cast<uintptr_t>(block));
        });
    }
    /* The heap counts as large and dense from now on. Call it after the pages are made, so that no unit is asked for.
     */
    void become_dense() {
        if (!is_dense_)
            hz_huge_count_dense(dense_more);
        is_dense_ = true;
    }
    void become_sparse() {
        hz_heap_purge();
        units_forget();
        if (is_dense_)
            hz_huge_count_dense(-static_cast<ptrdiff_t>(dense_more));
        is_dense_ = false;
    }
    /* Collapses all units that can be collapsed. Returns their number. */
    size_t collapse_all() {
        become_dense();
        size_t before = collapsed();
        auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        do {
            while (!hz_huge_collapse_is_wanted(hz_arena_runs_bytes()) && std::chrono::steady_clock::now() < end) {
            }
        } while (hz_collapse(self_) && std::chrono::steady_clock::now() < end);
        return collapsed() - before;
    }
    static size_t collapsed() {
        struct hz_huge_figures figures;
        hz_huge_figures_get(&figures);
        return figures.collapsed;
    }
    /* Puts home all blocks that begin in the same system page as `block`. */
    void put_neighbours(void *block) {
        size_t os_page = hz_os_page_bytes();
        uintptr_t at = reinterpret_cast<uintptr_t>(block) / os_page;
        auto is_near = [=](void *other) { return reinterpret_cast<uintptr_t>(other) / os_page == at; };
        auto first =
            std::stable_partition(blocks_.begin(), blocks_.end(), [=](void *other) { return !is_near(other); });
        unit::put(shard_, Blocks(first, blocks_.end()));
        blocks_.erase(first, blocks_.end());
    }
    /* The block at the start of each arena page. */
    Blocks one_of_each_page() const {
        Blocks ones;
        for (void *block : blocks_)
            if (hz_page_of(block)->start == block)
                ones.push_back(block);
        return ones;
    }

    Blocks blocks_;
    bool is_dense_ = false;
};

} // namespace unit

#endif
