/* The depot: stacks of batches, which any thread pushes and pops, and the chunks that batches come from. */
#include "model/heap.h"

namespace {

using model::Pieces;

enum Fact { POPPED };
constexpr unsigned batch = 2; /* blocks in a batch of class SHARED */

/* Threads push, pop and release their spare batches, in an order that the seed decides. */
struct Depot {
    explicit Depot(size_t batches, size_t bytes = model::SHARED)
        : pieces(batches * batch), size_class(hz_class_of(bytes)) {
        for (size_t i = 0; i < pieces.size(); i++)
            ledger.taken(pieces[i], Pieces::BYTES);
    }
    void push(size_t number) {
        void *blocks[batch] = {pieces[number * batch], pieces[number * batch + 1]};
        push(blocks);
    }
    void push(void **blocks) {
        for (unsigned i = 0; i < batch; i++)
            ledger.given(blocks[i]);
        MODEL_CHECK(hz_depot_push(unit::self(), size_class, blocks, batch));
        resting++;
    }
    void send(struct hz_shard *shard, size_t number) {
        void *blocks[batch] = {pieces[number * batch], pieces[number * batch + 1]};
        for (unsigned i = 0; i < batch; i++)
            ledger.given(blocks[i]);
        MODEL_CHECK(hz_depot_send(unit::self(), shard, size_class, blocks, batch));
        resting++;
    }
    bool pop(void **blocks) {
        return taken(hz_depot_pop(unit::self(), size_class, blocks), blocks);
    }
    bool pop_home(void **blocks) {
        return taken(hz_depot_pop_home(unit::self(), size_class, blocks), blocks);
    }
    bool taken(uint32_t count, void **blocks) {
        if (count == 0)
            return false;
        MODEL_CHECK(count == batch);
        for (unsigned i = 0; i < batch; i++)
            ledger.taken(blocks[i], Pieces::BYTES, true);
        resting--;
        return true;
    }
    void pop_all() {
        void *blocks[batch];
        while (pop_home(blocks)) {
        }
        MODEL_CHECK(resting == 0);
        MODEL_CHECK(ledger.held() == pieces.size());
        MODEL_CHECK(hz_depot_blocks(size_class) == 0);
    }
    Pieces pieces;
    unsigned size_class;
    model::Ledger ledger;
    int resting = 0;
};

void work(Depot *depot, model::Start *start, size_t own, unsigned steps) {
    std::vector<std::array<void *, batch>> mine;
    unit::self();
    start->wait();
    depot->push(own);
    for (unsigned step = 0; step < steps; step++) {
        std::array<void *, batch> blocks{};
        unsigned choice = model::pick(5);
        if (choice < 2 && !mine.empty()) {
            depot->push(mine.back().data());
            mine.pop_back();
        } else if (choice < 4 && depot->pop(blocks.data())) {
            mine.push_back(blocks);
            model::reached(POPPED);
        } else {
            hz_spares_return(unit::self());
        }
    }
}

/* In lane home every class is a home class, and AHomeClass has its stacks. */
bool every_class_is_home() {
    return hz_class_is_home(hz_class_of(model::SHARED));
}

TEST(Depot, PushAndPop) {
    if (every_class_is_home())
        GTEST_SKIP() << "this lane has only home classes";
    model::Explored found = model::explore("depot-publish chunk-publish", 600, [] {
        Depot depot(6);
        model::Start start(3);
        for (size_t i = 3; i < 6; i++)
            depot.push(i);
        model::together({[&] { work(&depot, &start, 0, 6); }, [&] { work(&depot, &start, 1, 6); },
                         [&] { work(&depot, &start, 2, 6); }});
        depot.pop_all();
    });
    EXPECT_GT(found.facts[POPPED], 0U);
}

/* Three batches rest. While one thread pops the first, another pops the first two and pushes them back in that order,
   and a third pushes a new batch. Then the head can be the same first batch again, with another one below it. */
TEST(Depot, ABatchComesBack) {
    if (every_class_is_home())
        GTEST_SKIP() << "this lane has only home classes";
    model::explore("depot-publish", 600, [] {
        Depot depot(4);
        model::Start start(3);
        for (size_t i = 0; i < 3; i++)
            depot.push(i);
        auto with = [&](auto body) {
            return [&, body] {
                unit::self();
                start.wait();
                body();
            };
        };
        model::together({with([&] {
                             void *blocks[batch];
                             depot.pop(blocks);
                         }),
                         with([&] {
                             void *first[batch];
                             void *second[batch];
                             bool have = depot.pop(first);
                             bool have_more = depot.pop(second);
                             hz_spares_return(unit::self());
                             if (have)
                                 depot.push(first);
                             if (have_more)
                                 depot.push(second);
                         }),
                         with([&] { depot.push(3); })});
        depot.pop_all();
    });
}

/* A home class has a stack in each shard. Each thread pushes and pops its own shard's stack, and two threads share one.
   One thread also pops the stacks of other shards, as ageing does. */
TEST(Depot, AHomeClass) {
    if (!HZ_HAS_HOME)
        GTEST_SKIP() << "this lane has no home class";
    model::Explored found = model::explore("depot-publish chunk-publish", 600, [] {
        Depot depot(4, model::SMALL);
        model::Start start(3);
        unit::self();
        /* The last thread of a shard would send the blocks home, but they have no home. So each shard keeps a claim. */
        (void)hz_shard_claim();
        (void)hz_shard_claim();
        depot.push(3);
        model::together({[&] { work(&depot, &start, 0, 6); }, [&] { work(&depot, &start, 1, 6); },
                         [&] {
                             void *blocks[batch];
                             unit::self();
                             start.wait();
                             depot.push(2);
                             while (depot.pop_home(blocks)) {
                                 model::reached(POPPED);
                                 depot.push(blocks);
                                 if (model::pick(2) == 0)
                                     break;
                             }
                         }});
        depot.pop_all();
    });
    EXPECT_GT(found.facts[POPPED], 0U);
}

/* Threads of other shards send batches to the stack of a shard, whose thread pops them. */
TEST(Depot, SendersOfOtherShards) {
    if (!HZ_HAS_HOME)
        GTEST_SKIP() << "this lane has no home class";
    model::Explored found = model::explore("depot-publish chunk-publish", 600, [] {
        Depot depot(5, model::SMALL);
        model::Start start(3);
        struct hz_shard *shard = unit::self()->shard;
        auto send_two = [&](size_t first) {
            return [&, first] {
                unit::self();
                start.wait();
                depot.send(shard, first);
                depot.send(shard, first + 1);
            };
        };
        depot.push(4);
        model::together({send_two(0), send_two(2), [&] {
                             void *blocks[batch];
                             unit::ThreadOf there(unit::self(), shard);
                             start.wait();
                             for (int i = 0; i < 4; i++)
                                 if (depot.pop(blocks))
                                     model::reached(POPPED);
                         }});
        depot.pop_all();
    });
    EXPECT_GT(found.facts[POPPED], 0U);
}

/* The very first batches: threads make the first chunk at the same time. */
TEST(Depot, TheFirstBatches) {
    if (every_class_is_home())
        GTEST_SKIP() << "this lane has only home classes";
    model::explore("chunk-publish depot-publish", 300, [] {
        Depot depot(3);
        model::Start start(3);
        model::together({[&] { work(&depot, &start, 0, 2); }, [&] { work(&depot, &start, 1, 2); },
                         [&] { work(&depot, &start, 2, 2); }});
        depot.pop_all();
    });
}

} // namespace
