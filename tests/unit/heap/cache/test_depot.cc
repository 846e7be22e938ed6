/* The depot: its size is bounded, and each batch comes out once, on any CPU and while many threads pass batches. */
#include "unit/heap/fixture.h"

#include <algorithm>
#include <array>
#include <memory>

extern "C" {
#include "base/map/budget.h"
}

namespace {

using unit::Blocks;
using unit::OnCpu;

/* The depot never touches a block, so a number can stand for one. */
void *block_number(size_t number) {
    return reinterpret_cast<void *>((number + 1) * 16);
}

size_t number_of(void *block) {
    return reinterpret_cast<uintptr_t>(block) / 16 - 1;
}

Blocks batch_of(size_t first, uint32_t count) {
    Blocks blocks;
    for (uint32_t i = 0; i < count; i++)
        blocks.push_back(block_number(first + i));
    return blocks;
}

/* Class `number` of those whose batches any thread pops: the classes above the home classes. */
unsigned shared_class(unsigned number) {
    return hz_home_classes() + number;
}

/* Each test uses its own classes and leaves them empty. */
class Depot : public testing::Test {
  protected:
    void SetUp() override {
        if (HZ_DEPOT_BYTES == 0)
            GTEST_SKIP() << "this lane has no depot";
        self_ = unit::self();
        hz_cpus_look_at("", "", "");
        for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
            for (int round = 0; round < HZ_STACK_COUNT_BITS; round++)
                hz_depot_halve_swing(size_class);
    }
    bool push(unsigned size_class, const Blocks &blocks) {
        return hz_depot_push(self_, size_class, blocks.data(), static_cast<uint32_t>(blocks.size()));
    }
    Blocks pop(unsigned size_class) {
        Blocks blocks(HZ_BATCH_COUNT);
        blocks.resize(hz_depot_pop(self_, size_class, blocks.data()));
        return blocks;
    }
    struct hz_thread_block *self_ = nullptr;
};

TEST_F(Depot, EmptyGivesNothing) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        EXPECT_TRUE(pop(size_class).empty());
        EXPECT_EQ(hz_depot_blocks(size_class), 0U);
    }
}

TEST_F(Depot, NewestBatchFirstWholeAndUnchanged) {
    OnCpu here; /* batches keep their order within a CPU's part */
    unsigned size_class = 1;
    uint32_t full = hz_batch_count(size_class);
    std::vector<Blocks> batches = {batch_of(0, full), batch_of(1000, 1), batch_of(2000, full - 1)};
    for (const Blocks &batch : batches)
        EXPECT_TRUE(push(size_class, batch));
    EXPECT_EQ(hz_depot_blocks(size_class), 2 * full);
    EXPECT_TRUE(pop(size_class + 1).empty()) << "classes are separate";
    for (size_t i = batches.size(); i-- > 0;)
        EXPECT_EQ(pop(size_class), batches[i]);
    EXPECT_TRUE(pop(size_class).empty());
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
}

TEST_F(Depot, EveryClassHasACap) {
    OnCpu here; /* a thread that moves between CPUs can fill up to twice the cap */
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        uint32_t full = hz_batch_count(size_class);
        size_t batch_bytes = full * hz_class_bytes(size_class);
        size_t pushed = 0;
        while (push(size_class, batch_of(pushed * full, full))) {
            pushed++;
            ASSERT_LE(pushed * batch_bytes, std::max(static_cast<size_t>(HZ_DEPOT_BYTES), batch_bytes))
                << "class " << size_class;
        }
        EXPECT_GT((pushed + 1) * batch_bytes, static_cast<size_t>(HZ_DEPOT_BYTES)) << "class " << size_class;
        EXPECT_EQ(hz_depot_blocks(size_class), pushed * full) << "a refused batch is not in the depot";
        for (size_t i = pushed; i-- > 0;)
            ASSERT_EQ(pop(size_class), batch_of(i * full, full));
        EXPECT_TRUE(pop(size_class).empty());
    }
}

