/* The child of a fork works whatever other threads were doing, and reclaims what they held. */
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
            require(blocks.back() != nullptr, "a block can be allocated");
            support::fill(blocks.back(), hz_class_bytes(size_class), seed + blocks.size());
        }
    size_t at = 0;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        for (int i = 0; i < 3; i++, at++) {
            require(support::holds(blocks[at], hz_class_bytes(size_class), seed + at + 1), "contents are intact");
            t_free(blocks[at]);
        }
    void *large = t_calloc(1, 3 * support::MiB);
    require(large != nullptr && support::is_zero(large, 3 * support::MiB), "a large block can be allocated");
    t_free(large);
}

/* Another thread, which calls setup() before the fork and undo() after it. */
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
    Blocks blocks; /* blocks of the other thread's shard */
    Other other(
        [&] {
            theirs = unit::self()->shard;
            blocks = unit::take(theirs, 5, 20);
            hz_lock_acquire(&theirs->exclusive);
        },
        [&] {
            hz_lock_release(&theirs->exclusive);
            unit::put(theirs, blocks);
        });
    unit::self();
    children::expect_good_end(children::start([&] {
        require(!hz_lock_abandoned(&theirs->exclusive), "the fork hook has freed the lock");
        use_every_class(1);
        hz_blocks_send(unit::self(), blocks.data(), 20);
        require(unit::waiting(theirs, 5) == 0, "a shard without threads gets its blocks into its pages");
        use_every_class(2);
        hz_purge();
        return 0;
    }));
}

TEST(Fork, ChildWorksWhileItsOwnShardWasHeldByAnother) {
    struct hz_shard *own = unit::self()->shard;
    void *mine = t_malloc(100);
    support::fill(mine, 100, 1);
    Other other([&] { hz_lock_acquire(&own->exclusive); }, [&] { hz_lock_release(&own->exclusive); });
    children::expect_good_end(children::start([&] {
        hz_thread_flush(unit::self());
        use_every_class(1);
        require(support::holds(mine, 100, 1), "the parent's block is intact");
        t_free(mine);
        hz_purge();
        return 0;
    }));
    EXPECT_TRUE(support::holds(mine, 100, 1));
    t_free(mine);
}

TEST(Fork, ChildWorksWhileEveryShardWasHeld) {
    unit::self();
    Other other(
        [] {
            for (unsigned index = 0; index < HZ_NUM_SHARDS; index++)
                if (hz_shard_get(index) != nullptr) {
                    /* a thread may hold only one lock of a rank, so each lock needs a thread of its own */
                    std::thread([=] { hz_lock_acquire(&hz_shard_get(index)->exclusive); }).join();
                }
        },
        [] {
            for (unsigned index = 0; index < HZ_NUM_SHARDS; index++)
                if (hz_shard_get(index) != nullptr)
                    hz_lock_reset(&hz_shard_get(index)->exclusive); /* the holder has ended */
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
            theirs = unit::self()->shard;
            blocks = unit::take(theirs, 6, 30);
            hz_lock_acquire(&theirs->exclusive);
            page = unit::partial(theirs, 6);
            free_count = page->free_count;
            hz_store_rlx(&page->free_count, free_count - 5);
        },
        [&] {
            hz_store_rlx(&page->free_count, free_count);
            hz_lock_release(&theirs->exclusive);
            unit::put(theirs, blocks);
        });
    unit::self();
    children::expect_good_end(children::start([&] {
        unit::Exclusive exclusive(theirs);
        require(page->free_count == free_count, "free_count is counted again from the bits");
        require(unit::partial(theirs, 6) == page, "the page is listed");
        return 0;
    }));
}

