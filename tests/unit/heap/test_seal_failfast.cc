/* With HZ_LIST_FAILFAST=1 a write to a freed block ends the program when the block leaves the place where it rests, and
   a second free ends it at once, wherever the block rests. Linked with a library of its own (cmake/lane.cmake). */
#include "contract/api.h"
#include "unit/heap/at_rest.h"
#include "unit/heap/fixture.h"

namespace {

using unit::Blocks;

static_assert(HZ_LIST_FAILFAST == 1, "the library that this file is linked with checks");

constexpr const char *written = "a block was written to after its free:";
constexpr const char *twice = "double free of block:";

/* Without size and shard if the page was retired in the death test's child (page_local.c settles a fork so). */
std::string line(const char *text, const void *block, const char *found) {
    char whole[200];
    snprintf(whole, sizeof(whole), "^hakozuna: %s 0x%zx \\(([0-9]+ bytes, shard [0-9]+, )?%s\\)\n$", text,
             reinterpret_cast<size_t>(block), found);
    return whole;
}

class Seal : public unit::OwnShard {
  protected:
    void SetUp() override {
        OwnShard::SetUp();
        unit::grow_bins(self_);
        unit::forbid_idle_looks(self_);
        hz_thread_flush(self_);
    }
    /* `count` blocks of the test's shard that the program has freed, in no place: the bin is left without them. */
    Blocks freed(unsigned size_class, uint32_t count) {
        Blocks blocks;
        unit::ThreadOf owner(self_, shard_);
        for (uint32_t i = 0; i < count; i++)
            blocks.push_back(t_malloc(hz_class_bytes(size_class)));
        for (void *block : blocks)
            t_free(block);
        EXPECT_GE(hz_bin_held(&self_->cache, size_class), count);
        hz_bin_take_new(&self_->cache, size_class, blocks.data(), count);
        hz_bin_send_home(self_, size_class);
        return blocks;
    }
    void home(const Blocks &blocks) {
        unit::put(shard_, blocks);
    }
    /* Sends each block on its own to the test's shard, so that the stages of its mailbox fill one after the other. */
    void send(const Blocks &blocks) {
        for (void *block : blocks)
            unit::send(shard_, {block});
    }
    /* Changes each word of the seal in turn, beginning with word `first`, and expects `leave` to name the block. */
    template <typename Leave> void expect_found(void *block, size_t first, const char *found, Leave leave) {
        auto *words = static_cast<volatile uintptr_t *>(block);
        size_t count = std::min<size_t>(hz_class_bytes(hz_pagetag_class(block)), HZ_SEAL_BYTES) / sizeof(*words);
        for (size_t word : {first, count - 1}) {
            uintptr_t before = words[word];
            words[word] = 0;
            EXPECT_DEATH(leave(), line(written, block, found)) << "word " << word;
            words[word] = before;
        }
    }
    void expect_twice(void *block) {
        EXPECT_DEATH(t_free(block), line(twice, block, "found in free"));
        unit::ThreadOf other(self_, shard_);
        EXPECT_DEATH(t_free(block), line(twice, block, "found in free")) << "by a thread of another shard";
    }
    static std::vector<unsigned> classes() {
        return unit::some_classes();
    }
};

TEST_F(Seal, ABlockInABin) {
    for (unsigned size_class : classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        void *block = t_malloc(hz_class_bytes(size_class));
        t_free(block);
        ASSERT_EQ(hz_slot_load_rlx(&self_->cache.bins[size_class].newest), block);
        expect_found(block, 0, "found in malloc", [&] { t_malloc(hz_class_bytes(size_class)); });
        expect_found(block, 0, "found when it left a thread's bin", [&] { hz_bin_send_home(self_, size_class); });
        expect_found(block, 0, "found when it left a thread's bin", [&] { hz_bin_flush(self_, size_class, 0); });
        expect_twice(block);
        hz_bin_send_home(self_, size_class);
    }
}

TEST_F(Seal, ABlockInARemoteBuffer) {
    for (unsigned size_class : unit::some_classes(hz_class_is_home)) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        void *block;
        {
            unit::ThreadOf owner(self_, shard_);
            block = t_malloc(hz_class_bytes(size_class));
            hz_bin_send_home(self_, size_class);
        }
        t_free(block);
        ASSERT_EQ(hz_slot_load_rlx(&self_->cache.bins[HZ_REMOTE_BIN].newest), block);
        expect_found(block, 0, "found when it left a remote buffer", [&] { hz_remote_flush(self_); });
        expect_twice(block);
        hz_remote_flush(self_);
        unit::drain(shard_, size_class);
    }
}

TEST_F(Seal, ABlockInTheDepot) {
    for (unsigned size_class : unit::some_classes([](unsigned) { return HZ_HAS_DEPOT != 0; })) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks blocks = freed(size_class, hz_batch_count(size_class));
        ASSERT_TRUE(hz_depot_push(self_, size_class, blocks.data(), static_cast<uint32_t>(blocks.size())));
        void *out[HZ_BATCH_COUNT];
        for (void *block : {blocks.front(), blocks.back()}) {
            expect_found(block, 0, "found when it left the depot", [&] { hz_depot_pop(self_, size_class, out); });
            expect_found(block, 0, "found when it left the depot", [&] { hz_age_depot_fully(self_); });
            expect_twice(block);
        }
        EXPECT_EQ(hz_depot_pop(self_, size_class, out), blocks.size());
        home(blocks);
    }
}