/* A pop takes from the part of its own CPU, and looks into other parts only when that part is empty. It is so from the
   first thread on: nothing but the library's start has divided the depot. */
TEST_F(Depot, EveryCpuHasAPart) {
    const std::vector<int> all = unit::cpus();
    if (HZ_DEPOT_PARTS == 1 || all.size() < 2)
        GTEST_SKIP() << "the depot has only one part";
    const unsigned size_class = shared_class(5);
    const int one = all.front();
    const int other = all.back();
    auto push_on = [&](int cpu, size_t first) {
        OnCpu there(cpu);
        ASSERT_TRUE(push(size_class, batch_of(first, 1)));
    };
    auto pop_on = [&](int cpu) {
        OnCpu there(cpu);
        return pop(size_class);
    };
    for (int turn = 0; turn < 2; turn++) { /* in both orders */
        push_on(turn == 0 ? one : other, turn == 0 ? 100 : 200);
        push_on(turn == 0 ? other : one, turn == 0 ? 200 : 100);
        EXPECT_EQ(hz_depot_blocks(size_class), 2U);
        EXPECT_EQ(pop_on(one), batch_of(100, 1));
        EXPECT_EQ(pop_on(other), batch_of(200, 1));
        EXPECT_EQ(hz_depot_blocks(size_class), 0U);
    }
    push_on(one, 300);
    EXPECT_EQ(pop_on(other), batch_of(300, 1)) << "a pop finds what other CPUs pushed";
    EXPECT_TRUE(pop_on(one).empty());
}

TEST_F(Depot, ManyCpusHaveMoreParts) {
    struct Case {
        uint32_t cpus;
        uint32_t parts;
    };
    const uint32_t most = HZ_DEPOT_PARTS;
    for (const Case &each : {Case{1, 8}, {8, 8}, {32, 8}, {35, 8}, {36, 9}, {48, 12}, {64, 16}, {128, 32}, {1024, 256}})
        EXPECT_EQ(hz_parts_for(each.cpus), std::min(each.parts, most)) << each.cpus << " CPUs";
}

/* Even when pushes on one CPU have filled the depot, pushes on another CPU can add one part's share, and no more. */
TEST_F(Depot, EveryPartKeepsItsShare) {
    const std::vector<int> all = unit::cpus();
    if (HZ_DEPOT_PARTS == 1 || all.size() < 2)
        GTEST_SKIP() << "the depot has only one part";
    const size_t parts = std::min<size_t>(all.size(), hz_parts_for(static_cast<uint32_t>(all.size())));
    const unsigned size_class = shared_class(7);
    const uint32_t full = hz_batch_count(size_class);
    auto fill_on = [&](int cpu) {
        OnCpu there(cpu);
        size_t pushed = 0;
        while (push(size_class, batch_of(0, full)))
            pushed++;
        return pushed;
    };
    const size_t cap = fill_on(all.front());
    EXPECT_EQ(cap, std::max<size_t>(HZ_DEPOT_BYTES / (full * hz_class_bytes(size_class)), 1))
        << "one CPU alone can fill the depot";
    EXPECT_EQ(fill_on(all.back()), cap / parts);
    EXPECT_EQ(fill_on(all.front()), 0U);
    for (size_t i = 0; i < cap / parts + cap / 2; i++)
        ASSERT_FALSE(pop(size_class).empty());
    fill_on(all.back());
    EXPECT_EQ(hz_depot_blocks(size_class), cap * full) << "pushes on the other CPU can replace what was popped";
    while (!pop(size_class).empty()) {
    }
}

