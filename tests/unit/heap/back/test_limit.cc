/* Limits of what the heap may hold: the hard one refuses, the soft one purges and calls. */
#include "unit/folder.h"
#include "unit/heap/fixture.h"

#include <atomic>
#include <cerrno>
#include <initializer_list>
#include <string>
#include <thread>

namespace {

using support::KiB;
using support::MiB;
using unit::Blocks;

class LimitOfTheGroup : public unit::Folder {
  protected:
    size_t look() {
        hz_heap_limit_default((folder_ / "groups").c_str(), folder_.c_str(), (folder_ / "statm").c_str());
        return hz_budget_soft_limit();
    }
    /* The process seems to hold so much beside the heap, and 7 pages of files. */
    void hold_beside(size_t bytes, size_t limit) {
        size_t pages = (hz_arena_group_held_bytes(limit) + bytes) / hz_os_page_bytes();
        write("statm", "99999 " + std::to_string(pages + 7) + " 7 1 0 1 0\n");
    }
};

/* First, since no test may have set limits. The default follows the group. What cannot be read changes nothing; a limit
 * that is lifted ends. */
TEST_F(LimitOfTheGroup, IsTheDefault) {
    (void)unit::self();
    ASSERT_EQ(hz_budget_soft_limit(), 0U) << "no test in this process has set limits yet";
    write("groups", "0::/a\n");
    EXPECT_EQ(look(), 0U);
    write("a/memory.max", "838860800\n");
    EXPECT_EQ(look(), 700 * MiB);
    write("a/memory.high", "314572800\n");
    EXPECT_EQ(look(), 300 * MiB);
    std::filesystem::rename(folder_ / "groups", folder_ / "gone");
    EXPECT_EQ(look(), 300 * MiB);
    std::filesystem::rename(folder_ / "gone", folder_ / "groups");
    write("a/memory.high", "max\n");
    write("a/memory.max", "max\n");
    EXPECT_EQ(look(), 0U);
}

TEST_F(LimitOfTheGroup, LeavesRoomForWhatIsBesideTheHeap) {
    constexpr size_t max = 800 * MiB;
    (void)unit::self();
    write("groups", "0::/a\n");
    write("a/memory.max", std::to_string(max) + "\n");
    for (auto [beside, expected] : std::initializer_list<std::pair<size_t, size_t>>{
             {0, 700}, {1, 699}, {150, 550}, {600, 100}, {640, 87}, {2000, 87}}) {
        SCOPED_TRACE(beside);
        hold_beside(beside * MiB, max);
        EXPECT_EQ(look() / MiB, expected);
    }
    write("a/memory.high", std::to_string(400 * MiB) + "\n");
    for (auto [beside, expected] :
         std::initializer_list<std::pair<size_t, size_t>>{{0, 400}, {150, 250}, {350, 50}, {2000, 50}}) {
        SCOPED_TRACE(beside);
        hold_beside(beside * MiB, 400 * MiB);
        EXPECT_EQ(look() / MiB, expected);
    }
    hold_beside(150 * MiB, 400 * MiB);
    EXPECT_EQ(look() / MiB, 250U);
    for (const char *text : {"", "17", "17 4", "x y z\n"}) {
        SCOPED_TRACE(text);
        write("statm", text);
        EXPECT_EQ(look() / MiB, 250U) << "what cannot be read stays as it was";
    }
    write("statm", "5 7 9 1 0 1 0\n");
    EXPECT_EQ(look(), 400 * MiB) << "all of it is shared";
    hold_beside(150 * MiB, 400 * MiB);
    EXPECT_EQ(look() / MiB, 250U);
    hz_heap_limit_forget_beside();
    EXPECT_EQ(hz_budget_soft_limit(), 400 * MiB);
    write("a/memory.high", "max\n");
    write("a/memory.max", "max\n");
    EXPECT_EQ(look(), 0U);
}

/* A process with one thread has nobody that looks each second. */
TEST_F(LimitOfTheGroup, IsLookedAtAgainWhenTheHeapHasGrown) {
    constexpr size_t max = 800 * MiB;
    Blocks blocks;
    (void)unit::self();
    write("groups", "0::/a\n");
    write("a/memory.max", std::to_string(max) + "\n");
    EXPECT_EQ(look(), 700 * MiB);
    hold_beside(300 * MiB, max);
    auto look_again = [this] {
        hz_heap_limit_look((folder_ / "statm").c_str());
        return hz_budget_soft_limit() / MiB;
    };
    EXPECT_EQ(look_again(), 700U) << "the heap is as large as before";
    for (size_t bytes = 0; bytes < 40 * MiB; bytes += MiB)
        blocks.push_back(t_malloc(MiB));
    EXPECT_LT(look_again(), 460U) << "300 MiB less 40 seem to be beside it";
    EXPECT_GT(look_again(), 420U);
    for (void *block : blocks)
        t_free(block);
    write("a/memory.max", "max\n");
    EXPECT_EQ(look(), 0U);
}

class Limit : public testing::Test {
  protected:
    void SetUp() override {
        unit::self();
        hz_heap_purge();
    }
    void TearDown() override {
        hz_heap_limit_set(0, 0);
        hz_heap_limit_notify(nullptr, nullptr);
        hz_heap_limit_watch(nullptr);
        release();
        hz_heap_purge();
        EXPECT_EQ(support::live_bytes(), 0U);
    }
    /* Allocates blocks of `size` until there is no memory, or `bytes` are allocated. */
    size_t take(size_t size, size_t bytes) {
        size_t taken = 0;
        while (taken < bytes) {
            errno = 0;
            void *block = t_malloc(size);
            if (block == nullptr) {
                EXPECT_EQ(errno, ENOMEM);
                break;
            }
            memset(block, 1, size);
            blocks_.push_back(block);
            taken += size;
        }
        return taken;
    }
    void release() {
        for (void *block : blocks_)
            t_free(block);
        blocks_.clear();
    }
    Blocks blocks_;
};

TEST_F(Limit, AHardLimitRefusesBlocksOfEverySize) {
    for (size_t size : std::initializer_list<size_t>{64, 1000, 30000, 300000, 3000000}) {
        if (support::tsan && size == 64)
            continue; /* takes 15 s, and starts no thread */
        SCOPED_TRACE("size " + std::to_string(size));
        size_t before = hz_arena_held_bytes();
        size_t hard = before + 64 * MiB;
        hz_heap_limit_set(0, hard);
        size_t taken = take(size, 1024 * MiB);
        EXPECT_LE(hz_arena_held_bytes(), hard);
        EXPECT_LE(taken, 64 * MiB);
        EXPECT_GE(taken, 48 * MiB);
        void *block = blocks_.back();
        blocks_.pop_back();
        t_free(block);
        block = t_malloc(size);
        EXPECT_NE(block, nullptr) << "what was freed can be allocated again";
        t_free(block);
        release();
        EXPECT_GE(take(size, 40 * MiB), 40 * MiB) << "what rests makes way";
        release();
        hz_heap_limit_set(0, 0);
        EXPECT_GE(take(size, 80 * MiB), 80 * MiB) << "no limit any more";
        release();
        hz_heap_purge();
    }
}

TEST_F(Limit, ABlockDoesNotGrowBeyondTheHardLimit) {
    auto *block = static_cast<char *>(t_malloc(10 * MiB));
    ASSERT_NE(block, nullptr);
    support::fill(block, 10 * MiB, 7);
    hz_heap_limit_set(0, hz_arena_held_bytes() + 4 * MiB);
    errno = 0;
    EXPECT_EQ(t_realloc(block, 20 * MiB), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_TRUE(support::holds(block, 10 * MiB, 7));
    auto *grown = static_cast<char *>(t_realloc(block, 13 * MiB));
    ASSERT_NE(grown, nullptr);
    EXPECT_TRUE(support::holds(grown, 10 * MiB, 7));
    t_free(grown);
}

/* Pages of which parts were given back hold less than they did, so blocks taken from them count again. */
TEST_F(Limit, PartsOfPagesDoNotFillBeyondTheHardLimit) {
    constexpr size_t size = 8192;
    take(size, 64 * MiB);
    Blocks kept;
    for (size_t i = 0; i < blocks_.size(); i++)
        if (i % 8 == 0)
            kept.push_back(blocks_[i]);
        else
            t_free(blocks_[i]);
    blocks_ = kept;
    hz_heap_purge();
    size_t hard = hz_arena_held_bytes() + 8 * MiB;
    ASSERT_LT(hard, 32 * MiB) << "the purge has given parts of pages back";
    hz_heap_limit_set(0, hard);
    EXPECT_LE(take(size, 64 * MiB), 10 * MiB);
    EXPECT_LE(hz_arena_held_bytes(), hard + 1 * MiB) << "at most what one refill takes beyond it";
}

/* realloc to a smaller size may fail to find a smaller block. The check build then knows no better size for it. */
TEST_F(Limit, ABlockThatCannotMoveToASmallerOneCanBeFreedWithItsNewSize) {
    auto *block = static_cast<char *>(t_malloc(60000));
    ASSERT_NE(block, nullptr);
    support::fill(block, 60000, 9);
    hz_heap_limit_set(0, hz_arena_held_bytes());
    take(100, 64 * MiB);
    ASSERT_EQ(t_realloc(block, 100), block);
    EXPECT_TRUE(support::holds(block, 100, 9));
    t_free_sized(block, 100);
}

TEST_F(Limit, BinsShareASixteenthOfTheSoftLimit) {
    size_t without = hz_allowance();
    ASSERT_GT(without, 4 * MiB);
    hz_heap_limit_set(64 * MiB, 0);
    EXPECT_EQ(hz_allowance(), 4 * MiB / hz_pressure_threads());
    hz_heap_limit_set(size_t{1} << 40, 0);
    EXPECT_EQ(hz_allowance(), without);
}

/* The pause after a purge is 16 times as long as the purge took, 20 ms at least and 1 s at most. */
TEST_F(Limit, OnePurgeAtATimeAndAPauseAfterIt) {
    constexpr uint64_t later_ms = uint64_t{1} << 50; /* after all purges of other tests */
    const struct { uint64_t took, pause; } cases[] = {{0, 20}, {1, 20}, {5, 80}, {50, 800}, {100, 1000}};
    uint64_t now = later_ms;
    for (const auto &each : cases) {
        now += 2000;
        ASSERT_TRUE(hz_heap_limit_purge_claim(now));
        EXPECT_FALSE(hz_heap_limit_purge_claim(now + each.took)) << "another thread, meanwhile";
        uint64_t done = now + each.took;
        hz_heap_limit_purge_done(now, done);
        EXPECT_FALSE(hz_heap_limit_purge_claim(done + each.pause - 1));
        EXPECT_TRUE(hz_heap_limit_purge_claim(done + each.pause));
        hz_heap_limit_purge_done(done, done);
        now = done + each.pause;
    }
    hz_heap_limit_purge_done(0, 0); /* due at once, for other tests */
}

TEST_F(Limit, GrowthEndsThePause) {
    constexpr uint64_t now = uint64_t{1} << 51; /* after all purges of other tests */
    hz_heap_limit_set(hz_arena_held_bytes() + 64 * MiB, 0);
    ASSERT_TRUE(hz_heap_limit_purge_claim(now));
    hz_heap_limit_purge_done(now, now + 100);
    take(1000, 1 * MiB);
    EXPECT_FALSE(hz_heap_limit_purge_claim(now + 201));
    take(1000, 8 * MiB);
    EXPECT_FALSE(hz_heap_limit_purge_claim(now + 199)) << "the pause is not yet as long as the purge was";
    EXPECT_TRUE(hz_heap_limit_purge_claim(now + 201)) << "the heap holds more than 1/32 of the limit more";
    EXPECT_FALSE(hz_heap_limit_purge_claim(now + 201)) << "another thread, meanwhile";
    hz_heap_limit_set(0, 0);
    EXPECT_FALSE(hz_heap_limit_purge_claim(now + 202)) << "nothing grows beyond no limit";
    hz_heap_limit_purge_done(0, 0); /* due at once, for other tests */
}

struct Calls {
    std::atomic<int> count{0};
    std::atomic<size_t> held{0};
};

void called(size_t held_bytes, void *context) {
    auto *calls = static_cast<Calls *>(context);
    calls->count++;
    calls->held = held_bytes;
    t_free(t_malloc(100000)); /* the callback may allocate */
    t_free(t_malloc(100));
}

TEST_F(Limit, ASoftLimitCallsOnceEachTimeItIsExceeded) {
    for (size_t size : std::initializer_list<size_t>{1000, 300000, 3000000}) {
        SCOPED_TRACE("size " + std::to_string(size));
        Calls calls;
        size_t soft = hz_arena_held_bytes() + 32 * MiB;
        hz_heap_limit_set(soft, 0);
        hz_heap_limit_notify(called, &calls);
        take(size, 20 * MiB);
        EXPECT_EQ(calls.count, 0);
        take(size, 40 * MiB);
        EXPECT_EQ(calls.count, 1);
        EXPECT_GT(calls.held, soft);
        take(size, 10 * MiB);
        EXPECT_EQ(calls.count, 1) << "not again while it stays above";
        release();
        take(size, 10 * MiB); /* notices that it is below */
        take(size, 60 * MiB);
        EXPECT_EQ(calls.count, 2);
        hz_heap_limit_notify(nullptr, nullptr);
        release();
        take(size, 60 * MiB);
        EXPECT_EQ(calls.count, 2) << "nobody is called any more";
        release();
        hz_heap_limit_set(0, 0);
        hz_heap_purge();
    }
}

std::atomic<int> told;

TEST_F(Limit, TheReportsAreToldWithoutACallback) {
    told = 0;
    hz_heap_limit_watch([] { told++; });
    hz_heap_limit_set(hz_arena_held_bytes() + 32 * MiB, 0);
    take(1000, 20 * MiB);
    EXPECT_EQ(told, 0);
    take(1000, 40 * MiB);
    EXPECT_EQ(told, 1);
    take(1000, 10 * MiB);
    EXPECT_EQ(told, 1) << "not again while it stays above";
}

TEST_F(Limit, AboveTheSoftLimitNothingRests) {
    take(300000, 64 * MiB);
    hz_heap_limit_set(hz_arena_held_bytes() - 32 * MiB, 0);
    for (int i = 0; i < 40; i++) { /* 12 MB: the heap stays above the limit */
        t_free(blocks_.back());
        blocks_.pop_back();
    }
    EXPECT_EQ(hz_arena_resting_bytes(), 0U);
}

TEST_F(Limit, ThreadsTogetherStayBelow) {
    size_t hard = hz_arena_held_bytes() + 64 * MiB;
    hz_heap_limit_set(0, hard);
    std::atomic<size_t> refused{0};
    unit::together(4, [&](unsigned index) {
        support::Random random(index);
        Blocks mine;
        for (unsigned i = 0; i < unit::rounds(4000); i++) {
            size_t size = random.between(16, 200000);
            void *block = t_malloc(size);
            refused += block == nullptr;
            if (block != nullptr) {
                memset(block, 1, 16);
                mine.push_back(block);
            } else {
                for (size_t half = mine.size() / 2; half > 0; half--) {
                    t_free(mine.back());
                    mine.pop_back();
                }
            }
            if (hz_arena_held_bytes() > hard + 8 * MiB)
                abort();
        }
        for (void *block : mine)
            t_free(block);
    });
    if (!support::sanitized) { /* there the few rounds may not reach it */
        EXPECT_GT(refused, 0U);
    }
}

TEST_F(Limit, TheProgramsLimitsWinOverTheGroups) {
    hz_heap_limit_set(300 * MiB, 400 * MiB);
    hz_heap_limit_default("/proc/self/cgroup", "/sys/fs/cgroup", "/proc/self/statm");
    EXPECT_EQ(hz_budget_soft_limit(), 300 * MiB);
    EXPECT_EQ(hz_budget_hard_limit(), 400 * MiB);
}

} // namespace
