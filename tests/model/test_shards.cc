/* Shards: threads that share one, threads that come and go, pages that change hands. The heap has two shards here,
 * four in the variant `alone`. */
#include "model/heap.h"

namespace {

using model::Blocks;
using model::Channel;
using model::Heap;

enum Fact { SHARED_A_SHARD, ADOPTED, TOOK_LEFTOVERS, PUT_DIRECTLY };

void note_counters() {
    struct hz_counters counters = unit::self()->counters;
    if (counters.page_adopt > 0)
        model::reached(ADOPTED);
    if (counters.refill_carry > 0)
        model::reached(TOOK_LEFTOVERS);
    if (counters.direct_home > 0)
        model::reached(PUT_DIRECTLY);
}

/* Three threads on two shards: one joins a shard while its only thread allocates and frees. */
TEST(Shards, AThreadJoinsWhileTheOwnerRefills) {
    model::Explored found = model::explore("lock shard-claim shard-publish", 300, [] {
        Heap heap;
        unsigned shards[2] = {};
        auto work = [&] {
            shards[unit::self()->shard->index]++;
            Blocks blocks = heap.take_many(3, model::PAGED);
            heap.give(blocks[0]);
            blocks[0] = heap.take(model::PAGED);
            heap.give_all(blocks);
            if (shards[0] > 1)
                model::reached(SHARED_A_SHARD);
        };
        model::together({work, work, work});
        model::check_nothing_is_lost(heap);
    });
    EXPECT_GT(found.facts[SHARED_A_SHARD], 0U);
}

/* Two threads share a shard, to which a third sends blocks. */
TEST(Shards, TwoTakersAndASender) {
    model::explore("lock stash-publish inbox-publish page-remote pageq-publish tag-publish", 350, [] {
        Heap heap;
        Channel<Blocks> full;
        auto owner = [&] {
            full.put(heap.take_many(9, model::SMALL));
            Blocks blocks = heap.take_many(6, model::SMALL);
            heap.give_all(blocks);
        };
        model::together({owner, owner, [&] {
                             for (unsigned i = 0; i < 2; i++)
                                 heap.give_all(full.get());
                         }});
        model::check_nothing_is_lost(heap);
    });
}

/* The owner of blocks ends while another thread frees them. A third thread can get the owner's shard. */
TEST(Shards, TheOwnerEndsWhileOthersSend) {
    model::Explored found =
        model::explore("shard-claim stash-publish inbox-publish page-remote pageq-publish lock hooks", 400, [] {
            Heap heap;
            Channel<Blocks> full;
            auto owner = [&] { full.put(heap.take_many(10, model::SMALL)); };
            auto sender = [&] {
                unit::self(); /* gets a shard before the owner's is free */
                heap.give_all(full.get());
                hz_thread_flush(unit::self());
                note_counters();
            };
            auto next = [&] { heap.give_all(heap.take_many(2, model::SMALL)); };
            model::together({owner, sender, next});
            model::check_nothing_is_lost(heap);
        });
    EXPECT_GT(found.facts[PUT_DIRECTLY], 0U) << "no list went to a shard without threads";
}

/* A shard adopts pages of a shard whose thread has ended, while blocks of these pages come home. */
TEST(Shards, PagesChangeHands) {
    model::Explored found = model::explore("page-move tag-publish lock run-release", 600, [] {
        Heap heap;
        Channel<Blocks> for_sender;
        Channel<int> go;
        auto owner = [&] {
            Blocks blocks = heap.take_many(8, model::PAGED);
            for (size_t i = 0; i < blocks.size(); i += 4)
                heap.give(blocks[i]);
            model::detach();
            go.put(0);
            for_sender.put({blocks[1], blocks[2], blocks[3], blocks[5], blocks[6], blocks[7]});
        };
        auto adopter = [&] {
            unit::self();
            go.get();
            heap.give_all(heap.take_many(4, model::PAGED));
            note_counters();
        };
        auto sender = [&] { heap.give_all(for_sender.get()); }; /* is not attached, so its blocks go home one by one */
        model::together({owner, adopter, sender});
        model::check_nothing_is_lost(heap);
    });
    EXPECT_GT(found.facts[ADOPTED], 0U);
}

/* While other threads work, a thread purges, and so reaches all blocks that rest between threads. */
TEST(Shards, PurgeWhileOthersWork) {
    model::explore("lock run-release page-publish page-move", 200, [] {
        Heap heap;
        Channel<Blocks> full;
        model::together({[&] {
                             full.put(heap.take_many(5, model::PAGED));
                             heap.give_all(heap.take_many(3, model::PAGED));
                         },
                         [&] { heap.give_all(full.get()); }, [&] { hz_purge(); }});
        model::check_nothing_is_lost(heap);
    });
}

/* A shard is drained while its thread takes sent blocks and leftovers. */
TEST(Shards, ADrainWhileTheOwnerRefills) {
    model::Explored found =
        model::explore("carry-publish stash-publish inbox-publish page-remote pageq-publish lock", 500, [] {
            Heap heap;
            Channel<Blocks> first;
            Channel<Blocks> second;
            Channel<struct hz_shard *> sent;
            Channel<int> go;
            Channel<int> refilled;
            unsigned size_class = hz_class_of(model::SMALL);
            auto owner = [&] {
                first.put(heap.take_many(12, model::SMALL));
                second.put(heap.take_many(4, model::SMALL));
                sent.put(unit::self()->shard);
                go.get();
                heap.give_all(heap.take_many(1, model::SMALL));
                refilled.put(0); /* now most of the first list is leftovers */
                Blocks blocks = heap.take_many(12, model::SMALL);
                note_counters();
                heap.give_all(blocks);
            };
            auto other = [&] {
                unit::self();
                heap.give_all(first.get());
                hz_thread_flush(unit::self());
                struct hz_shard *shard = sent.get();
                go.put(0);
                heap.give_all(second.get());
                refilled.get();
                hz_thread_flush(unit::self());
                for (unsigned i = 0; i < 3; i++)
                    unit::drain(shard, size_class);
            };
            model::together({owner, other});
            model::check_nothing_is_lost(heap);
        });
    EXPECT_EQ(found.facts[TOOK_LEFTOVERS] > 0, unit::mail() != unit::Mail::none);
}

/* Remote lists of pages are gathered while more blocks are sent to them, and taken. */
TEST(Shards, GatheringWhileBlocksAreSent) {
    model::explore("page-remote pageq-publish page-publish lock", 500, [] {
        Heap heap;
        Channel<Blocks> full;
        Channel<struct hz_shard *> home;
        Channel<int> go;
        auto owner = [&] {
            full.put(heap.take_many(8, model::SMALL));
            home.put(unit::self()->shard);
            Blocks blocks = heap.take_many(8, model::SMALL);
            heap.give_all(blocks);
        };
        auto sender = [&] {
            unit::self();
            struct hz_shard *shard = home.get();
            go.put(0);
            for (void *block : full.get()) {
                heap.ledger.given(block);
                unit::send(shard, {block});
            }
        };
        auto gatherer = [&] {
            unit::self();
            go.get();
            for (unsigned i = 0; i < 3; i++)
                hz_sent_age(unit::self());
        };
        model::together({owner, sender, gatherer});
        model::check_nothing_is_lost(heap);
    });
}

} // namespace
