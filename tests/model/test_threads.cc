/* Threads and the arena: the very first calls at the same time, threads that end and start, runs of pages and mappings
 * that go from one thread to another. */
#include "model/heap.h"

namespace {

using model::Blocks;
using model::Channel;
using model::Heap;

/* Nothing exists yet. The first thread that needs tables, hooks, shards, segments or live maps makes them. */
void first_calls() {
    Heap heap(nullptr);
    auto work = [&] {
        heap.give(heap.take(model::SMALL));
        heap.give(heap.take(model::PAGED));
    };
    auto look = [&] {
        struct hz_stats stats;
        MODEL_CHECK(hz_stats_get(&stats, sizeof(stats)) == 0);
        MODEL_CHECK(hz_segment_find(&stats) == nullptr);
    };
    model::together({work, look, work});
    model::check_nothing_is_lost(heap);
}

constexpr const char *edges = "init arena-init hooks thread-publish shard-publish segment-publish livemap-publish "
                              "page-publish tag-publish lock";

TEST(Threads, TheFirstCalls) {
    model::explore(edges, 500, first_calls);
}

/* A thread that starts recycles the thread block of one that ended. */
TEST(Threads, EndAndStart) {
    enum Fact { RECYCLED };
    model::Explored found = model::explore("thread-claim thread-publish shard-claim hooks", 300, [] {
        Heap heap;
        std::map<struct hz_thread_block *, unsigned> users;
        auto work = [&] {
            void *block = heap.take(model::SMALL);
            if (users[unit::self()]++ > 0)
                model::reached(RECYCLED);
            heap.give(block);
        };
        model::together({work, work, work, work});
        model::check_nothing_is_lost(heap);
    });
    EXPECT_GT(found.facts[RECYCLED], 0U);
}

/* Threads free blocks of several classes that other threads allocated. */
TEST(Threads, HandOn) {
    model::explore(
        "depot-publish tag-publish lock livemap-publish stash-publish inbox-publish page-remote pageq-publish", 300,
        [] {
            Heap heap;
            Channel<void *> channel;
            auto make = [&] {
                for (size_t bytes : {model::SMALL, model::SHARED, model::SHARED, model::SHARED, model::PAGED})
                    channel.put(heap.take(bytes));
            };
            auto use = [&] {
                for (unsigned i = 0; i < 5; i++)
                    heap.give(channel.get());
                heap.give_all(heap.take_many(3, model::SHARED));
            };
            model::together({make, use, make, use});
            model::check_nothing_is_lost(heap);
        });
}

/* Runs of pages and mappings that one thread frees and another one gets, with a purge in between. */
TEST(Arena, RunsAndMappings) {
    enum Fact { CACHED };
    model::Explored found = model::explore(
        "run-release longest-publish summary-set region-vacant direct-cache segment-publish lock", 200, [] {
            Heap heap;
            std::map<void *, unsigned> users;
            auto work = [&](std::initializer_list<size_t> sizes) {
                for (size_t bytes : sizes) {
                    void *block = heap.take(bytes);
                    if (bytes == model::MAPPED && users[block]++ > 0)
                        model::reached(CACHED);
                    heap.give(block);
                }
            };
            model::together({[&] {
                                 work({model::MAPPED, model::RUN, model::MAPPED});
                             },
                             [&] {
                                 work({model::RUN, model::MAPPED});
                                 auto *zeroed = static_cast<uint64_t *>(hz_calloc(1, model::MAPPED));
                                 for (size_t i = 0; i < 16; i++)
                                     MODEL_CHECK(zeroed[i] == 0);
                                 hz_free(zeroed);
                             },
                             [&] {
                                 void *block = hz_malloc(model::RUN);
                                 block = hz_realloc(block, 2 * model::RUN);
                                 MODEL_CHECK(block != nullptr);
                                 hz_free(block);
                                 hz_purge();
                             }});
            model::check_nothing_is_lost(heap);
        });
    EXPECT_GT(found.facts[CACHED], 0U) << "no mapping was used again";
}

} // namespace