TEST(Fork, ShardsOfVanishedThreadsAreFree) {
    struct hz_shard *theirs = nullptr;
    Other other([&] { theirs = unit::self()->shard; }, [] {});
    struct hz_shard *own = unit::self()->shard;
    children::expect_good_end(children::start([&] {
        require(hz_load_rlx(&theirs->threads) == 0, "its thread does not exist here");
        require(hz_load_rlx(&own->threads) == 1, "this thread exists");
        require(unit::self()->shard == own, "this thread keeps its shard");
        return 0;
    }));
    EXPECT_EQ(hz_load_rlx(&theirs->threads), 1U);
}

TEST(Fork, BlocksCachedByVanishedThreadsAreReclaimed) {
    struct hz_thread_block *their_block = nullptr;
    Other other(
        [&] {
            their_block = unit::self();
            Blocks blocks;
            for (int i = 0; i < 30; i++)
                blocks.push_back(t_malloc(200));
            for (void *block : blocks)
                t_free(block);
        },
        [] {});
    unit::self();
    size_t live = support::live_bytes();
    unsigned size_class = hz_class_of(200);
    ASSERT_GT(unit::bin_count(their_block, size_class), 0U);
    children::expect_good_end(children::start([&] {
        require(unit::state_of(hz_thread_registered(their_block)) == HZ_THREAD_ORPHAN, "the block is an orphan");
        require(hz_orphan_reclaim(unit::self()), "there is one to reclaim");
        require(unit::state_of(hz_thread_registered(their_block)) == HZ_THREAD_FREE, "the block is free now");
        require(unit::bin_count(their_block, size_class) == 0, "its bins are empty");
        require(!hz_orphan_reclaim(unit::self()), "there was only one orphan");
        hz_purge();
        require(support::live_bytes() == live, "live bytes are unchanged");
        return 0;
    }));
}

TEST(Fork, RefillReclaimsByItself) {
    struct hz_thread_block *their_block = nullptr;
    Other other([&] { their_block = unit::self(); }, [] {});
    unit::self();
    children::expect_good_end(children::start([&] {
        use_every_class(1);
        require(unit::state_of(hz_thread_registered(their_block)) != HZ_THREAD_ORPHAN, "the refills reclaimed it");
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

/* As if the fork came between the two stores of the other thread's pop: the bin is empty, but has a newest block. */
TEST(Fork, AThreadOfTheChildGetsARepairedBin) {
    if (support::tsan)
        GTEST_SKIP() << "ThreadSanitizer allows no threads in the child of a threaded process";
    constexpr unsigned size_class = 7;
    struct hz_thread_block *theirs = nullptr;
    void *handed_out = nullptr;
    Other other(
        [&] {
            theirs = unit::self();
            handed_out = t_malloc(hz_class_bytes(size_class));
            hz_thread_flush(theirs);
            theirs->cache.bins[size_class].newest = handed_out;
        },
        [&] {
            theirs->cache.bins[size_class].newest = nullptr;
            t_free(handed_out);
        });
    children::expect_good_end(children::start([&] {
        std::thread heir([&] {
            require(unit::self() == theirs, "the new thread gets the vanished thread's block");
            require(unit::bin_count(theirs, size_class) == 0, "its bin is empty");
            Blocks blocks;
            for (unsigned i = 0; i < 3 * hz_bin_capacity(size_class); i++) {
                blocks.push_back(t_malloc(hz_class_bytes(size_class)));
                require(blocks.back() != nullptr && blocks.back() != handed_out, "the block is free");
            }
            for (void *block : blocks)
                t_free(block);
            hz_thread_flush(theirs);
            require(unit::bin_count(theirs, size_class) == 0, "everything can go home");
        });
        heir.join();
        return 0;
    }));
}

TEST(Fork, ChildCanStartThreads) {
    if (support::tsan)
        GTEST_SKIP() << "ThreadSanitizer allows no threads in the child of a threaded process";
    Other other([] { use_every_class(1); }, [] {});
    children::expect_good_end(children::start([] {
        unit::together(3, [](unsigned index) { use_every_class(index); });
        return 0;
    }));
}

/* Other threads go on working while this one forks. The child works, and can free the parent's blocks. */
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
