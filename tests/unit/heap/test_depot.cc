/* The depot: batches of pointers, in and out once, bounded, on any CPU; also when the same few circulate fast. */
#include "unit/heap/fixture.h"

#include <algorithm>
#include <array>
#include <memory>

namespace {

using unit::Blocks;
using unit::OnCpu;

/* The depot never touches a block, so numbers do. */
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

/* Each test has classes of its own and leaves them empty. */
class Depot : public testing::Test {
  protected:
    void SetUp() override {
        if (HZ_DEPOT_BYTES == 0)
            GTEST_SKIP() << "this lane has no depot";
        self_ = unit_self();
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
    OnCpu here; /* order is within a CPU's part */
    unsigned size_class = 1;
    uint32_t full = hz_batch_count(size_class);
    std::vector<Blocks> batches = {batch_of(0, full), batch_of(1000, 1), batch_of(2000, full - 1)};
    for (const Blocks &batch : batches)
        EXPECT_TRUE(push(size_class, batch));
    EXPECT_EQ(hz_depot_blocks(size_class), 2 * full);
    EXPECT_TRUE(pop(size_class + 1).empty()) << "classes are apart";
    for (size_t i = batches.size(); i-- > 0;)
        EXPECT_EQ(pop(size_class), batches[i]);
    EXPECT_TRUE(pop(size_class).empty());
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
}

TEST_F(Depot, EveryClassHasACap) {
    OnCpu here; /* else it may be up to twice */
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
        EXPECT_EQ(hz_depot_blocks(size_class), pushed * full) << "a refused batch is not there";
        for (size_t i = pushed; i-- > 0;)
            ASSERT_EQ(pop(size_class), batch_of(i * full, full));
        EXPECT_TRUE(pop(size_class).empty());
    }
}

/* What is laid in on a CPU is taken there first, and elsewhere when there is nothing. */
TEST_F(Depot, EveryCpuHasAPart) {
    const std::vector<int> all = unit::cpus();
    if (HZ_DEPOT_PARTS == 1 || all.size() < 2)
        GTEST_SKIP() << "there is one part only";
    const unsigned size_class = 5;
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
    EXPECT_EQ(pop_on(other), batch_of(300, 1)) << "what other CPUs have is found";
    EXPECT_TRUE(pop_on(one).empty());
}

/* What one CPU has laid in leaves the other its equal share, and no more. */
TEST_F(Depot, APartHasWhatTheOthersLeave) {
    const std::vector<int> all = unit::cpus();
    if (HZ_DEPOT_PARTS == 1 || all.size() < 2)
        GTEST_SKIP() << "there is one part only";
    const size_t parts = std::min<size_t>(all.size(), HZ_DEPOT_PARTS);
    const unsigned size_class = 7;
    const uint32_t full = hz_batch_count(size_class);
    auto fill_on = [&](int cpu) {
        OnCpu there(cpu);
        size_t pushed = 0;
        while (push(size_class, batch_of(0, full)))
            pushed++;
        return pushed;
    };
    const size_t cap = fill_on(all.front());
    EXPECT_EQ(cap, std::max<size_t>(HZ_DEPOT_BYTES / (full * hz_class_bytes(size_class)), 1)) << "alone it has all";
    EXPECT_EQ(fill_on(all.back()), cap / parts);
    EXPECT_EQ(fill_on(all.front()), 0U);
    for (size_t i = 0; i < cap / parts + cap / 2; i++)
        ASSERT_FALSE(pop(size_class).empty());
    fill_on(all.back());
    EXPECT_EQ(hz_depot_blocks(size_class), cap * full) << "what the one took out the other may lay in";
    while (!pop(size_class).empty()) {
    }
}

/* One CPU only lays in, the other only takes out: there are no more and more empty batches. */
TEST_F(Depot, EmptyBatchesComeBackToWhereTheyAreNeeded) {
    const std::vector<int> all = unit::cpus();
    if (all.size() < 2)
        GTEST_SKIP() << "there is one CPU only";
    const unsigned size_class = 6;
    const std::array<uint32_t, 2> counts = {1, hz_batch_count(size_class)}; /* a short batch, and a long one */
    size_t meta = 0;
    for (int turn = 0; turn < 40; turn++) {
        for (int cpu : {all.front(), all.back()}) {
            OnCpu there(cpu);
            for (uint32_t i = 0; i < 100; i++) {
                const Blocks batch = batch_of(i * HZ_BATCH_COUNT, counts[i % counts.size()]);
                if (cpu == all.front())
                    ASSERT_TRUE(push(size_class, batch)) << i;
                else
                    ASSERT_FALSE(pop(size_class).empty());
            }
            hz_depot_spare_release(self_);
        }
        if (turn == 0)
            meta = hz_meta_bytes();
    }
    EXPECT_EQ(hz_meta_bytes(), meta);
}

/* Batches of every length come out as they went in, short or long. */
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

/* A share of all that a class has may rest, but only while threads take what others laid in, and two ageings longer. */
TEST_F(Depot, AShareRestsWhileBlocksPass) {
    if (HZ_DEPOT_PERCENT == 0)
        GTEST_SKIP() << "this lane has no share";
    OnCpu here; /* the others, too: they are started here */
    const unsigned size_class = HZ_LINEAR_CLASSES;
    const uint32_t full = hz_batch_count(size_class);
    struct hz_shard *shard = unit_thread_shard(self_);
    const size_t bytes = size_t{HZ_DEPOT_BYTES} * 200 / HZ_DEPOT_PERCENT; /* a share is twice the fixed part */
    const Blocks blocks = unit::take(shard, size_class, static_cast<uint32_t>(bytes / hz_class_bytes(size_class)));
    size_t resting = 0;
    auto fill = [&] { /* until no more may rest; how many do then */
                      while (push(size_class, batch_of(0, full)))
                          resting++;
                      return resting;
    };
    auto others = [&](auto &&work) { std::thread([&] { work(unit_self()); }).join(); };
    auto buffer = Blocks(HZ_BATCH_COUNT);

    const size_t fixed = fill();
    ASSERT_EQ(pop(size_class).size(), full);
    resting--;
    EXPECT_EQ(fill(), fixed) << "what a thread takes back itself does not pass";
    others([&](struct hz_thread_block *other) { ASSERT_EQ(hz_depot_pop_home(other, size_class, buffer.data()), full); });
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
    EXPECT_EQ(fill(), share) << "one ageing is not enough";
    hz_depot_forget_passing(size_class);
    room();
    EXPECT_EQ(fill(), share - 1) << "it has not passed since two ageings";
    hz_depot_forget_passing(size_class);
    while (!pop(size_class).empty())
        resting--;
    EXPECT_EQ(resting, 0U);
    EXPECT_EQ(fill(), fixed) << "as in the beginning";
    while (!pop(size_class).empty()) {
    }
    unit::put(shard, blocks);
}

TEST_F(Depot, SpareBatchesCanBeGivenBack) {
    for (int turn = 0; turn < 20; turn++) {
        for (size_t i = 0; i < 8; i++)
            ASSERT_TRUE(push(3, batch_of(i, 1)));
        for (size_t i = 8; i-- > 0;)
            ASSERT_EQ(pop(3), batch_of(i, 1));
        size_t meta = hz_meta_bytes();
        hz_depot_spare_release(self_);
        ASSERT_TRUE(push(3, batch_of(0, 1))) << "from those given back";
        ASSERT_EQ(pop(3), batch_of(0, 1));
        EXPECT_EQ(hz_meta_bytes(), meta) << "batches are used again";
    }
}

/* Who has which block; each thread that pops one must be alone with it. */
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

/* `batches` batches go round among threads: each pops one or two, and pushes them back, newest first or last. */
void circulate(unsigned size_class, size_t batches, unsigned turns) {
    constexpr unsigned threads = 4;
    uint32_t full = hz_batch_count(size_class);
    Held held(batches * full);
    Blocks buffer(HZ_BATCH_COUNT);
    for (size_t i = 0; i < batches; i++)
        ASSERT_TRUE(hz_depot_push(unit_self(), size_class, batch_of(i * full, full).data(), full));
    std::atomic<bool> good{true};
    std::atomic<size_t> popped{0};
    unit::together(threads, [&](unsigned index) {
        struct hz_thread_block *self = unit_self();
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
    EXPECT_TRUE(good) << "a batch was in two hands, torn, or refused though there was room";
    EXPECT_GT(popped, batches);
    EXPECT_EQ(hz_depot_blocks(size_class), batches * full);
    Blocks all;
    for (size_t i = 0; i < batches; i++) {
        uint32_t count = hz_depot_pop(unit_self(), size_class, buffer.data());
        all.insert(all.end(), buffer.begin(), buffer.begin() + count);
    }
    EXPECT_EQ(hz_depot_blocks(size_class), 0U);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, batch_of(0, static_cast<uint32_t>(batches * full))) << "every block is there, once";
}

TEST_F(Depot, FewBatchesCirculateFast) {
    circulate(2, 2, unit::rounds(40000)); /* the head comes back to the same batch all the time */
    circulate(2, 3, unit::rounds(40000));
}

TEST_F(Depot, ManyBatchesCirculate) {
    circulate(4, 12, unit::rounds(20000));
}

TEST_F(Depot, ThreadsPushAndPopEveryBlockOnce) {
    constexpr unsigned pushers = 2;
    constexpr unsigned poppers = 2;
    unsigned size_class = unit::class_count - 9;
    uint32_t full = hz_batch_count(size_class);
    const size_t each = unit::rounds(20000);
    std::vector<std::atomic<uint32_t>> seen(pushers * each * full);
    std::atomic<unsigned> pushing{pushers};
    size_t cap_bytes = 2 * static_cast<size_t>(HZ_DEPOT_BYTES); /* twice: threads may move from CPU to CPU */
    std::atomic<bool> bounded{true};
    unit::together(pushers + poppers, [&](unsigned index) {
        struct hz_thread_block *self = unit_self();
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

} // namespace
