/*
 * Every size from 16 bytes to 64 KiB, and some up to 1 MiB, allocated by some threads and freed by others. There are
 * more threads at a time than any lane but hz3/p32 has shards. Each thread does little work and is then replaced by
 * another, so that threads that are ending send blocks, and blocks are sent to them. The thread that receives a block
 * verifies it. At the end nothing is live, and a purge leaves no cached blocks.
 */
#include "blocks.h"
#include "threads.h"

#include <atomic>
#include <gtest/gtest.h>
#include <memory>

namespace {

using namespace support;

constexpr size_t places = 70;
constexpr size_t generations = sanitized ? 3 : 8;
constexpr size_t blocks_per_thread = sanitized ? 60 : 400;

constexpr size_t least = 16;
constexpr size_t most = 64 * KiB;
constexpr size_t sizes = most - least + 1;
constexpr size_t stride = 7919; /* a prime that does not divide `sizes`: visits every size, in mixed order */
static_assert(sizes % stride != 0, "some sizes would be skipped");
static_assert(sanitized || generations * places * blocks_per_thread / 2 >= sizes, "too few blocks for all sizes");

struct World {
    threads::Queue<16> inboxes[places];
    std::atomic<size_t> next_size{0};
    std::atomic<size_t> next_thread{0};
    std::atomic<size_t> made{0};
    std::atomic<size_t> freed{0};
    std::atomic<size_t> damaged{0};
    pthread_barrier_t all_here; /* for the first thread of each place */
};

struct Place {
    World *world;
    size_t index;
    bool is_first; /* the current thread is the first of its place */
    pthread_t thread;
};

void drop(World *world, void *block) {
    world->freed.fetch_add(1, std::memory_order_relaxed);
    if (!blocks::drop(block))
        world->damaged.fetch_add(1, std::memory_order_relaxed);
}

/* Every other block has the next size in the series; the others are mostly small, and rarely a run of pages. */
size_t pick_size(World *world, Random &random, size_t turn) {
    if (turn % 2 == 0)
        return least + world->next_size.fetch_add(1, std::memory_order_relaxed) * stride % sizes;
    if (turn % 32 == 1)
        return random.between(most + 1, MiB);
    return random.between(least, size_t{64} << random.below(11));
}

void *live(void *argument) {
    auto *place = static_cast<Place *>(argument);
    World *world = place->world;
    Random random(world->next_thread.fetch_add(1));
    if (place->is_first)
        pthread_barrier_wait(&world->all_here);
    for (size_t turn = 0; turn < blocks_per_thread; turn++) {
        void *block = blocks::make(pick_size(world, random, turn), random.next());
        if (block == nullptr)
            abort();
        world->made.fetch_add(1, std::memory_order_relaxed);
        if (!world->inboxes[random.below(places)].try_push(block))
            drop(world, block);
        for (size_t taken = 0; taken < 2; taken++)
            if (void *received = world->inboxes[place->index].try_pop())
                drop(world, received);
    }
    return nullptr; /* the next thread of this place takes the blocks that are left for the place */
}

TEST(Mixed, AllSizesThroughManyThreadsThatComeAndGo) {
    size_t live_before = live_bytes();
    auto world = std::make_unique<World>();
    pthread_barrier_init(&world->all_here, nullptr, places);
    std::vector<Place> all(places);
    for (size_t i = 0; i < places; i++) {
        all[i] = {world.get(), i, true, {}};
        ASSERT_EQ(threads::start(&all[i].thread, live, &all[i]), 0);
    }
    for (size_t generation = 1; generation < generations; generation++)
        for (Place &place : all) { /* the threads of the other places keep working */
            pthread_join(place.thread, nullptr);
            place.is_first = false;
            ASSERT_EQ(threads::start(&place.thread, live, &place), 0);
        }
    for (Place &place : all)
        pthread_join(place.thread, nullptr);
    pthread_barrier_destroy(&world->all_here);
    for (auto &inbox : world->inboxes)
        while (void *block = inbox.try_pop())
            drop(world.get(), block);
    EXPECT_EQ(world->made.load(), places * generations * blocks_per_thread);
    EXPECT_EQ(world->freed.load(), world->made.load());
    EXPECT_EQ(world->damaged.load(), 0U);
    if (!t_system) {
        t_give_back();
        struct hz_stats stats = {};
        ASSERT_EQ(t_stats_get(&stats), 0);
        EXPECT_EQ(stats.live_bytes, live_before);
        EXPECT_EQ(stats.cached_bytes, 0U) << "the purge left cached blocks";
    }
}

} // namespace
