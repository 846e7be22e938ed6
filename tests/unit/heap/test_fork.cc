/* The child of a fork: usable whatever other threads did, heir to what they held. */
#include "stress/children.h"
#include "unit/heap/fixture.h"

namespace {

using children::require;
using unit::Blocks;

void use_every_class(uint64_t seed) {
    Blocks blocks;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        for (int i = 0; i < 3; i++) {
            blocks.push_back(t_malloc(hz_class_bytes(size_class)));
            require(blocks.back() != nullptr, "a block can be had");
            support::fill(blocks.back(), hz_class_bytes(size_class), seed + blocks.size());
        }
    size_t at = 0;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        for (int i = 0; i < 3; i++, at++) {
            require(support::holds(blocks[at], hz_class_bytes(size_class), seed + at + 1), "contents are kept");
            t_free(blocks[at]);
        }
    void *large = t_calloc(1, 3 * support::MiB);
    require(large != nullptr && support::is_zero(large, 3 * support::MiB), "large ones too");
    t_free(large);
}

/* Another thread that sets something up, and keeps it until the fork is over. */
class Other {
  public:
    template <typename Setup, typename Undo> Other(Setup setup, Undo undo) {
        thread_ = std::thread([this, setup, undo] {
            setup();
            ready_ = true;
            while (!over_)
                std::this_thread::yield();
            undo();
        });
        while (!ready_)
            std::this_thread::yield();
    }
    ~Other() {
        over_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> ready_{false};
    std::atomic<bool> over_{false};
    std::thread thread_;
};

TEST(Fork, ChildWorksWhileAnotherThreadHeldItsOwnShard) {
    struct hz_shard *theirs = nullptr;
    Blocks blocks; /* of the other thread's shard */
    Other other(
        [&] {
            theirs = unit_thread_shard(unit_self());
            blocks = unit::take(theirs, 5, 20);
            hz_lock_acquire(unit_shard_exclusive(theirs));
        },
        [&] {
            hz_lock_release(unit_shard_exclusive(theirs));
            unit::put(theirs, blocks);
        });
    unit_self();
    children::expect_good_end(children::start([&] {
        require(!hz_lock_abandoned(unit_shard_exclusive(theirs)), "the hook has freed the lock");
        use_every_class(1);
        hz_blocks_send(unit_self(), blocks.data(), 20);
        require(unit::waiting(theirs, 5) == 0, "nobody owns it: straight home");
        use_every_class(2);
        hz_purge();
        return 0;
    }));
}

TEST(Fork, ChildWorksWhileItsOwnShardWasHeldByAnother) {
    struct hz_shard *own = unit_thread_shard(unit_self());
    void *mine = t_malloc(100);
    support::fill(mine, 100, 1);
    Other other([&] { hz_lock_acquire(unit_shard_exclusive(own)); },
                [&] { hz_lock_release(unit_shard_exclusive(own)); });
    children::expect_good_end(children::start([&] {
        hz_thread_flush(unit_self());
        use_every_class(1);
        require(support::holds(mine, 100, 1), "the parent's blocks are there");
        t_free(mine);
        hz_purge();
        return 0;
    }));
    EXPECT_TRUE(support::holds(mine, 100, 1));
    t_free(mine);
}

TEST(Fork, ChildWorksWhileEveryShardWasHeld) {
    unit_self();
    Other other(
        [] {
            for (unsigned index = 0; index < HZ_NUM_SHARDS; index++)
                if (hz_shard_get(index) != nullptr) {
                    /* one at a time has the rank: the others are taken by threads of their own */
                    std::thread([=] { hz_lock_acquire(unit_shard_exclusive(hz_shard_get(index))); }).join();
                }
        },
        [] {
            for (unsigned index = 0; index < HZ_NUM_SHARDS; index++)
                if (hz_shard_get(index) != nullptr)
                    hz_lock_reset(unit_shard_exclusive(hz_shard_get(index))); /* their holders have ended */
        });
    children::expect_good_end(children::start([] {
        use_every_class(1);
        hz_purge();
        return 0;
    }));
}

TEST(Fork, ChildRepairsListsThatWereCaughtHalfChanged) {
    struct hz_shard *theirs = nullptr;
    Blocks blocks;
    struct hz_page *page = nullptr;
    uint32_t free_count = 0;
    Other other(
        [&] {
            theirs = unit_thread_shard(unit_self());
            blocks = unit::take(theirs, 6, 30);
            hz_lock_acquire(unit_shard_exclusive(theirs));
            page = unit_partial(theirs, 6);
            free_count = unit_page_of(page).free_count;
            unit_page_free_count_set(page, free_count - 5);
        },
        [&] {
            unit_page_free_count_set(page, free_count);
            hz_lock_release(unit_shard_exclusive(theirs));
            unit::put(theirs, blocks);
        });
    unit_self();
    children::expect_good_end(children::start([&] {
        unit::Exclusive exclusive(theirs);
        require(unit_page_of(page).free_count == free_count, "counts are taken from the pages themselves");
        require(unit_partial(theirs, 6) == page, "and the page is listed");
        return 0;
    }));
}

TEST(Fork, ShardsOfVanishedThreadsAreFree) {
    struct hz_shard *theirs = nullptr;
    Other other([&] { theirs = unit_thread_shard(unit_self()); }, [] {});
    struct hz_shard *own = unit_thread_shard(unit_self());
    children::expect_good_end(children::start([&] {
        require(unit_shard_threads(theirs) == 0, "its owner is not here");
        require(unit_shard_threads(own) == 1, "this thread is");
        require(unit_thread_shard(unit_self()) == own, "with its shard");
        return 0;
    }));
    EXPECT_EQ(unit_shard_threads(theirs), 1U);
}

TEST(Fork, WhatVanishedThreadsCachedIsReclaimed) {
    struct hz_thread_block *their_block = nullptr;
    Other other(
        [&] {
            their_block = unit_self();
            Blocks blocks;
            for (int i = 0; i < 30; i++)
                blocks.push_back(t_malloc(200));
            for (void *block : blocks)
                t_free(block);
        },
        [] {});
    unit_self();
    size_t live = support::live_bytes();
    unsigned size_class = hz_class_of(200);
    ASSERT_GT(unit_bin_count(their_block, size_class), 0U);
    children::expect_good_end(children::start([&] {
        require(unit_thread_state_of(unit_registered(their_block)) == UNIT_THREAD_ORPHAN, "left behind");
        require(hz_orphan_reclaim(unit_self()), "there is one to reclaim");
        require(unit_thread_state_of(unit_registered(their_block)) == UNIT_THREAD_FREE, "nobody's now");
        require(unit_bin_count(their_block, size_class) == 0, "its bins are empty");
        require(!hz_orphan_reclaim(unit_self()), "once");
        hz_purge();
        require(support::live_bytes() == live, "no live block was lost");
        return 0;
    }));
}

TEST(Fork, RefillReclaimsByItself) {
    struct hz_thread_block *their_block = nullptr;
    Other other([&] { their_block = unit_self(); }, [] {});
    unit_self();
    children::expect_good_end(children::start([&] {
        use_every_class(1);
        require(unit_thread_state_of(unit_registered(their_block)) != UNIT_THREAD_ORPHAN, "taken over on the way");
        return 0;
    }));
}

TEST(Fork, GrandchildrenWorkToo) {
    Other other([] { use_every_class(1); }, [] {});
    use_every_class(2);
    children::expect_good_end(children::start([] {
        use_every_class(3);
        return children::code_of(children::start([] {
            use_every_class(4);
            hz_purge();
            return 0;
        }));
    }));
}

/* The other thread was between the two stores of a bin: it is empty, and has a newest block. */
TEST(Fork, AThreadOfTheChildGetsABinThatWasCaughtHalfChanged) {
    if (support::tsan)
        GTEST_SKIP() << "ThreadSanitizer allows no threads in the child of a threaded process";
    constexpr unsigned size_class = 7;
    struct hz_thread_block *theirs = nullptr;
    void *handed_out = nullptr;
    Other other(
        [&] {
            theirs = unit_self();
            handed_out = t_malloc(hz_class_bytes(size_class));
            hz_thread_flush(theirs);
            unit_bin_newest_set(theirs, size_class, handed_out);
        },
        [&] {
            unit_bin_newest_set(theirs, size_class, nullptr);
            t_free(handed_out);
        });
    children::expect_good_end(children::start([&] {
        std::thread heir([&] {
            require(unit_self() == theirs, "it has the other's bins");
            require(unit_bin_count(theirs, size_class) == 0, "which are empty");
            Blocks blocks;
            for (unsigned i = 0; i < 3 * hz_bin_capacity(size_class); i++) {
                blocks.push_back(t_malloc(hz_class_bytes(size_class)));
                require(blocks.back() != nullptr && blocks.back() != handed_out, "nobody else's block");
            }
            for (void *block : blocks)
                t_free(block);
            hz_thread_flush(theirs);
            require(unit_bin_count(theirs, size_class) == 0, "and all of it can go home");
        });
        heir.join();
        return 0;
    }));
}

TEST(Fork, ChildMayStartThreads) {
    if (support::tsan)
        GTEST_SKIP() << "ThreadSanitizer allows no threads in the child of a threaded process";
    Other other([] { use_every_class(1); }, [] {});
    children::expect_good_end(children::start([] {
        unit::together(3, [](unsigned index) { use_every_class(index); });
        return 0;
    }));
}

/* Other threads work on while this one forks: whatever they were at, the child works and its frees are sound. */
TEST(Fork, ChildrenOfABusyProcessWork) {
    constexpr unsigned threads = 3;
    std::atomic<bool> over{false};
    std::vector<void *> mine;
    for (size_t i = 0; i < 300; i++) {
        mine.push_back(t_malloc(16 + i * 7));
        support::fill(mine.back(), 16 + i * 7, i);
    }
    std::vector<std::thread> busy;
    for (unsigned index = 0; index < threads; index++)
        busy.emplace_back([&over, index] {
            support::Random random(index);
            void *held[64] = {};
            while (!over) {
                void *&slot = held[random.below(64)];
                t_free(slot);
                slot = t_malloc(random.below(20) == 0 ? random.between(1, 400000) : random.between(1, 4000));
            }
            for (void *block : held)
                t_free(block);
        });
    for (unsigned i = 0; i < unit::rounds(40); i++) {
        pid_t child = children::start([&] {
            use_every_class(i);
            for (size_t j = 0; j < mine.size(); j++) {
                require(support::holds(mine[j], 16 + j * 7, j), "the parent's blocks are intact");
                t_free(mine[j]);
            }
            use_every_class(i + 1);
            hz_purge();
            use_every_class(i + 2);
            return 0;
        });
        int status = children::wait_for(child);
        EXPECT_EQ(status, 0) << "child " << i << " ended with " << children::describe(status);
    }
    over = true;
    for (std::thread &thread : busy)
        thread.join();
    for (void *block : mine)
        t_free(block);
}

} // namespace
