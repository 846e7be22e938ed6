/* Some threads allocate, others free: 1:1, 1:n, n:1, n:n, a ring, and a consumer that never allocates. */
#include "blocks.h"
#include "threads.h"

#include <atomic>
#include <gtest/gtest.h>
#include <memory>

namespace {

using namespace support;

constexpr size_t items_per_producer = sanitized ? 20000 : 150000;

using BlockQueue = threads::Queue<512>;

struct Line {
    BlockQueue queue;
    std::atomic<size_t> received{0};
    std::atomic<size_t> damaged{0};
    std::atomic<uint64_t> next_seed{1};
};

void *produce(void *argument) {
    auto *line = static_cast<Line *>(argument);
    Random random(line->next_seed.fetch_add(1));
    for (size_t i = 0; i < items_per_producer; i++) {
        void *block = blocks::make(blocks::pick_size(random), random.next());
        if (block == nullptr)
            abort();
        line->queue.push(block);
    }
    return nullptr;
}

void *consume(void *argument) {
    auto *line = static_cast<Line *>(argument);
    while (void *block = line->queue.pop()) {
        line->received.fetch_add(1, std::memory_order_relaxed);
        if (!blocks::drop(block))
            line->damaged.fetch_add(1, std::memory_order_relaxed);
    }
    return nullptr;
}

struct Shape {
    size_t producers, consumers;
};

class Queues : public testing::TestWithParam<Shape> {};

TEST_P(Queues, EveryBlockArrivesIntact) {
    size_t live = live_bytes();
    auto line = std::make_unique<Line>();
    std::vector<pthread_t> producers(GetParam().producers), consumers(GetParam().consumers);
    for (pthread_t &thread : consumers)
        ASSERT_EQ(threads::start(&thread, consume, line.get()), 0);
    for (pthread_t &thread : producers)
        ASSERT_EQ(threads::start(&thread, produce, line.get()), 0);
    for (pthread_t thread : producers)
        pthread_join(thread, nullptr);
    line->queue.close();
    for (pthread_t thread : consumers)
        pthread_join(thread, nullptr);
    EXPECT_EQ(line->received.load(), producers.size() * items_per_producer);
    EXPECT_EQ(line->damaged.load(), 0U);
    if (!t_system) {
        EXPECT_EQ(live_bytes(), live);
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Queues, testing::Values(Shape{1, 1}, Shape{1, 4}, Shape{4, 1}, Shape{3, 3}),
                         [](const testing::TestParamInfo<Shape> &each) {
                             return std::to_string(each.param.producers) + "To" + std::to_string(each.param.consumers);
                         });

/* A ring: each thread allocates blocks, hands them to its neighbour, and frees those that it receives. */
constexpr size_t ring_threads = 6;
constexpr size_t ring_rounds = sanitized ? 5000 : 80000;

struct Ring {
    BlockQueue queues[ring_threads];
    std::atomic<size_t> index{0};
    std::atomic<size_t> freed{0};
    std::atomic<size_t> damaged{0};
    std::atomic<size_t> finished{0};
};

void free_received(Ring *ring, BlockQueue &queue) {
    while (void *block = queue.try_pop()) {
        ring->freed.fetch_add(1, std::memory_order_relaxed);
        if (!blocks::drop(block))
            ring->damaged.fetch_add(1, std::memory_order_relaxed);
    }
}

void *run_ring(void *argument) {
    auto *ring = static_cast<Ring *>(argument);
    size_t self = ring->index.fetch_add(1);
    Random random(self);
    BlockQueue &mine = ring->queues[self];
    BlockQueue &next = ring->queues[(self + 1) % ring_threads];
    for (size_t i = 0; i < ring_rounds; i++) {
        void *block = blocks::make(random.between(blocks::least_size, 2048), random.next());
        if (block == nullptr)
            abort();
        while (!next.try_push(block)) {
            free_received(ring, mine);
            sched_yield();
        }
        if (i % 16 == 0)
            free_received(ring, mine);
    }
    /* Keep receiving until all have finished: a neighbour may still be waiting for space in this queue. */
    ring->finished.fetch_add(1, std::memory_order_release);
    while (ring->finished.load(std::memory_order_acquire) < ring_threads) {
        free_received(ring, mine);
        sched_yield();
    }
    free_received(ring, mine);
    return nullptr;
}

TEST(Ring, EveryBlockArrivesIntact) {
    size_t live = live_bytes();
    auto ring = std::make_unique<Ring>();
    std::vector<pthread_t> started(ring_threads);
    for (pthread_t &thread : started)
        ASSERT_EQ(threads::start(&thread, run_ring, ring.get()), 0);
    for (pthread_t thread : started)
        pthread_join(thread, nullptr);
    EXPECT_EQ(ring->freed.load(), ring_threads * ring_rounds);
    EXPECT_EQ(ring->damaged.load(), 0U);
    if (!t_system) {
        EXPECT_EQ(live_bytes(), live);
    }
}

/*
 * Memory cached by cross-thread frees is bounded even when the consumer never allocates: 1.5 GB pass through the
 * queue, of which at most about 512 blocks (of at most 1 KiB) are live at a time.
 */
struct Flow {
    BlockQueue queue;
    size_t count;
};

void *feed(void *argument) {
    auto *flow = static_cast<Flow *>(argument);
    Random random(5);
    for (size_t i = 0; i < flow->count; i++) {
        void *block = blocks::make(random.between(16, 1024), i);
        if (block == nullptr)
            abort();
        flow->queue.push(block);
    }
    flow->queue.close();
    return nullptr;
}

void run_flow(size_t count) {
    auto flow = std::make_unique<Flow>();
    flow->count = count;
    pthread_t producer;
    ASSERT_EQ(threads::start(&producer, feed, flow.get()), 0);
    size_t damaged = 0;
    while (void *block = flow->queue.pop())
        damaged += blocks::drop(block) ? 0 : 1;
    pthread_join(producer, nullptr);
    EXPECT_EQ(damaged, 0U);
}

TEST(Queues, ConsumerThatNeverAllocatesCachesLittle) {
    run_flow(sanitized ? 10000 : 100000);
    size_t before = resident_bytes();
    run_flow(sanitized ? 50000 : 2500000);
    if (!sanitized) {
        EXPECT_LT(resident_bytes(), before + 32 * MiB);
    }
}

} // namespace
