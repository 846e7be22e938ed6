/* The futex lock: mutual exclusion, sleeping and waking, repair after fork, ranks. */
#include "stress/children.h"
#include "unit/base/fixture.h"

#include <gtest/gtest.h>

namespace {

using children::require;
using unit::rounds;

TEST(Lock, OneHolder) {
    struct hz_lock guard = HZ_LOCK_INIT(HZ_RANK_OUTER);
    EXPECT_FALSE(hz_lock_is_mine(&guard));
    hz_lock_acquire(&guard);
    EXPECT_TRUE(hz_lock_is_mine(&guard));
    EXPECT_FALSE(hz_lock_try_acquire(&guard)) << "the lock is not recursive";
    std::thread([&] {
        EXPECT_FALSE(hz_lock_try_acquire(&guard));
        EXPECT_FALSE(hz_lock_is_mine(&guard));
    }).join();
    hz_lock_release(&guard);
    EXPECT_FALSE(hz_lock_is_mine(&guard));
    std::thread([&] {
        ASSERT_TRUE(hz_lock_try_acquire(&guard));
        EXPECT_TRUE(hz_lock_is_mine(&guard));
        hz_lock_release(&guard);
    }).join();
    EXPECT_EQ(hz_load_rlx(&guard.word), 0U);
}

TEST(Lock, WaitsForAWhile) {
    struct hz_lock guard = HZ_LOCK_INIT(HZ_RANK_OUTER);
    ASSERT_TRUE(hz_lock_acquire_within(&guard, 0)) << "a free lock needs no wait";
    EXPECT_TRUE(hz_lock_is_mine(&guard));
    std::thread([&] {
        uint64_t begin = hz_os_now_ms();
        EXPECT_FALSE(hz_lock_acquire_within(&guard, 50));
        EXPECT_GE(hz_os_now_ms() - begin, 50U);
        EXPECT_FALSE(hz_lock_is_mine(&guard));
    }).join();
    std::thread waiting([&] {
        EXPECT_TRUE(hz_lock_acquire_within(&guard, 60000)) << "the release wakes it";
        EXPECT_TRUE(hz_lock_is_mine(&guard));
        hz_lock_release(&guard);
    });
    while (hz_load_rlx(&guard.word) != 2)
        std::this_thread::yield();
    hz_lock_release(&guard);
    waiting.join();
    EXPECT_EQ(hz_load_rlx(&guard.word), 0U);
}

/* Threads add to a plain variable. With `yielding`, the holder yields so that other threads have to sleep. */
void count_under_lock(bool yielding, unsigned turns) {
    constexpr unsigned threads = 4;
    struct hz_lock guard = HZ_LOCK_INIT(HZ_RANK_OUTER);
    uint64_t value = 0;
    unsigned inside = 0;
    bool alone = true;
    unit::together(threads, [&](unsigned index) {
        for (unsigned i = 0; i < turns; i++) {
            if (index % 2 == 0)
                hz_lock_acquire(&guard);
            else
                while (!hz_lock_try_acquire(&guard))
                    std::this_thread::yield();
            alone = alone && ++inside == 1;
            value++;
            if (yielding)
                std::this_thread::yield();
            inside--;
            hz_lock_release(&guard);
        }
    });
    EXPECT_TRUE(alone);
    EXPECT_EQ(value, uint64_t{threads} * turns);
}

TEST(Lock, ExcludesInShortSections) {
    count_under_lock(false, rounds(30000));
}

TEST(Lock, ExcludesInLongSections) {
    count_under_lock(true, rounds(1500));
}

TEST(Lock, SleeperIsWoken) {
    struct hz_lock guard = HZ_LOCK_INIT(HZ_RANK_OUTER);
    hz_lock_acquire(&guard);
    bool entered = false;
    std::thread waiter([&] {
        hz_lock_acquire(&guard);
        entered = true;
        hz_lock_release(&guard);
    });
    while (hz_load_rlx(&guard.word) != 2) /* until the waiter sleeps */
        std::this_thread::yield();
    EXPECT_FALSE(entered);
    hz_lock_release(&guard);
    waiter.join();
    EXPECT_TRUE(entered);
    EXPECT_EQ(hz_load_rlx(&guard.word), 0U);
}

TEST(Lock, ThreadNumbersDiffer) {
    constexpr unsigned threads = 8;
    uintptr_t numbers[threads + 1];
    unit::Barrier all_here(threads); /* a number can be used again once its thread has ended */
    numbers[threads] = hz_lock_self();
    unit::together(threads, [&](unsigned index) {
        numbers[index] = hz_lock_self();
        all_here.wait();
    });
    for (unsigned i = 0; i <= threads; i++) {
        EXPECT_NE(numbers[i], 0U);
        for (unsigned j = 0; j < i; j++)
            EXPECT_NE(numbers[i], numbers[j]);
    }
}

TEST(LockFork, FreeAndOwnLocksAreNotAbandoned) {
    struct hz_lock unused = HZ_LOCK_INIT(HZ_RANK_OUTER);
    struct hz_lock own = HZ_LOCK_INIT(HZ_RANK_ARENA);
    hz_lock_acquire(&own);
    uintptr_t number = hz_lock_self();
    children::expect_good_end(children::start([&] {
        require(hz_lock_self() == number, "fork keeps the thread's number");
        require(!hz_lock_abandoned(&unused), "a free lock is not abandoned");
        require(!hz_lock_abandoned(&own) && hz_lock_is_mine(&own), "the forking thread keeps its lock");
        hz_lock_release(&own);
        hz_lock_acquire(&unused);
        hz_lock_release(&unused);
        return 0;
    }));
    EXPECT_TRUE(hz_lock_is_mine(&own));
    hz_lock_release(&own);
}

/* This thread forks while another thread holds the lock. If `awaited`, a third thread sleeps until the lock is free. */
void fork_while_held(bool awaited) {
    struct hz_lock guard = HZ_LOCK_INIT(HZ_RANK_OUTER);
    std::atomic<bool> held{false};
    std::atomic<bool> forked{false};
    std::thread holder([&] {
        hz_lock_acquire(&guard);
        held = true;
        while (!forked)
            std::this_thread::yield();
        EXPECT_TRUE(hz_lock_is_mine(&guard)) << "the reset in the child changes nothing here";
        hz_lock_release(&guard);
    });
    while (!held)
        std::this_thread::yield();
    std::thread waiter([&] {
        if (awaited) {
            hz_lock_acquire(&guard);
            hz_lock_release(&guard);
        }
    });
    while (awaited && hz_load_rlx(&guard.word) != 2)
        std::this_thread::yield();
    pid_t child = children::start([&] {
        require(hz_lock_abandoned(&guard), "the holder does not exist here");
        require(!hz_lock_try_acquire(&guard), "the lock is held until the reset");
        hz_lock_reset(&guard);
        require(!hz_lock_abandoned(&guard), "the reset frees the lock");
        hz_lock_acquire(&guard);
        require(hz_lock_is_mine(&guard), "the lock works again");
        hz_lock_release(&guard);
        return 0;
    });
    children::expect_good_end(child);
    forked = true;
    holder.join();
    waiter.join();
}

TEST(LockFork, ChildResetsAHeldLock) {
    fork_while_held(false);
}

TEST(LockFork, ChildResetsAnAwaitedLock) {
    fork_while_held(true);
}

TEST(LockRank, RisingOrderIsAllowed) {
    struct hz_lock outer = HZ_LOCK_INIT(HZ_RANK_INIT);
    struct hz_lock middle = HZ_LOCK_INIT(HZ_RANK_OUTER);
    struct hz_lock inner = HZ_LOCK_INIT(HZ_RANK_META);
    for (int turn = 0; turn < 2; turn++) {
        hz_lock_acquire(&outer);
        hz_lock_acquire(&middle);
        EXPECT_TRUE(hz_lock_try_acquire(&inner));
        hz_lock_release(&inner);
        hz_lock_release(&middle);
        hz_lock_acquire(&inner);
        hz_lock_release(&outer); /* locks may be released in any order */
        hz_lock_release(&inner);
    }
}

TEST(LockRank, LeavesComeLast) {
    struct hz_lock inner = HZ_LOCK_INIT(HZ_RANK_META);
    struct hz_lock leaf = HZ_LOCK_INIT(HZ_RANK_LEAF);
    hz_lock_acquire(&inner);
    hz_lock_acquire(&leaf);
    hz_lock_release(&leaf);
    hz_lock_release(&inner);
    EXPECT_EQ(HZ_RANK_LEAF, 0) << "zeroed memory is a free leaf";
}

TEST(LockRankDeathTest, NothingIsTakenUnderALeaf) {
    if (!HZ_CONFIG_CHECKS)
        GTEST_SKIP() << "ranks are checked in the check build";
    struct hz_lock leaf = HZ_LOCK_INIT(HZ_RANK_LEAF);
    struct hz_lock other = HZ_LOCK_INIT(HZ_RANK_LEAF);
    struct hz_lock low = HZ_LOCK_INIT(HZ_RANK_INIT);
    hz_lock_acquire(&leaf);
    EXPECT_DEATH(hz_lock_acquire(&low), "internal error: .*rank");
    EXPECT_DEATH(hz_lock_acquire(&other), "internal error: .*rank");
    hz_lock_release(&leaf);
    EXPECT_DEATH(hz_lock_release(&leaf), "internal error: .*rank");
}

TEST(LockRankDeathTest, OtherOrdersAbort) {
    if (!HZ_CONFIG_CHECKS)
        GTEST_SKIP() << "ranks are checked in the check build";
    struct hz_lock low = HZ_LOCK_INIT(HZ_RANK_OUTER);
    struct hz_lock same = HZ_LOCK_INIT(HZ_RANK_OUTER);
    struct hz_lock high = HZ_LOCK_INIT(HZ_RANK_ARENA);
    hz_lock_acquire(&low);
    EXPECT_DEATH(hz_lock_acquire(&same), "internal error: .*rank");
    hz_lock_release(&low);
    hz_lock_acquire(&high);
    EXPECT_DEATH(hz_lock_acquire(&low), "internal error: .*rank");
    EXPECT_DEATH(hz_lock_try_acquire(&low), "internal error: .*rank");
    hz_lock_release(&high);
    EXPECT_DEATH(hz_lock_release(&high), "internal error: .*rank");
}

} // namespace