/* The first word is the link; lists/list_check.c watches it. Where stash, transfer and central follow one another, 40
   lists fill the first two. */
TEST_F(Seal, ABlockInAMailbox) {
    if (unit::mail() == unit::Mail::none)
        GTEST_SKIP() << "no list runs through blocks";
    const char *found = "found when its list was sent or taken";
    for (unsigned size_class : {3U, 40U, unit::largest_short}) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks blocks;
        for (int i = 0; i < 10; i++) {
            Blocks some = freed(size_class, 4);
            blocks.insert(blocks.end(), some.begin(), some.end());
        }
        unit::forget_sparse(); /* blocks of a sparse class would not wait */
        send(blocks);          /* now that no malloc refills from the mailbox any more */
        ASSERT_GT(unit::waiting(shard_, size_class), 0U);
        if (unit::waiting(shard_, size_class) < blocks.size()) /* it has as many as find room */
            blocks.resize(1);
        for (void *block : {blocks.front(), blocks[blocks.size() / 2], blocks.back()}) {
            auto all = unit::waiting(shard_, size_class);
            expect_found(block, 1, found, [&] { unit::refill(shard_, size_class, all); });
            expect_found(block, 1, found, [&] { unit::drain(shard_, size_class); });
            expect_twice(block);
        }
        unit::drain(shard_, size_class);
    }
}

TEST_F(Seal, ABlockThatIsSent) {
    if (unit::mail() == unit::Mail::none)
        GTEST_SKIP() << "no list runs through blocks";
    Blocks blocks = freed(40, 3);
    expect_found(blocks[1], 1, "found when its list was sent or taken", [&] { unit::send(shard_, blocks); });
    unit::send(shard_, blocks);
    unit::drain(shard_, 40);
}

TEST_F(Seal, ABlockInTheCarry) {
    if (unit::mail() == unit::Mail::none)
        GTEST_SKIP() << "no list runs through blocks";
    for (unsigned size_class : {3U, 40U}) {
        Blocks blocks = freed(size_class, 4);
        unit::send(shard_, blocks);
        Blocks first = unit::refill(shard_, size_class, 1);
        if (unit::bytes_at_rest("carry_bytes") == 0) /* a way home that takes a page at a time */
            GTEST_SKIP() << "each block came from a list of its own";
        void *block = blocks[1]; /* neither first nor last */
        const char *found = "found when its list was sent or taken";
        expect_found(block, 1, found, [&] { unit::refill(shard_, size_class, 1); });
        expect_found(block, 1, found, [&] { unit::drain(shard_, size_class); });
        expect_twice(block);
        unit::drain(shard_, size_class);
        home(first);
    }
}

/* In lanes without lists nothing writes to a free block, so all of the seal is checked. */
TEST_F(Seal, ABlockOnItsWayIntoItsPage) {
    if (unit::mail() != unit::Mail::none)
        GTEST_SKIP() << "a list runs through the blocks";
    for (unsigned size_class : classes()) {
        Blocks blocks = freed(size_class, 3);
        expect_found(blocks[1], 0, "found when it came to its page", [&] { unit::send(shard_, blocks); });
        unit::send(shard_, blocks);
        expect_twice(blocks[1]);
    }
}

TEST_F(Seal, ABlockInItsPage) {
    for (unsigned size_class : classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks blocks = freed(size_class, 2);
        unit::put(shard_, blocks);
        for (void *block : blocks) {
            uint32_t all = hz_load_rlx(&shard_->classes[size_class].free_blocks);
            expect_found(block, 0, "found when it left its page", [&] { unit::take(shard_, size_class, all); });
            expect_twice(block);
        }
    }
}

TEST_F(Seal, ABlockOnTheWayToItsPage) {
    Blocks blocks = freed(40, 1);
    expect_found(blocks[0], 1, "found when it came to its page", [&] { unit::put(shard_, blocks); });
    unit::put(shard_, blocks);
}

/* Memory that the system has taken back has no seals, and blocks that the program never freed have none. */
TEST_F(Seal, PurgedMemoryIsNotMistaken) {
    for (unsigned size_class : classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks kept = {t_malloc(hz_class_bytes(size_class))};
        for (int round = 0; round < 3; round++) {
            Blocks blocks;
            for (int i = 0; i < 300; i++) {
                blocks.push_back(t_malloc(hz_class_bytes(size_class)));
                memset(blocks.back(), 0x11 * (round + 1), hz_class_bytes(size_class));
            }
            for (void *block : blocks)
                t_free(block);
            hz_heap_purge();
        }
        t_free(kept[0]);
    }
    hz_heap_purge();
}

} // namespace
