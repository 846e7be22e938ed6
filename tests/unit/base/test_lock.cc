/* The futex lock: mutual exclusion, sleeping and waking, what fork leaves of it, ranks. */
#include "stress/children.h"
#include "unit/base/shim.h"
#include "unit/together.h"

#include <gtest/gtest.h>

namespace {

using children::require;
using unit::rounds;

struct Lock {
    struct hz_lock *lock;
    explicit Lock(unsigned rank = unit_rank_shard) : lock(unit_lock_new(rank)) {
    }
    ~Lock() {
        unit_delete(lock);
    }
};

TEST(Lock, OneHolder) {
    Lock guard;
    EXPECT_FALSE(hz_lock_is_mine(guard.lock));
    hz_lock_acquire(guard.lock);
    EXPECT_TRUE(hz_lock_is_mine(guard.lock));
    EXPECT_FALSE(hz_lock_try_acquire(guard.lock)) << "it is no recursive lock";
    std::thread([&] {
        EXPECT_FALSE(hz_lock_try_acquire(guard.lock));
        EXPECT_FALSE(hz_lock_is_mine(guard.lock));
    }).join();
    hz_lock_release(guard.lock);
    EXPECT_FALSE(hz_lock_is_mine(guard.lock));
    std::thread([&] {
        ASSERT_TRUE(hz_lock_try_acquire(guard.lock));
        EXPECT_TRUE(hz_lock_is_mine(guard.lock));
        hz_lock_release(guard.lock);
    }).join();
    EXPECT_EQ(unit_lock_word(guard.lock), 0U);
}

/* Threads add to a plain variable; with `yielding`, others are made to sleep. */
void count_under_lock(bool yielding, unsigned turns) {
    constexpr unsigned threads = 4;
    Lock guard;
    uint64_t value = 0;
    unsigned inside = 0;
    bool alone = true;
    unit::together(threads, [&](unsigned index) {
        for (unsigned i = 0; i < turns; i++) {
            if (index % 2 == 0)
                hz_lock_acquire(guard.lock);
            else
                while (!hz_lock_try_acquire(guard.lock))
                    std::this_thread::yield();
            alone = alone && ++inside == 1;
            value++;
            if (yielding)
                std::this_thread::yield();
            inside--;
            hz_lock_release(guard.lock);
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
    Lock guard;
    hz_lock_acquire(guard.lock);
    bool entered = false;
    std::thread waiter([&] {
        hz_lock_acquire(guard.lock);
        entered = true;
        hz_lock_release(guard.lock);
    });
    while (unit_lock_word(guard.lock) != 2) /* until it says that it sleeps */
        std::this_thread::yield();
    EXPECT_FALSE(entered);
    hz_lock_release(guard.lock);
    waiter.join();
    EXPECT_TRUE(entered);
    EXPECT_EQ(unit_lock_word(guard.lock), 0U);
}

TEST(Lock, ThreadNumbersDiffer) {
    constexpr unsigned threads = 8;
    uintptr_t numbers[threads + 1];
    unit::Barrier all_here(threads); /* numbers may repeat once a thread is gone */
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
    Lock unused;
    Lock own(unit_rank_arena);
    hz_lock_acquire(own.lock);
    uintptr_t number = hz_lock_self();
    children::expect_good_end(children::start([&] {
        require(hz_lock_self() == number, "fork keeps the thread's number");
        require(!hz_lock_abandoned(unused.lock), "a free lock is not abandoned");
        require(!hz_lock_abandoned(own.lock) && hz_lock_is_mine(own.lock), "the forking thread keeps its lock");
        hz_lock_release(own.lock);
        hz_lock_acquire(unused.lock);
        hz_lock_release(unused.lock);
        return 0;
    }));
    EXPECT_TRUE(hz_lock_is_mine(own.lock));
    hz_lock_release(own.lock);
}

/* A thread holds the lock, and another one sleeps for it if asked, while this one forks. */
void fork_while_held(bool awaited) {
    Lock guard;
    std::atomic<bool> held{false};
    std::atomic<bool> forked{false};
    std::thread holder([&] {
        hz_lock_acquire(guard.lock);
        held = true;
        while (!forked)
            std::this_thread::yield();
        EXPECT_TRUE(hz_lock_is_mine(guard.lock)) << "the child's reset is the child's";
        hz_lock_release(guard.lock);
    });
    while (!held)
        std::this_thread::yield();
    std::thread waiter([&] {
        if (awaited) {
            hz_lock_acquire(guard.lock);
            hz_lock_release(guard.lock);
        }
    });
    while (awaited && unit_lock_word(guard.lock) != 2)
        std::this_thread::yield();
    pid_t child = children::start([&] {
        require(hz_lock_abandoned(guard.lock), "its holder is not here");
        require(!hz_lock_try_acquire(guard.lock), "until the reset it is held");
        hz_lock_reset(guard.lock);
        require(!hz_lock_abandoned(guard.lock), "the reset makes it free");
        hz_lock_acquire(guard.lock);
        require(hz_lock_is_mine(guard.lock), "it works again");
        hz_lock_release(guard.lock);
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
    Lock outer(unit_rank_init);
    Lock middle(unit_rank_shard);
    Lock inner(unit_rank_meta);
    for (int turn = 0; turn < 2; turn++) {
        hz_lock_acquire(outer.lock);
        hz_lock_acquire(middle.lock);
        EXPECT_TRUE(hz_lock_try_acquire(inner.lock));
        hz_lock_release(inner.lock);
        hz_lock_release(middle.lock);
        hz_lock_acquire(inner.lock);
        hz_lock_release(outer.lock); /* any order of release */
        hz_lock_release(inner.lock);
    }
}

TEST(LockRank, LeavesComeLast) {
    Lock inner(unit_rank_meta);
    Lock leaf(unit_rank_leaf);
    hz_lock_acquire(inner.lock);
    hz_lock_acquire(leaf.lock);
    hz_lock_release(leaf.lock);
    hz_lock_release(inner.lock);
    EXPECT_EQ(unit_rank_leaf, 0U) << "zeroed memory is a free leaf";
}

TEST(LockRankDeathTest, NothingIsTakenUnderALeaf) {
    if (!HZ_CONFIG_CHECKS)
        GTEST_SKIP() << "ranks are checked in the check build";
    Lock leaf(unit_rank_leaf);
    Lock other(unit_rank_leaf);
    Lock low(unit_rank_init);
    hz_lock_acquire(leaf.lock);
    EXPECT_DEATH(hz_lock_acquire(low.lock), "internal error: .*rank");
    EXPECT_DEATH(hz_lock_acquire(other.lock), "internal error: .*rank");
    hz_lock_release(leaf.lock);
    EXPECT_DEATH(hz_lock_release(leaf.lock), "internal error: .*rank");
}

TEST(LockRankDeathTest, OtherOrdersAbort) {
    if (!HZ_CONFIG_CHECKS)
        GTEST_SKIP() << "ranks are checked in the check build";
    Lock low(unit_rank_shard);
    Lock same(unit_rank_shard);
    Lock high(unit_rank_arena);
    hz_lock_acquire(low.lock);
    EXPECT_DEATH(hz_lock_acquire(same.lock), "internal error: .*rank");
    hz_lock_release(low.lock);
    hz_lock_acquire(high.lock);
    EXPECT_DEATH(hz_lock_acquire(low.lock), "internal error: .*rank");
    EXPECT_DEATH(hz_lock_try_acquire(low.lock), "internal error: .*rank");
    hz_lock_release(high.lock);
    EXPECT_DEATH(hz_lock_release(high.lock), "internal error: .*rank");
}

} // namespace