/* One CPU only pushes, the other only pops. The number of empty batches must not keep growing. */
TEST_F(Depot, EmptyBatchesComeBackToWhereTheyAreNeeded) {
    const std::vector<int> all = unit::cpus();
    if (all.size() < 2)
        GTEST_SKIP() << "there is only one CPU";
    const unsigned size_class = 6;
    const std::array<uint32_t, 2> counts = {1, hz_batch_count(size_class)}; /* a short batch and a long one */
    size_t meta = 0;
    for (int turn = 0; turn < 40; turn++) {
        for (int cpu : {all.front(), all.back()}) {
            OnCpu there(cpu);
            for (uint32_t i = 0; i < 80; i++) { /* fewer blocks than may rest in any lane */
                const Blocks batch = batch_of(i * HZ_BATCH_COUNT, counts[i % counts.size()]);
                if (cpu == all.front())
                    ASSERT_TRUE(push(size_class, batch)) << i;
                else
                    ASSERT_FALSE(pop(size_class).empty());
            }
            hz_spares_return(self_);
        }
        if (turn == 0)
            meta = hz_meta_bytes();
    }
    EXPECT_EQ(hz_meta_bytes(), meta);
}

/* Short and long batches come out as they went in. */
TEST_F(Depot, EveryLength) {
    const unsigned size_class = 1;
    for (uint32_t count = 1; count <= hz_batch_count(size_class); count++) {
        OnCpu here;
        ASSERT_TRUE(push(size_class, batch_of(count, count)));
        ASSERT_TRUE(push(size_class, batch_of(5000, 1)));
        ASSERT_TRUE(push(size_class, batch_of(7000, hz_batch_count(size_class))));
        EXPECT_EQ(pop(size_class), batch_of(7000, hz_batch_count(size_class)));
        EXPECT_EQ(pop(size_class), batch_of(5000, 1));
        EXPECT_EQ(pop(size_class), batch_of(count, count));
    }
}

/* A share of all blocks of a class may rest, but only while threads pop what others pushed, and for two ageing rounds
   after that. */
TEST_F(Depot, AShareRestsWhileBlocksPass) {
    if (HZ_DEPOT_PERCENT == 0)
        GTEST_SKIP() << "in this lane no share may rest";
    OnCpu here; /* the threads that this one starts stay here too */
    const unsigned size_class = HZ_LINEAR_CLASSES;
    const uint32_t full = hz_batch_count(size_class);
    struct hz_shard *shard = self_->shard;
    const size_t bytes = size_t{HZ_DEPOT_BYTES} * 200 / HZ_DEPOT_PERCENT; /* so the share is twice HZ_DEPOT_BYTES */
    const Blocks blocks = unit::take(shard, size_class, static_cast<uint32_t>(bytes / hz_class_bytes(size_class)));
    size_t resting = 0;
    /* pushes until the depot refuses; returns the number of resting batches */
    auto fill = [&] {
        while (push(size_class, batch_of(0, full)))
            resting++;
        return resting;
    };
    auto others = [&](auto &&work) { std::thread([&] { work(unit::self()); }).join(); };
    auto buffer = Blocks(HZ_BATCH_COUNT);

    const size_t fixed = fill();
    ASSERT_EQ(pop(size_class).size(), full);
    resting--;
    EXPECT_EQ(fill(), fixed) << "popping its own batch is not passing";
    others(
        [&](struct hz_thread_block *other) { ASSERT_EQ(hz_depot_pop_home(other, size_class, buffer.data()), full); });
    resting--;
    EXPECT_EQ(fill(), fixed) << "ageing is not passing";

    others([&](struct hz_thread_block *other) { ASSERT_EQ(hz_depot_pop(other, size_class, buffer.data()), full); });
    resting--;
    const size_t share = fill();
    EXPECT_GE(share, 2 * fixed - 1);
    EXPECT_LE(share, 3 * fixed);

    auto room = [&] {
        ASSERT_EQ(pop(size_class).size(), full);
        resting--;
    };
    hz_depot_forget_passing(size_class);
    room();
    EXPECT_EQ(fill(), share) << "one round does not end the passing";
    hz_depot_forget_passing(size_class);
    room();
    EXPECT_EQ(fill(), share - 1) << "two rounds without passing end it";
    hz_depot_forget_passing(size_class);
    hz_depot_halve_swing(size_class);
    while (!pop(size_class).empty())
        resting--;
    EXPECT_EQ(resting, 0U);
    EXPECT_EQ(fill(), fixed) << "the same as at first";
    while (!pop(size_class).empty()) {
    }
    unit::put(shard, blocks);
}

