/* A thread attaches at its first allocation, and sends everything home at its end. Thread blocks are used again. */
#include "stress/children.h"
#include "unit/heap/fixture.h"

#include <pthread.h>
#include <set>

namespace {

using children::require;
using unit::Blocks;

/* Blocks of every class, a run of pages and a mapping. */
Blocks some_of_everything() {
    Blocks blocks;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        blocks.push_back(t_malloc(hz_class_bytes(size_class)));
    blocks.push_back(t_malloc(300000));
    blocks.push_back(t_malloc(5 * support::MiB));
    return blocks;
}

void free_all(const Blocks &blocks) {
    for (void *block : blocks)
        t_free(block);
}

size_t cached_in_bins(struct hz_thread_block *thread) {
    size_t count = 0;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        count += unit::bin_count(thread, size_class);
    return count;
}

/* Must be the first test: neither this process nor its child has used the allocator yet. */
TEST(FirstThreads, AllEndWell) {
    ASSERT_EQ(hz_registry_first(), nullptr);
    children::expect_good_end(children::start([] {
        constexpr unsigned threads = 4; /* no thread has attached yet, so these install the hooks at the same time */
        unit::together(threads, [](unsigned) { free_all(some_of_everything()); });
        for (int i = 0; i < 40; i++)
            std::thread([] { free_all(some_of_everything()); }).join();
        size_t used = 0;
        for (struct hz_registered *thread = hz_registry_first(); thread != nullptr; thread = thread->next)
            used += unit::state_of(thread) == HZ_THREAD_USED;
        require(used == 0, "no thread block stays claimed");
        return 0;
    }));
}

/* A thread that sleeps pins what it has touched of its thread block. */
TEST(ThreadBlock, WhatSmallBlocksNeedFitsIntoTwoPages) {
    size_t bytes = sizeof(struct hz_thread_block);
    for (unsigned size_class = 1; size_class < HZ_MID_CLASS_FIRST; size_class++)
        bytes += (1 + hz_bin_slots_first(size_class)) * sizeof(void *);
    EXPECT_LE(bytes, 2U * 4096);
}

TEST(ThreadAttach, HappensAtTheFirstAllocation) {
    std::thread([] {
        EXPECT_FALSE(hz_is_attached(hz_self()));
        t_free(nullptr);
        EXPECT_FALSE(hz_is_attached(hz_self())) << "freeing nothing needs no thread block";
        void *block = t_malloc(1);
        EXPECT_TRUE(hz_is_attached(hz_self()));
        t_free(block);
    }).join();
}

TEST(ThreadAttach, EveryFirstOperationWorks) {
    const struct {
        const char *name;
        void *(*allocate)();
    } operations[] = {
        {"malloc 0", [] { return t_malloc(0); }},
        {"malloc medium", [] { return t_malloc(5000); }},
        {"malloc large", [] { return t_malloc(1000000); }},
        {"calloc", [] { return t_calloc(3, 5); }},
        {"calloc large", [] { return t_calloc(3, 500000); }},
        {"aligned", [] { return t_aligned_alloc(4096, 100); }},
        {"realloc", [] { return t_realloc(nullptr, 100); }},
    };
    for (const auto &operation : operations)
        std::thread([&] {
            ASSERT_FALSE(hz_is_attached(hz_self()));
            void *block = operation.allocate();
            EXPECT_NE(block, nullptr) << operation.name;
            EXPECT_TRUE(hz_is_attached(hz_self())) << operation.name;
            t_free(block);
        }).join();
}

TEST(ThreadAttach, FreesOfAThreadThatNeverAllocatesComeHome) {
    size_t before = support::live_bytes();
    Blocks blocks;
    for (int round = 0; round < 4; round++) {
        Blocks some = some_of_everything();
        blocks.insert(blocks.end(), some.begin(), some.end());
    }
    std::thread([&] { free_all(blocks); }).join();
    EXPECT_EQ(support::live_bytes(), before);
}

TEST(ThreadDetach, LeavesNothingBehind) {
    size_t before = support::live_bytes();
    struct hz_thread_block *block = nullptr;
    std::thread([&] {
        block = unit::self();
        free_all(some_of_everything());
        EXPECT_GT(cached_in_bins(block), 0U);
        hz_thread_flush(block);
        EXPECT_EQ(cached_in_bins(block), 0U);
        EXPECT_TRUE(hz_is_attached(hz_self()));
        free_all(some_of_everything());
        struct hz_shard *shard = block->shard;
        hz_thread_detach(block);
        EXPECT_FALSE(hz_is_attached(hz_self()));
        EXPECT_EQ(cached_in_bins(block), 0U);
        EXPECT_EQ(hz_load_rlx(&shard->threads), 0U);
        EXPECT_EQ(unit::state_of(hz_thread_registered(block)), HZ_THREAD_FREE);
        free_all(some_of_everything());
        EXPECT_TRUE(hz_is_attached(hz_self())) << "a thread can attach again";
    }).join();
    EXPECT_EQ(unit::state_of(hz_thread_registered(block)), HZ_THREAD_FREE);
    EXPECT_EQ(cached_in_bins(block), 0U);
    EXPECT_EQ(support::live_bytes(), before);
}

TEST(ThreadBlocks, AreUsedAgain) {
    std::set<struct hz_thread_block *> blocks;
    for (int i = 0; i < 50; i++)
        std::thread([&] {
            blocks.insert(unit::self());
            free_all(some_of_everything());
        }).join();
    EXPECT_LE(blocks.size(), 2U) << "threads that run one after the other share a block";
}

TEST(ThreadBlocks, ManyShortThreadsLoseNothing) {
    size_t before = support::live_bytes();
    std::vector<std::atomic<void *>> table(256);
    for (unsigned round = 0; round < unit::rounds(60); round++)
        unit::together(4, [&](unsigned index) {
            support::Random random(round * 4 + index);
            for (int i = 0; i < 200; i++)
                t_free(table[random.below(table.size())].exchange(t_malloc(random.between(1, 3000))));
        });
    for (auto &slot : table)
        t_free(slot.load());
    EXPECT_EQ(support::live_bytes(), before);
}

/* ---- after the exit hook: destructors of other keys ---- */

/* glibc makes four rounds of destructors. In the last one ThreadSanitizer ends its own part of the thread. */
constexpr int late_rounds = support::tsan ? 3 : 4;
pthread_key_t late_key;
std::atomic<int> late_calls{0};

/* Called in each round of destructors, also in those after the allocator's exit hook. */
void use_late(void *value) {
    auto *block = static_cast<unsigned char *>(value);
    EXPECT_TRUE(support::holds(block, 100, 5));
    t_free(block);
    void *next = t_malloc(100);
    support::fill(next, 100, 5);
    free_all(some_of_everything());
    if (++late_calls < late_rounds)
        pthread_setspecific(late_key, next);
    else
        t_free(next);
}

TEST(ThreadEnd, DestructorsCanAllocateAndFree) {
    size_t before = support::live_bytes();
    ASSERT_EQ(pthread_key_create(&late_key, use_late), 0);
    std::thread([] {
        void *block = t_malloc(100);
        support::fill(block, 100, 5);
        pthread_setspecific(late_key, block);
    }).join();
    pthread_key_delete(late_key);
    EXPECT_EQ(late_calls, late_rounds);
    EXPECT_EQ(support::live_bytes(), before);
    size_t used = 0;
    for (struct hz_registered *thread = hz_registry_first(); thread != nullptr; thread = thread->next)
        used += unit::state_of(thread) == HZ_THREAD_USED;
    EXPECT_LE(used, 1U) << "at most the main thread's block is in use";
}

} // namespace
