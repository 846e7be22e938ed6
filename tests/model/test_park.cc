/* Bins that another thread empties while their owner pops, pushes, or comes to slow paths. */
#include "model/heap.h"

namespace {

using model::Blocks;
using model::Heap;

/* Parks every other thread, and sends home what may be taken out of its bins. */
unsigned empty_others(struct hz_thread_block *self) {
    unsigned parked = 0;
    for (struct hz_registered *each = hz_registry_first(); each != nullptr; each = each->next) {
        struct hz_thread_block *thread = hz_thread_block_from(each);
        if (thread == self || hz_load_rlx(&each->state) != HZ_THREAD_USED || !hz_park(thread))
            continue;
        parked++;
        hz_park_empty(self, thread);
    }
    return parked;
}

void use(Heap *heap, size_t bytes) {
    Blocks blocks = heap->take_many(4, bytes);
    heap->give_all(blocks);
    void *block = heap->take(bytes);
    heap->give(heap->take(bytes));
    heap->give(block);
}

/* While a thread does `work`, another one parks it again and again, and empties its bins. */
template <typename Work> void expect_nothing_lost(const char *edges, unsigned schedules, Work work) {
    enum Fact { PARKED };
    model::Explored found = model::explore(edges, schedules, [&] {
        Heap heap;
        auto owner = [&] {
            hz_thread_start(); /* only such threads can be parked */
            work(&heap);
        };
        auto other = [&] {
            unit::self();
            struct hz_thread_block *self = hz_thread_enter();
            for (unsigned i = 0; i < 4; i++)
                if (empty_others(self) > 0)
                    model::reached(PARKED);
            hz_thread_leave(self);
        };
        model::together({owner, other});
        model::check_nothing_is_lost(heap);
    });
    EXPECT_GT(found.facts[PARKED], 0U);
}

TEST(Park, OneThreadEmptiesAnothersBins) {
    expect_nothing_lost("park lock", 500, [](Heap *heap) {
        use(heap, model::SHARED);
        use(heap, model::SHARED);
        use(heap, model::SMALL);
    });
}

/* Of a mid class every block may be taken, so a pop must say that it is under way. */
TEST(Park, OneThreadTakesAllMidBlocksOfAnother) {
    expect_nothing_lost("park", 1000, [](Heap *heap) {
        for (unsigned i = 0; i < 8; i++)
            heap->give(heap->take(model::PAGED));
    });
}

/* Two threads park the same one. One of the two also ends. */
TEST(Park, TwoThreadsAtATime) {
    model::explore("park lock thread-claim", 300, [] {
        Heap heap;
        auto owner = [&] {
            hz_thread_start(); /* only such threads can be parked */
            use(&heap, model::SHARED);
            use(&heap, model::SHARED);
        };
        auto other = [&] {
            hz_thread_start();
            use(&heap, model::SHARED);
            struct hz_thread_block *self = hz_thread_enter();
            empty_others(self);
            empty_others(self);
            hz_thread_leave(self);
        };
        model::together({owner, other, other});
        model::check_nothing_is_lost(heap);
    });
}

} // namespace