/* What the depot refused in this round, and what was then asked for in vain, may rest as well from now on: up to
   twice HZ_DEPOT_BYTES. */
TEST_F(Depot, TheLimitFollowsASwing) {
    OnCpu here;
    const unsigned size_class = shared_class(3);
    const uint32_t full = hz_batch_count(size_class);
    size_t resting = 0;
    auto fill = [&] {
        while (push(size_class, batch_of(0, full)))
            resting++;
        return resting;
    };
    /* empties the depot, and asks for `more` batches in vain */
    auto ask = [&](size_t more) {
        for (; resting > 0; resting--)
            ASSERT_EQ(pop(size_class).size(), full);
        for (; more > 0; more--)
            ASSERT_TRUE(pop(size_class).empty());
    };
    const size_t fixed = fill();
    for (int i = 1; i < 9; i++)
        ASSERT_FALSE(push(size_class, batch_of(0, full)));
    ask(5);
    EXPECT_EQ(fill(), fixed + 5) << "nine were refused, and one more now";
    ask(6);
    EXPECT_EQ(fill(), fixed + 5 + 5) << "five were left of them";

    hz_budget_limits_set(1, 0, false);
    ask(0);
    EXPECT_EQ(fill(), fixed) << "above half of a soft limit nothing more may rest";
    hz_budget_limits_set(0, 0, false);
    EXPECT_EQ(fill(), fixed + 5 + 5);

    hz_depot_forget_swing(size_class); /* as a purge does */
    ask(3);
    EXPECT_EQ(fill(), fixed) << "all is forgotten, and what was refused before does not count";
    for (int i = 0; i < 10; i++)
        ASSERT_FALSE(push(size_class, batch_of(0, full)));
    ask(10);
    EXPECT_EQ(fill(), fixed + 10);

    hz_depot_halve_swing(size_class);
    ask(3);
    EXPECT_EQ(fill(), fixed + 5) << "half is forgotten, and what was refused in an earlier round does not count";
    ask(0);
    for (size_t i = 0; i < 2 * fixed; i++)
        (void)push(size_class, batch_of(0, full));
    for (size_t i = 0; i < 2 * fixed; i++)
        ASSERT_EQ(push(size_class, batch_of(0, full)), false);
    resting = hz_depot_blocks(size_class) / full;
    ask(3 * fixed);
    EXPECT_NEAR(static_cast<double>(fill()), static_cast<double>(2 * fixed), 1.0);
    ask(0);
}

/* Blocks that were freed in no order come back in that of memory from their pages. */
TEST_F(Depot, TheLimitStaysIfBlocksAreInNoOrder) {
    OnCpu here;
    const unsigned size_class = shared_class(4);
    const uint32_t full = hz_batch_count(size_class);
    Blocks mixed;
    for (uint32_t i = 0; i < full; i++)
        mixed.push_back(block_number(size_t{i} * 7919 % full * 1000));
    auto fill = [&] {
        size_t count = 0;
        while (push(size_class, mixed))
            count++;
        return count;
    };
    const size_t fixed = fill();
    for (int i = 0; i < 8; i++)
        ASSERT_FALSE(push(size_class, mixed));
    for (size_t i = 0; i < fixed; i++)
        ASSERT_EQ(pop(size_class).size(), full);
    ASSERT_TRUE(pop(size_class).empty());
    EXPECT_EQ(fill(), fixed);
    for (size_t i = 0; i < fixed; i++)
        ASSERT_EQ(pop(size_class).size(), full);
}

TEST_F(Depot, SpareBatchesCanBeReleased) {
    for (int turn = 0; turn < 20; turn++) {
        for (size_t i = 0; i < 8; i++)
            ASSERT_TRUE(push(3, batch_of(i, 1)));
        for (size_t i = 8; i-- > 0;)
            ASSERT_EQ(pop(3), batch_of(i, 1));
        size_t meta = hz_meta_bytes();
        hz_spares_return(self_);
        ASSERT_TRUE(push(3, batch_of(0, 1))) << "a released batch serves";
        ASSERT_EQ(pop(3), batch_of(0, 1));
        EXPECT_EQ(hz_meta_bytes(), meta) << "batches are used again";
    }
}

