/*
 * sparse.h - a shard of the test's own, of whose blocks the test leaves few out, so that their classes are sparse.
 */
#ifndef HZ_TESTS_UNIT_HEAP_BACK_SPARSE_H
#define HZ_TESTS_UNIT_HEAP_BACK_SPARSE_H

#include "unit/heap/fixture.h"

#include <set>

namespace unit {

enum { ROOM_OF_SPARSE = 8 }; /* blocks that a bin of a sparse class may hold */

class SparseShard : public OwnShard {
  protected:
    void SetUp() override {
        OwnShard::SetUp();
        forget_sparse();
        hz_arena_purge(0, SIZE_MAX); /* so that new pages have no memory, and are no slack */
    }
    void TearDown() override {
        forget_sparse();
        hz_heap_purge();
        OwnShard::TearDown();
    }
    /* One page's blocks of a class, touched. */
    Blocks take_page(unsigned size_class) {
        Blocks blocks = take(shard_, size_class, 1);
        uint32_t left = hz_page_of(blocks[0])->capacity - 1;
        Blocks more = take(shard_, size_class, left);
        blocks.insert(blocks.end(), more.begin(), more.end());
        return blocks;
    }
    /* Puts blocks home until `stay` are left. */
    void put_down_to(Blocks &blocks, size_t stay) {
        put(shard_, Blocks(blocks.begin() + static_cast<ptrdiff_t>(stay), blocks.end()));
        blocks.resize(stay);
    }
    /* Makes a class sparse, by pages of which one block is out. Returns those blocks, at least two. */
    Blocks make_sparse(unsigned size_class) {
        Blocks page = take_page(size_class);
        Blocks all = take(shard_, size_class, static_cast<uint32_t>(page.size() + 2 * hz_class_blocks(size_class)));
        all.insert(all.end(), page.begin(), page.end());
        Blocks live;
        Blocks others;
        std::set<struct hz_page *> pages;
        for (void *block : all)
            (pages.insert(hz_page_of(block)).second ? live : others).push_back(block);
        put(shard_, others);
        EXPECT_TRUE(hz_class_look(size_class, 0));
        return live;
    }
    /* Fills this thread's bin with blocks of its own shard, and returns their number. */
    uint32_t fill_bin(unsigned size_class) {
        uint32_t count = hz_bin_capacity(size_class);
        hz_bin_send_home(self_, size_class);
        hz_room_set(self_, size_class, count);
        for (void *block : take(self_->shard, size_class, count))
            hz_heap_free(block);
        EXPECT_EQ(bin_count(self_, size_class), count);
        return count;
    }
    static std::vector<unsigned> sparse_classes() {
        std::vector<unsigned> classes;
        for (unsigned size_class = 1; size_class < class_count; size_class++)
            if (hz_class_is_sparse(size_class))
                classes.push_back(size_class);
        return classes;
    }
    /* Takes so many bytes in blocks of 1 KiB, and keeps every 16th block. */
    Blocks one_of_sixteen(unsigned size_class, size_t bytes = 16 * support::MiB) {
        Blocks live;
        Blocks others;
        for (void *block : take(shard_, size_class, static_cast<uint32_t>(bytes / 1024)))
            ((live.size() + others.size()) % 16 == 0 ? live : others).push_back(block);
        put(shard_, others);
        return live;
    }
};

} // namespace unit

#endif
