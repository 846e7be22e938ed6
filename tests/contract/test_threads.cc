/* What a program asks about its threads, and tells the heap about them: hz_thread_idle, hz_thread_stats_get,
   hz_threads_stats_get, hz_background_set; and peaks by phase: hz_stats_peak_reset. */
#include "api.h"
#include "support.h"

#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <thread>

namespace {

using namespace support;

class Threads : public testing::Test {
  protected:
    void SetUp() override {
        if (t_table.thread_idle_fn == nullptr)
            GTEST_SKIP() << "hz_thread_idle does not exist here";
    }
    /* Leaves freed blocks of several sizes in the calling thread's bins. */
    static void churn() {
        std::vector<void *> blocks(64);
        for (size_t size : {size_t{32}, size_t{100}, size_t{1000}, size_t{5000}}) {
            for (void *&block : blocks)
                block = t_malloc(size);
            for (void *block : blocks)
                t_free(block);
        }
    }
    static struct hz_thread_stats mine() {
        struct hz_thread_stats stats = {};
        EXPECT_EQ(t_table.thread_stats_get_fn(&stats, sizeof(stats)), 0);
        return stats;
    }
};

TEST_F(Threads, AnIdleThreadKeepsNothing) {
    if (t_config_has("fences=1"))
        GTEST_SKIP() << "there freed blocks wait in the quarantine";
    std::thread([] {
        churn();
        struct hz_thread_stats before = mine();
        EXPECT_GT(before.cached_bytes, 0U);
        EXPECT_GE(before.cached_bytes, before.remote_bytes);
        errno = EILSEQ;
        t_table.thread_idle_fn();
        EXPECT_EQ(errno, EILSEQ);
        EXPECT_EQ(mine().cached_bytes, 0U);
        churn(); /* and goes on as before */
        EXPECT_GT(mine().cached_bytes, 0U);
    }).join();
}

TEST_F(Threads, WhatGoesHomeIsFreeForOthers) {
    if (t_config_has("fences=1"))
        GTEST_SKIP() << "there freed blocks wait in the quarantine";
    std::thread([] {
        std::vector<void *> blocks(200);
        for (void *&block : blocks)
            block = t_malloc(2000);
        struct hz_stats before = {};
        struct hz_stats after = {};
        for (void *block : blocks)
            t_free(block);
        EXPECT_EQ(t_stats_get(&before), 0);
        t_table.thread_idle_fn();
        EXPECT_EQ(t_stats_get(&after), 0);
        EXPECT_LE(after.cached_bytes, before.cached_bytes);
        EXPECT_LE(after.live_bytes, before.live_bytes + (t_system ? 256 * KiB : 0));
    }).join();
}

TEST_F(Threads, AThreadThatHasNotAllocatedMayBeIdle) {
    std::thread([] {
        t_table.thread_idle_fn();
        EXPECT_EQ(mine().remote_bytes, 0U);
    }).join();
}

TEST_F(Threads, EachThreadHasAnElement) {
    constexpr size_t count = 3;
    std::atomic<size_t> here{0};
    std::atomic<bool> stop{false};
    t_free(t_malloc(100));
    size_t before = t_table.threads_stats_get_fn(nullptr, 0, 0);
    EXPECT_GE(before, 1U);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; i++)
        threads.emplace_back([&] {
            void *block = nullptr;
            while (block == nullptr) /* where one call of the OS fails, the second attempt succeeds */
                block = t_malloc(100);
            t_free(block);
            here++;
            while (!stop.load())
                std::this_thread::yield();
        });
    while (here.load() < count)
        std::this_thread::yield();
    std::vector<struct hz_thread_stats> rows(before + count + 5);
    rows[before + count].thread_id = 77;
    EXPECT_EQ(t_table.threads_stats_get_fn(rows.data(), rows.size(), sizeof(rows[0])), before + count);
    EXPECT_EQ(rows[before + count].thread_id, 77U) << "elements behind the last thread's are not written";
    rows[1].thread_id = 78;
    EXPECT_EQ(t_table.threads_stats_get_fn(rows.data(), 1, sizeof(rows[0])), before + count)
        << "there are more than were asked for";
    EXPECT_EQ(rows[1].thread_id, 78U);
    stop.store(true);
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(t_table.threads_stats_get_fn(nullptr, 0, 0), before);
}

TEST_F(Threads, GetOfNullIsEINVAL) {
    errno = 0;
    EXPECT_EQ(t_table.thread_stats_get_fn(nullptr, sizeof(struct hz_thread_stats)), -1);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(Threads, APeakBeginsAnew) {
    void *block = nullptr;
    while (block == nullptr) /* where one call of the OS fails, the second attempt succeeds */
        block = t_malloc(100 * MiB);
    t_free(block);
    t_give_back();
    struct hz_stats stats = {};
    ASSERT_EQ(t_stats_get(&stats), 0);
    EXPECT_GE(stats.peak_bytes, 100 * MiB);
    t_table.stats_peak_reset_fn();
    ASSERT_EQ(t_stats_get(&stats), 0);
    EXPECT_GE(stats.peak_bytes, stats.resident_bytes);
    EXPECT_LT(stats.peak_bytes, stats.resident_bytes + 20 * MiB);
    block = nullptr;
    while (block == nullptr)
        block = t_malloc(60 * MiB);
    t_free(block);
    t_give_back();
    ASSERT_EQ(t_stats_get(&stats), 0);
    EXPECT_GE(stats.peak_bytes, 60 * MiB);
    EXPECT_LT(stats.peak_bytes, 90 * MiB);
}

/* Where there can be no background thread, 0 and 1 both say so. */
TEST_F(Threads, TheBackgroundThreadCanBeStoppedAndAllowed) {
    for (int wrong : {-1, 2, 100}) {
        errno = 0;
        EXPECT_EQ(t_table.background_set_fn(wrong), -1) << wrong;
        EXPECT_EQ(errno, EINVAL) << wrong;
    }
    errno = 0;
    int stopped = t_table.background_set_fn(0);
    EXPECT_TRUE(stopped == 0 || errno == EPERM);
    std::thread(churn).join();
    EXPECT_EQ(t_table.background_set_fn(0), stopped) << "a second time";
    EXPECT_EQ(t_table.background_set_fn(1), stopped);
    EXPECT_EQ(t_table.background_set_fn(1), stopped);
    std::thread(churn).join();
}

} // namespace