/* Records which blocks are held: a thread that pops a block must be its only holder. */
struct Held {
    explicit Held(size_t count) : flags(std::make_unique<std::atomic<uint32_t>[]>(count)) {
    }
    std::unique_ptr<std::atomic<uint32_t>[]> flags;
    bool claim(const Blocks &blocks) {
        bool alone = true;
        for (void *block : blocks)
            alone = flags[number_of(block)].fetch_add(1, std::memory_order_relaxed) == 0 && alone;
        return alone;
    }
    void release(const Blocks &blocks) {
        for (void *block : blocks)
            flags[number_of(block)].fetch_sub(1, std::memory_order_relaxed);
    }
};

/* `batches` batches circulate among threads: each pops one or two, and pushes them back in either order. */
void circulate(unsigned size_class, size_t batches, unsigned turns) {
    constexpr unsigned threads = 4;
    uint32_t full = hz_batch_count(size_class);
    Held held(batches * full);
    Blocks buffer(HZ_BATCH_COUNT);
    for (size_t i = 0; i < batches; i++)
        ASSERT_TRUE(hz_depot_push(unit::self(), size_class, batch_of(i * full, full).data(), full));
    std::atomic<bool> good{true};
    std::atomic<size_t> popped{0};
    unit::together(threads, [&](unsigned index) {
        struct hz_thread_block *self = unit::self();
        support::Random random(index);
        for (unsigned turn = 0; turn < turns; turn++) {
            Blocks mine[2];
            for (Blocks &batch : mine) {
                batch.resize(HZ_BATCH_COUNT);
                batch.resize(hz_depot_pop(self, size_class, batch.data()));
                popped += !batch.empty();
                good = good && (batch.empty() || batch.size() == full) && held.claim(batch);
            }
            size_t first = random.below(2);
            for (size_t i : {first, 1 - first})
                if (!mine[i].empty()) {
                    held.release(mine[i]);
                    good = good && hz_depot_push(self, size_class, mine[i].data(), full);
                }
        }
    });
    EXPECT_TRUE(good) << "a batch had two holders, lost blocks, or was refused though there was room";
    EXPECT_GT(popped, batches);
    EXPECT_EQ(hz_depot_blocks(size_class), batches * full);
    Blocks all;
    for (size_t i = 0; i < batches; i++) {
        uint32_t count = hz_depot_pop(unit::self(), size_class, buffer.data());
        all.insert(all.end(), buffer.begin(), buffer.begin() + count);
    }
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, batch_of(0, static_cast<uint32_t>(batches * full))) << "every block comes out once";
}

TEST_F(Depot, FewBatchesCirculateFast) {
    circulate(shared_class(2), 2, unit::rounds(40000)); /* the same batch keeps coming back to the head */
    circulate(shared_class(2), 3, unit::rounds(40000));
}

TEST_F(Depot, ManyBatchesCirculate) {
    circulate(shared_class(4), 12, unit::rounds(20000));
}

TEST_F(Depot, ThreadsOfAShardCirculateAHomeClass) {
    if (!HZ_HAS_HOME)
        GTEST_SKIP() << "this lane has no home class";
    ASSERT_EQ(self_->shard->index, 0U);
    ASSERT_TRUE(hz_shard_limit_set(1));
    circulate(2, 3, unit::rounds(20000));
    ASSERT_TRUE(hz_shard_limit_set(0));
}

