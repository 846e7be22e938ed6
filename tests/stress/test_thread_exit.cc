/*
 * Code that runs while a thread ends may still allocate and free: C++ thread_local destructors, and destructors of
 * pthread keys created before and after the allocator's own key, in every round that POSIX allows.
 */
#include "blocks.h"
#include "threads.h"

#include <atomic>
#include <climits>
#include <gtest/gtest.h>

namespace {

using namespace support;

/* Sanitizers destroy their own thread state in the last rounds. */
constexpr long rounds = sanitized ? 2 : PTHREAD_DESTRUCTOR_ITERATIONS;
constexpr size_t thread_count = sanitized ? 200 : 2000;

/* Blocks on their way between threads; every stage of every exit takes some and adds some. */
threads::Queue<4096> pool;
std::atomic<size_t> stages{0};
std::atomic<size_t> damaged{0};

void drop(void *block) {
    if (!blocks::drop(block))
        damaged.fetch_add(1, std::memory_order_relaxed);
}

/* One stage of a thread's end: it allocates, frees, leaves blocks for other threads and frees blocks of others. */
void work_while_ending(uint64_t seed) {
    Random random(seed);
    void *own[16];
    for (void *&block : own) {
        block = blocks::make(blocks::pick_size(random) / 4 + blocks::least_size, random.next());
        if (block == nullptr)
            abort();
    }
    for (size_t i = 0; i < 8; i++)
        drop(own[i]);
    own[8] = t_realloc(own[8], 5000);
    blocks::stamp(own[8], 5000, seed);
    for (size_t i = 8; i < 16; i++) {
        if (i % 2 == 0 && pool.try_push(own[i]))
            drop(pool.try_pop());
        else
            drop(own[i]);
    }
    stages.fetch_add(1, std::memory_order_relaxed);
}

pthread_key_t early_key, late_key;

/* The value of a key is the number of rounds left. */
void end_early_key(void *value) {
    auto left = reinterpret_cast<intptr_t>(value);
    work_while_ending(static_cast<uint64_t>(left));
    if (left > 1)
        pthread_setspecific(early_key, reinterpret_cast<void *>(left - 1));
}

void end_late_key(void *value) {
    auto left = reinterpret_cast<intptr_t>(value);
    work_while_ending(static_cast<uint64_t>(left) + 100);
    if (left > 1)
        pthread_setspecific(late_key, reinterpret_cast<void *>(left - 1));
}

/* Runs before any constructor of default priority, and before the first allocation of this file. */
__attribute__((constructor(101))) void make_early_key() {
    if (pthread_key_create(&early_key, end_early_key) != 0)
        abort();
}

class LocalObject {
  public:
    explicit LocalObject() : block_(blocks::make(777, 7)) {
    }
    ~LocalObject() {
        drop(block_);
        work_while_ending(200);
    }
    LocalObject(const LocalObject &) = delete;
    LocalObject &operator=(const LocalObject &) = delete;
    bool good() const {
        return blocks::intact(block_);
    }

  private:
    void *block_;
};

thread_local LocalObject local_object;

void *live_and_end(void *argument) {
    bool uses_heap = argument != nullptr;
    if (uses_heap && !local_object.good())
        damaged.fetch_add(1, std::memory_order_relaxed);
    pthread_setspecific(early_key, reinterpret_cast<void *>(rounds));
    pthread_setspecific(late_key, reinterpret_cast<void *>(rounds));
    return nullptr;
}

class ThreadExit : public testing::Test {
  protected:
    void SetUp() override {
        t_free(t_malloc(1));
        stages.store(0);
        damaged.store(0);
    }
    void TearDown() override {
        while (void *block = pool.try_pop())
            drop(block);
        EXPECT_EQ(damaged.load(), 0U);
    }
    static void SetUpTestSuite() {
        t_free(t_malloc(1)); /* makes the allocator create its key, so late_key comes after it */
        ASSERT_EQ(pthread_key_create(&late_key, end_late_key), 0);
    }
    static void TearDownTestSuite() {
        pthread_key_delete(late_key);
    }

    static void run(size_t count, bool uses_heap) {
        static char marker;
        for (size_t done = 0; done < count; done += 8) {
            pthread_t started[8];
            for (pthread_t &thread : started)
                ASSERT_EQ(threads::start(&thread, live_and_end, uses_heap ? &marker : nullptr), 0);
            for (pthread_t thread : started)
                pthread_join(thread, nullptr);
        }
    }
};

TEST_F(ThreadExit, AllDestructorsMayAllocateAndFree) {
    run(thread_count, true);
    EXPECT_EQ(stages.load(), thread_count * (1 + 2 * static_cast<size_t>(rounds)));
}

/* A thread whose first use of the heap is in a destructor attaches while it is ending. */
TEST_F(ThreadExit, FirstUseMayBeInADestructor) {
    run(thread_count, false);
    EXPECT_EQ(stages.load(), thread_count * 2 * static_cast<size_t>(rounds));
}

TEST_F(ThreadExit, NothingIsLost) {
    run(64, true);
    while (void *block = pool.try_pop())
        drop(block);
    size_t live = live_bytes();
    size_t resident = resident_bytes();
    run(thread_count, true);
    while (void *block = pool.try_pop())
        drop(block);
    if (!t_system) {
        EXPECT_EQ(live_bytes(), live);
    }
    if (!sanitized) {
        EXPECT_LT(resident_bytes(), resident + 32 * MiB);
    }
}

/* A block that its destructor frees when pthread_exit unwinds the stack. */
struct Guard {
    explicit Guard(size_t size) : block(blocks::make(size, size)) {
    }
    ~Guard() {
        drop(block);
        stages.fetch_add(1, std::memory_order_relaxed);
    }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;
    void *block;
};

void *leave_by_pthread_exit(void *) {
    Guard guard(3000);
    pthread_exit(nullptr);
}

TEST_F(ThreadExit, PthreadExitUnwindsThroughFrees) {
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        ASSERT_EQ(threads::start(&thread, leave_by_pthread_exit, nullptr), 0);
        pthread_join(thread, nullptr);
    }
    EXPECT_EQ(stages.load(), 200U);
}

} // namespace
