/* Thread churn: tens of thousands of short-lived threads, and blocks that outlive their owner. */
#include "blocks.h"
#include "threads.h"

#include <gtest/gtest.h>
#include <memory>

namespace {

using namespace support;

constexpr size_t blocks_per_thread = 40;

struct Life {
    uint64_t seed;
    void *kept[blocks_per_thread];      /* blocks that outlive the thread */
    void *inherited[blocks_per_thread]; /* blocks of a thread that has ended; this thread frees them */
    size_t damaged;
};

/* A thread allocates two sets of blocks, frees one set and the inherited blocks, and ends with the other set alive. */
void *short_life(void *argument) {
    auto *life = static_cast<Life *>(argument);
    Random random(life->seed);
    void *own[blocks_per_thread];
    for (size_t i = 0; i < blocks_per_thread; i++) {
        size_t limit = i == 0 ? 40 * KiB : 2 * KiB;
        own[i] = blocks::make(random.between(blocks::least_size, limit), random.next());
        life->kept[i] = blocks::make(random.between(blocks::least_size, limit), random.next());
        if (own[i] == nullptr || life->kept[i] == nullptr)
            abort();
    }
    life->damaged = 0;
    for (size_t i = 0; i < blocks_per_thread; i++) {
        life->damaged += blocks::drop(own[i]) ? 0 : 1;
        life->damaged += blocks::drop(life->inherited[i]) ? 0 : 1;
    }
    return nullptr;
}

constexpr size_t at_once = 8;

/* Generations of 8 threads. Each generation inherits the blocks of the previous one, whose threads have ended. */
class Generations {
  public:
    ~Generations() {
        for (Life &life : lives_)
            for (void *block : life.kept)
                damaged_ += blocks::drop(block) ? 0 : 1;
        EXPECT_EQ(damaged_, 0U);
    }

    void run(size_t thread_count) {
        for (size_t done = 0; done < thread_count; done += at_once)
            run_one_generation();
    }

  private:
    void run_one_generation() {
        pthread_t started[at_once];
        for (size_t i = 0; i < at_once; i++) {
            memcpy(lives_[i].inherited, lives_[i].kept, sizeof lives_[i].kept);
            lives_[i].seed = ++seed_;
            ASSERT_EQ(threads::start(&started[i], short_life, &lives_[i]), 0);
        }
        for (size_t i = 0; i < at_once; i++) {
            pthread_join(started[i], nullptr);
            damaged_ += lives_[i].damaged;
        }
    }

    Life lives_[at_once] = {};
    uint64_t seed_ = 0;
    size_t damaged_ = 0;
};

TEST(Churn, TwentyThousandShortThreadsUseBoundedMemory) {
    constexpr size_t total = sanitized ? 1600 : 20000;
    size_t live = live_bytes();
    {
        Generations generations;
        generations.run(total / 10);
        size_t before = resident_bytes();
        generations.run(total - total / 10);
        if (!sanitized) {
            EXPECT_LT(resident_bytes(), before + 24 * MiB);
        }
    }
    if (!t_system) {
        EXPECT_EQ(live_bytes(), live);
    }
}

/* Each thread leaves blocks behind; the main thread frees all of them after the last thread has ended. */
TEST(Churn, BlocksOfDeadThreadsStayValidUntilFreed) {
    constexpr size_t total = sanitized ? 200 : 2000;
    size_t live = live_bytes();
    std::vector<std::unique_ptr<Life>> lives;
    for (size_t i = 0; i < total; i++) {
        lives.push_back(std::make_unique<Life>());
        lives.back()->seed = i;
        pthread_t thread;
        ASSERT_EQ(threads::start(&thread, short_life, lives.back().get()), 0);
        pthread_join(thread, nullptr);
    }
    size_t damaged = 0;
    for (auto &life : lives)
        for (void *block : life->kept)
            damaged += blocks::drop(block) ? 0 : 1;
    EXPECT_EQ(damaged, 0U);
    lives.clear();
    if (!t_system) {
        EXPECT_EQ(live_bytes(), live);
    }
}

} // namespace