TEST_F(Depot, ThreadsPushAndPopEveryBlockOnce) {
    constexpr unsigned pushers = 2;
    constexpr unsigned poppers = 2;
    unsigned size_class = unit::largest_short - 8;
    uint32_t full = hz_batch_count(size_class);
    const size_t each = unit::rounds(20000);
    std::vector<std::atomic<uint32_t>> seen(pushers * each * full);
    std::atomic<unsigned> pushing{pushers};
    /* twice, because threads can move between CPUs, and twice again for a swing */
    size_t cap_bytes = 4 * static_cast<size_t>(HZ_DEPOT_BYTES);
    std::atomic<bool> bounded{true};
    unit::together(pushers + poppers, [&](unsigned index) {
        struct hz_thread_block *self = unit::self();
        if (index < pushers) {
            for (size_t i = 0; i < each; i++) {
                Blocks batch = batch_of((index * each + i) * full, full);
                while (!hz_depot_push(self, size_class, batch.data(), full))
                    std::this_thread::yield();
            }
            pushing--;
            return;
        }
        Blocks batch(HZ_BATCH_COUNT);
        for (bool last = false; !last;) {
            last = pushing.load() == 0;
            bounded = bounded && hz_depot_blocks(size_class) * hz_class_bytes(size_class) <= cap_bytes;
            for (uint32_t count; (count = hz_depot_pop(self, size_class, batch.data())) > 0;)
                for (uint32_t i = 0; i < count; i++)
                    seen[number_of(batch[i])]++;
            std::this_thread::yield();
        }
    });
    EXPECT_TRUE(bounded);
    for (const std::atomic<uint32_t> &count : seen)
        ASSERT_EQ(count, 1U);
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
}

/* A home class has a stack in each shard. */
class DepotOfShards : public unit::OwnShard {
  protected:
    void SetUp() override {
        if (HZ_DEPOT_BYTES == 0 || !HZ_HAS_HOME)
            GTEST_SKIP() << "this lane has no depot or no home class";
        OwnShard::SetUp();
    }
    void TearDown() override {
        if (shard_ != nullptr)
            OwnShard::TearDown();
    }
    void push(struct hz_shard *shard, const Blocks &blocks) {
        unit::ThreadOf there(self_, shard);
        ASSERT_TRUE(hz_depot_push(self_, size_class, blocks.data(), static_cast<uint32_t>(blocks.size())));
    }
    Blocks pop(struct hz_shard *shard) {
        unit::ThreadOf there(self_, shard);
        Blocks blocks(HZ_BATCH_COUNT);
        blocks.resize(hz_depot_pop(self_, size_class, blocks.data()));
        return blocks;
    }
    Blocks pop_home() {
        Blocks blocks(HZ_BATCH_COUNT);
        blocks.resize(hz_depot_pop_home(self_, size_class, blocks.data()));
        return blocks;
    }
    static constexpr unsigned size_class = 1;
};

TEST_F(DepotOfShards, EachPopsItsOwn) {
    push(shard_, batch_of(100, 3));
    EXPECT_TRUE(pop(self_->shard).empty());
    push(self_->shard, batch_of(200, 2));
    EXPECT_EQ(hz_depot_blocks(size_class), 5U);
    EXPECT_EQ(pop(shard_), batch_of(100, 3));
    EXPECT_TRUE(pop(shard_).empty());
    EXPECT_EQ(pop(self_->shard), batch_of(200, 2));
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
}

TEST_F(DepotOfShards, EachIsBounded) {
    const uint32_t full = hz_batch_count(size_class);
    const size_t cap = std::max<size_t>(HZ_DEPOT_BYTES / hz_class_bytes(size_class), full);
    for (struct hz_shard *shard : {shard_, self_->shard}) {
        unit::ThreadOf there(self_, shard);
        size_t resting = 0;
        while (hz_depot_push(self_, size_class, batch_of(0, full).data(), full))
            resting += full;
        EXPECT_LE(resting, cap);
        EXPECT_GT(resting + full, cap) << "what rests in another shard does not count";
    }
    while (!pop_home().empty()) {
    }
}

