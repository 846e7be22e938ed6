/* Threads that are disturbed: hit by signals, cancelled, started by the thousand. Nothing is lost, no lock stays held.
 */
#include "blocks.h"
#include "threads.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <gtest/gtest.h>
#include <pthread.h>
#include <semaphore.h>
#include <vector>

namespace {

using namespace support;

constexpr size_t thread_count = 4;
constexpr size_t signal_count = sanitized ? 500 : 2000; /* to each thread */
constexpr size_t victim_count = sanitized ? 50 : 500;
constexpr size_t crowd_count = sanitized ? 100 : 2000;

std::atomic<size_t> damaged{0};
std::atomic<bool> is_over{false};
std::atomic<size_t> signals{0};
threads::Queue<256> passed;

/* Allocates here and frees what others have allocated, too. */
void work_once(Random &random) {
    void *block = blocks::make(blocks::pick_size(random), random.next());
    damaged += block == nullptr || (!passed.try_push(block) && !blocks::drop(block)) ? 1 : 0;
    damaged += blocks::drop(passed.try_pop()) ? 0 : 1;
}

void *work_until_over(void *argument) {
    Random random(reinterpret_cast<uintptr_t>(argument));
    while (!is_over.load())
        work_once(random);
    return nullptr;
}

void empty_the_queue() {
    while (void *block = passed.try_pop())
        damaged += blocks::drop(block) ? 0 : 1;
}

/* Everything still works, so no lock was left held. */
void expect_all_is_well(size_t live) {
    empty_the_queue();
    for (size_t size : {size_t{16}, size_t{3000}, 50 * KiB, MiB, 5 * MiB})
        damaged += blocks::drop(blocks::make(size, size)) ? 0 : 1;
    t_give_back();
    EXPECT_EQ(damaged.load(), 0U);
    if (!t_system) {
        EXPECT_EQ(live_bytes(), live);
    }
}

class Storm : public testing::Test {
  protected:
    void SetUp() override {
        t_free(t_malloc(1));
        live_ = t_system ? 0 : live_bytes();
        damaged = 0;
        signals = 0;
        is_over = false;
    }
    size_t live_ = 0;
};

/* Each thread is hit again as soon as its handler has run: in bins, under locks, in system calls. */
TEST_F(Storm, Signals) {
    struct sigaction action = {};
    struct sigaction before = {};
    action.sa_handler = [](int) { signals.fetch_add(1); }; /* without SA_RESTART, so system calls are interrupted */
    ASSERT_EQ(sigaction(SIGUSR2, &action, &before), 0);
    pthread_t started[thread_count];
    for (size_t i = 0; i < thread_count; i++)
        ASSERT_EQ(threads::start(&started[i], work_until_over, reinterpret_cast<void *>(i + 1)), 0);
    size_t sent = 0;
    for (size_t i = 0; i < signal_count; i++) {
        for (pthread_t thread : started)
            sent += pthread_kill(thread, SIGUSR2) == 0 ? 1 : 0;
        sched_yield();
    }
    is_over = true;
    for (pthread_t thread : started)
        pthread_join(thread, nullptr);
    EXPECT_EQ(sent, signal_count * thread_count);
    EXPECT_GT(signals.load(), 0U);
    sigaction(SIGUSR2, &before, nullptr);
    expect_all_is_well(live_);
}

/* None of the library's functions is a cancellation point, or the block in its hands would be lost. */
void *work_until_cancelled(void *argument) {
    Random random(reinterpret_cast<uintptr_t>(argument));
    while (true) {
        work_once(random);
        if (random.below(64) == 0)
            t_give_back();
        pthread_testcancel();
    }
}

TEST_F(Storm, CancelledThreads) {
    for (size_t done = 0; done < victim_count; done += thread_count) {
        pthread_t started[thread_count];
        for (size_t i = 0; i < thread_count; i++)
            ASSERT_EQ(threads::start(&started[i], work_until_cancelled, reinterpret_cast<void *>(done + i + 1)), 0);
        for (pthread_t thread : started)
            ASSERT_EQ(pthread_cancel(thread), 0);
        for (pthread_t thread : started) {
            void *result = nullptr;
            ASSERT_EQ(pthread_join(thread, &result), 0);
            EXPECT_EQ(result, PTHREAD_CANCELED);
        }
    }
    expect_all_is_well(live_);
}

pthread_barrier_t together;

void *meet(void *argument) {
    Random random(reinterpret_cast<uintptr_t>(argument));
    for (int i = 0; i < 20; i++)
        work_once(random);
    void *kept = blocks::make(2000, 7);
    pthread_barrier_wait(&together); /* all threads are alive */
    pthread_barrier_wait(&together);
    damaged += blocks::drop(kept) ? 0 : 1;
    return nullptr;
}

TEST_F(Storm, ManyThreadsAtOnce) {
    std::vector<pthread_t> started(crowd_count);
    size_t held = 0;
    for (int round = 0; round < 2; round++) {
        pthread_barrier_init(&together, nullptr, static_cast<unsigned>(crowd_count) + 1);
        for (size_t i = 0; i < crowd_count; i++)
            ASSERT_EQ(threads::start(&started[i], meet, reinterpret_cast<void *>(i + 1)), 0) << "thread " << i;
        pthread_barrier_wait(&together);
        size_t live = t_system ? 0 : live_bytes();
        pthread_barrier_wait(&together);
        for (pthread_t thread : started)
            pthread_join(thread, nullptr);
        pthread_barrier_destroy(&together);
        empty_the_queue();
        if (!t_system) {
            EXPECT_GE(live, live_ + crowd_count * 2000);
        }
        if (round == 1 && !sanitized) {
            /* the C library may keep 40 MiB of stacks, or not */
            EXPECT_LT(resident_bytes(), held + 64 * MiB) << "the second crowd uses what the first one left";
        }
        held = resident_bytes();
    }
    expect_all_is_well(live_);
}

} // namespace