/* Ageing takes from the shard in which most rests. */
TEST_F(DepotOfShards, AgeingTakesFromTheFullestOne) {
    push(self_->shard, batch_of(100, 5));
    push(shard_, batch_of(200, 6));
    push(shard_, batch_of(300, 1));
    EXPECT_TRUE(hz_depot_was_used(size_class));
    EXPECT_EQ(hz_depot_idle_blocks(size_class), 0U);
    for (const Blocks &expected : {batch_of(300, 1), batch_of(200, 6), batch_of(100, 5), Blocks()})
        EXPECT_EQ(pop_home(), expected);
}

TEST_F(DepotOfShards, AgeingTakesFromIdleOnesFirst) {
    push(self_->shard, batch_of(100, 5));
    push(shard_, batch_of(200, 6));
    EXPECT_TRUE(hz_depot_was_used(size_class));
    push(shard_, batch_of(300, 1));
    EXPECT_TRUE(hz_depot_was_used(size_class));
    EXPECT_EQ(hz_depot_idle_blocks(size_class), 5U);
    for (const Blocks &expected : {batch_of(100, 5), batch_of(300, 1), batch_of(200, 6), Blocks()})
        EXPECT_EQ(pop_home(), expected);
}

/* However busy another shard is, and however much rests there. */
TEST_F(DepotOfShards, WhatRestsInAnIdleShardGoesHome) {
    auto round = [this] {
        hz_age_depot_begin();
        while (hz_age_depot_step(self_, UINT32_MAX)) {
        }
    };
    round();
    push(shard_, unit::take(shard_, size_class, 40));
    for (int i = 0; i < 3; i++)
        push(self_->shard, unit::take(self_->shard, size_class, 80));
    round();
    const Blocks used = pop(self_->shard);
    push(self_->shard, used);
    round();
    EXPECT_TRUE(pop(shard_).empty());
    EXPECT_GE(hz_depot_blocks(size_class), 80U) << "a class in use keeps most";
    hz_age_depot_fully(self_);
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
    hz_heap_purge();
}

TEST_F(DepotOfShards, UseOfAnyShardIsUse) {
    (void)hz_depot_was_used(size_class);
    EXPECT_FALSE(hz_depot_was_used(size_class));
    for (struct hz_shard *shard : {shard_, self_->shard}) {
        push(shard, batch_of(100, 1));
        EXPECT_TRUE(hz_depot_was_used(size_class));
        EXPECT_FALSE(hz_depot_was_used(size_class));
        EXPECT_EQ(pop(shard).size(), 1U);
        EXPECT_TRUE(hz_depot_was_used(size_class)) << "the stack is as empty as before, but was used";
    }
}

/* No thread of another shard would pop the blocks. */
TEST_F(DepotOfShards, TheLastThreadSendsItHome) {
    const Blocks blocks = unit::take(shard_, size_class, 40);
    push(shard_, blocks);
    {
        unit::ThreadOf there(self_, shard_);
        hz_add_ar(&shard_->threads, 1);
        hz_age_surplus_leave(self_);
        EXPECT_EQ(hz_depot_blocks(size_class), 40U) << "another thread of the shard stays";
        hz_shard_release(shard_);
        hz_age_surplus_leave(self_);
    }
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
    EXPECT_EQ(hz_load_rlx(&shard_->classes[size_class].free_blocks),
              hz_page_of(blocks[0])->capacity * unit::pages_of(shard_));
}

/* The same at the end of a real thread, whose thread block then rests without the batches. */
TEST_F(DepotOfShards, AThreadsEndSendsItHome) {
    struct hz_thread_block *other = nullptr;
    std::thread([&] {
        other = unit::self();
        ASSERT_NE(other->shard, self_->shard);
        const Blocks blocks = unit::take(other->shard, size_class, 40);
        ASSERT_TRUE(hz_depot_push(other, size_class, blocks.data(), 40));
        EXPECT_EQ(hz_depot_blocks(size_class), 40U);
    }).join();
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
    for (const struct hz_spares &spares : other->spares)
        EXPECT_EQ(spares.count, 0U);
    hz_heap_purge();
    EXPECT_EQ(hz_class_blocks(size_class), 0U);
}

} // namespace
