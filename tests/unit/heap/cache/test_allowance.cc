/* How much room the bins of a thread may have together, and how they keep to it. */
#include "stress/children.h"
#include "unit/heap/worker.h"

#include <algorithm>
#include <memory>

namespace {

using children::require;
using support::MiB;
using unit::allowance_of;
using unit::Blocks;
using unit::Worker;

/* The threads that share besides the calling one do nothing in these tests: they only share. */
class Sharers {
  public:
    explicit Sharers(uint32_t count) : count_(count) {
        for (uint32_t i = 0; i < count_; i++)
            hz_pressure_join();
    }
    ~Sharers() {
        for (uint32_t i = 0; i < count_; i++)
            hz_pressure_leave();
    }
    Sharers(const Sharers &) = delete;
    Sharers &operator=(const Sharers &) = delete;

  private:
    uint32_t count_;
};

/* ---- the allowance ---- */

TEST(Allowance, IsAnEqualShare) {
    unit::self();
    hz_heap_purge();
    EXPECT_EQ(hz_allowance(), allowance_of(1));
    std::vector<std::unique_ptr<Worker>> workers;
    for (size_t threads = 2; threads <= 5; threads++) {
        workers.push_back(std::make_unique<Worker>());
        EXPECT_EQ(hz_allowance(), allowance_of(threads - 1)) << "a thread begins parked";
        workers.back()->run([] { t_free(t_malloc(1)); });
        EXPECT_EQ(hz_allowance(), allowance_of(threads));
    }
    workers.front()->run([] {
        t_free(t_malloc(100));
        hz_thread_start();
    });
    EXPECT_EQ(hz_allowance(), allowance_of(5)) << "a thread joins once";
    while (!workers.empty()) {
        workers.pop_back();
        EXPECT_EQ(hz_allowance(), allowance_of(1 + workers.size()));
    }
    std::thread([] { t_free(t_malloc(1)); }).join();
    EXPECT_EQ(hz_allowance(), allowance_of(1)) << "it came and went";
}

TEST(Allowance, AParkedThreadDoesNotShare) {
    if (!hz_os_barrier_prepare(true))
        GTEST_SKIP() << "this kernel has no membarrier";
    unit::self();
    Worker worker;
    worker.run([] { t_free(t_malloc(1)); });
    EXPECT_EQ(hz_allowance(), allowance_of(2));
    ASSERT_TRUE(hz_park(worker.block()));
    EXPECT_EQ(hz_allowance(), allowance_of(1));
    ASSERT_TRUE(hz_park(worker.block()));
    EXPECT_EQ(hz_allowance(), allowance_of(1)) << "it was parked already";
    worker.run([] { t_free(t_malloc(1)); });
    EXPECT_EQ(hz_allowance(), allowance_of(2));
    worker.run([] { hz_thread_enter(); });
    ASSERT_FALSE(hz_park(worker.block()));
    EXPECT_EQ(hz_allowance(), allowance_of(2));
    worker.run([] { hz_thread_leave(hz_self()); });
    {
        struct hz_parking *parking = &worker.block()->parking;
        struct hz_lock *lock = &hz_thread_registered(worker.block())->lock;
        hz_lock_acquire(lock); /* as if another thread were about to park it, and gave up */
        hz_store_rlx(hz_load_rlx(&parking->self_word), &hz_thread_none);
        worker.begin([] { t_free(t_malloc(1)); });
        while (hz_load_rlx(&lock->word) != 2)
            std::this_thread::yield();
        hz_store_rlx(hz_load_rlx(&parking->self_word), worker.block());
        hz_lock_release(lock);
        worker.wait();
    }
    EXPECT_EQ(hz_allowance(), allowance_of(2)) << "it had not ceased to share";
    ASSERT_TRUE(hz_park(worker.block()));
    worker.end();
    EXPECT_EQ(hz_allowance(), allowance_of(1)) << "the end of a parked thread counts once";
}

TEST(Allowance, AForksChildHasOneThread) {
    unit::self();
    Worker first;
    Worker second;
    first.run([] { t_free(t_malloc(1)); });
    second.run([] { t_free(t_malloc(1)); });
    ASSERT_EQ(hz_allowance(), allowance_of(3));
    auto child_of = [] {
        children::expect_good_end(children::start([] {
            require(hz_allowance() == allowance_of(1), "only this thread shares");
            t_free(t_malloc(1));
            require(hz_allowance() == allowance_of(1), "it counts once");
            if (!support::tsan) {
                std::thread([] {
                    t_free(t_malloc(1));
                    require(hz_allowance() == allowance_of(2), "two threads share");
                }).join();
                require(hz_allowance() == allowance_of(1), "the other one has ended");
            }
            return 0;
        }));
    };
    child_of();
    first.run(child_of);
    EXPECT_EQ(hz_allowance(), allowance_of(3));
}

/* The more is out of the pages, the more may rest in the bins. */
TEST(Allowance, GrowsWithWhatIsOut) {
    struct hz_thread_block *self = unit::self();
    hz_heap_purge();
    size_t recent = hz_pressure_recent_out_short();
    size_t before = hz_allowance();
    Blocks blocks = unit::take(self->shard, hz_class_of(1024), static_cast<uint32_t>((recent + 20 * MiB) / 1024 + 1));
    EXPECT_EQ(hz_allowance(), before);
    hz_pressure_look();
    EXPECT_GE(hz_allowance(), before + 10 * MiB);
    EXPECT_LE(hz_allowance(), before + 11 * MiB) << "half of what came";
    unit::put(self->shard, blocks);
    EXPECT_GE(hz_allowance(), before + 10 * MiB) << "it is remembered for a while";
    while (hz_pressure_recent_out_short() > 20 * MiB)
        hz_pressure_age();
    EXPECT_EQ(hz_allowance(), allowance_of(1));
    {
        Sharers others(3);
        EXPECT_EQ(hz_allowance(), allowance_of(4));
    }
    Sharers many(63);
    EXPECT_EQ(hz_allowance(), allowance_of(64));
    EXPECT_LT(64 * hz_allowance(), 16 * allowance_of(16)) << "many threads have less together than few";
    hz_heap_purge();
}

/* ---- rooms ---- */

/* Bytes of room that a bin has beyond that of a new one. */
size_t charge(struct hz_thread_block *thread, unsigned size_class) {
    uint32_t room = hz_bin_room(&thread->cache, size_class);
    return (room - std::min(room, hz_bin_first(size_class))) * hz_class_bytes(size_class);
}

size_t charges(struct hz_thread_block *thread) {
    size_t bytes = 0;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        bytes += charge(thread, size_class);
    return bytes;
}

class AllowedRoom : public testing::Test {
  protected:
    static constexpr unsigned older = 10;
    static constexpr unsigned old = 12;
    static constexpr unsigned growing = 20;

    void SetUp() override {
        self_ = unit::self();
        hz_heap_purge();
        unit::forget_sparse();
        unit::forbid_idle_looks(self_);
        for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
            hz_room_set(self_, size_class, hz_bin_first(size_class));
        ASSERT_EQ(room_bytes(), 0U) << "the room of new bins costs nothing";
        self_->visits = 10000;
        self_->searched_at = 0;
        for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
            self_->visited[size_class] = static_cast<uint16_t>(self_->visits);
            self_->visit_gaps[size_class] = 0;
        }
    }
    void TearDown() override {
        hz_heap_purge();
        EXPECT_EQ(support::live_bytes(), 0U);
    }
    size_t room_bytes() {
        return static_cast<size_t>(self_->room_bytes);
    }
    uint32_t room(unsigned size_class) {
        return hz_bin_room(&self_->cache, size_class);
    }
    void fill(unsigned size_class) {
        hz_room_set(self_, size_class, hz_bin_capacity(size_class));
        for (void *block : unit::take(self_->shard, size_class, hz_bin_capacity(size_class)))
            hz_heap_free(block);
        ASSERT_EQ(unit::bin_count(self_, size_class), hz_bin_capacity(size_class));
    }
    /* Gives room to large classes until a bin of `growing` cannot double. */
    void use_up() {
        size_t allowance = hz_allowance();
        for (unsigned size_class = unit::class_count - 1; size_class > growing; size_class--) {
            size_t more = (allowance - room_bytes()) / hz_class_bytes(size_class);
            size_t most = hz_bin_capacity(size_class) - room(size_class);
            hz_room_set(self_, size_class, room(size_class) + static_cast<uint32_t>(std::min(more, most)));
        }
        ASSERT_LE(room_bytes(), allowance);
        ASSERT_LT(allowance - room_bytes(), hz_bin_first(growing) * hz_class_bytes(growing));
    }
    /* Gives room to classes above `growing` until the thread has used 1/share of its allowance: by default the share
       within which bins grow freely. */
    void use_share(size_t share = HZ_ROOM_FREE_SHARE) {
        while (room_bytes() < hz_allowance() / share)
            for (unsigned size_class = growing + 1; size_class < unit::class_count; size_class++)
                if (room(size_class) < hz_bin_capacity(size_class) && room_bytes() < hz_allowance() / share)
                    hz_room_set(self_, size_class, room(size_class) + 2);
        ASSERT_LT(room_bytes(), hz_allowance() / 2);
    }
    void give_up_share() {
        for (unsigned size_class = unit::class_count - 1; size_class > growing; size_class--)
            hz_room_set(self_, size_class, hz_bin_first(size_class));
    }
    void age(unsigned size_class, uint32_t visits) {
        self_->visited[size_class] = static_cast<uint16_t>(self_->visits - visits);
    }
    struct hz_thread_block *self_ = nullptr;
};

TEST_F(AllowedRoom, ABinGrowsWithinTheAllowance) {
    EXPECT_FALSE(hz_room_visit(self_, growing));
    EXPECT_EQ(room(growing), 2 * hz_bin_first(growing));
    EXPECT_EQ(room_bytes(), hz_bin_first(growing) * hz_class_bytes(growing));
    Sharers others(200);
    use_up();
    uint32_t before = room(growing);
    EXPECT_FALSE(hz_room_visit(self_, growing));
    EXPECT_EQ(room(growing), before);
    EXPECT_EQ(room_bytes(), charges(self_));
}

TEST_F(AllowedRoom, BeyondTheFreeShareABinGrowsToItsStart) {
    if (hz_bin_start(growing) == hz_bin_capacity(growing))
        GTEST_SKIP() << "in this lane bins have all their room from the start";
    use_share();
    for (int i = 0; i < 20; i++)
        EXPECT_FALSE(hz_room_visit(self_, growing));
    EXPECT_EQ(room(growing), hz_bin_start(growing));
    give_up_share();
    EXPECT_FALSE(hz_room_visit(self_, growing));
    EXPECT_GT(room(growing), hz_bin_start(growing)) << "the free share is free again";
}

TEST_F(AllowedRoom, OnlyWithinASmallerShareABinIsLong) {
    unsigned smallest = 1;
    uint32_t capacity = hz_bin_capacity(smallest);
    if (capacity <= 512)
        GTEST_SKIP() << "no bin of this lane can have room for more than 512 blocks";
    use_share(64);
    ASSERT_LT(room_bytes() + 512 * hz_class_bytes(smallest), hz_allowance() / HZ_ROOM_FREE_SHARE);
    for (int i = 0; i < 20; i++)
        EXPECT_FALSE(hz_room_visit(self_, smallest));
    EXPECT_EQ(room(smallest), 512U);
    give_up_share();
    EXPECT_FALSE(hz_room_visit(self_, smallest));
    EXPECT_EQ(room(smallest), capacity);
}

TEST_F(AllowedRoom, InACrowdABinGrowsOnlyWithinTheFreeShare) {
    uint32_t first = hz_bin_first(growing);
    {
        Sharers others(1100);
        EXPECT_FALSE(hz_room_visit(self_, growing));
        EXPECT_EQ(room(growing), 2 * first);
        hz_room_set(self_, growing, first);
        use_share();
        for (int i = 0; i < 10; i++)
            EXPECT_FALSE(hz_room_visit(self_, growing));
        EXPECT_EQ(room(growing), first);
    }
    Sharers others(900);
    use_share();
    EXPECT_FALSE(hz_room_visit(self_, older));
    EXPECT_EQ(room(older), 2 * hz_bin_first(older));
}

TEST_F(AllowedRoom, TheBinThatWasUnusedLongestMakesRoom) {
    Sharers others(200);
    fill(old);
    fill(older);
    use_up();
    age(old, 100);
    age(older, 101);
    uint32_t before = room(growing);
    EXPECT_FALSE(hz_room_visit(self_, growing));
    EXPECT_EQ(unit::bin_count(self_, older), 0U);
    EXPECT_EQ(room(older), hz_bin_first(older));
    EXPECT_EQ(room(growing), 2 * before) << "at once";
    EXPECT_EQ(unit::bin_count(self_, old), hz_bin_capacity(old));
    EXPECT_EQ(room_bytes(), charges(self_));
    EXPECT_LE(room_bytes(), hz_allowance());
    use_up();
    EXPECT_FALSE(hz_room_visit(self_, growing));
    EXPECT_EQ(unit::bin_count(self_, old), 0U) << "the next one that was unused longest";
}

TEST_F(AllowedRoom, ABinInUseKeepsItsBlocks) {
    Sharers others(200);
    fill(old);
    use_up();
    age(old, 60); /* the visit makes it 61 */
    uint32_t before = room(growing);
    EXPECT_FALSE(hz_room_visit(self_, growing));
    EXPECT_EQ(unit::bin_count(self_, old), hz_bin_capacity(old)) << "64 visits are no time";
    age(old, 100);
    EXPECT_FALSE(hz_room_visit(self_, growing));
    EXPECT_EQ(unit::bin_count(self_, old), hz_bin_capacity(old)) << "a search that found none is not repeated at once";
    self_->visits += 20;
    age(old, 100);
    self_->visited[growing] = static_cast<uint16_t>(self_->visits - 60);
    self_->visit_gaps[growing] = 60;
    EXPECT_FALSE(hz_room_visit(self_, growing));
    EXPECT_EQ(unit::bin_count(self_, old), hz_bin_capacity(old)) << "the class that wants to grow is hardly used more";
    self_->visits += 20;
    age(old, 1000);
    EXPECT_FALSE(hz_room_visit(self_, growing));
    EXPECT_EQ(unit::bin_count(self_, old), 0U);
    EXPECT_EQ(room(growing), 2 * before);
}

/* Room is too much when it exceeds the allowance by a sixteenth; then the visited bin is to shrink. */
TEST_F(AllowedRoom, ASixteenthMoreIsTooMuch) {
    Sharers others(200);
    size_t allowance = hz_allowance();
    use_up();
    EXPECT_FALSE(hz_room_visit(self_, growing));
    unsigned other = hz_class_of(2048);
    size_t more = (allowance / 16 + allowance - room_bytes()) / hz_class_bytes(other);
    uint32_t most = room(other) + static_cast<uint32_t>(more);
    ASSERT_LT(most, hz_bin_capacity(other));
    hz_room_set(self_, other, most);
    EXPECT_FALSE(hz_room_visit(self_, growing));
    hz_room_set(self_, other, most + 1);
    EXPECT_TRUE(hz_room_visit(self_, growing));
}

TEST_F(AllowedRoom, SlowPathsShrinkTheBinTheyAreFor) {
    Sharers others(1000);
    unsigned visited = hz_class_of(2048);
    uint32_t capacity = hz_bin_capacity(visited);
    for (unsigned size_class = visited + 1; size_class < unit::class_count; size_class++)
        hz_room_set(self_, size_class, hz_bin_capacity(size_class));
    ASSERT_GT(room_bytes(), 2 * hz_allowance());
    hz_room_set(self_, visited, capacity);
    void *block = t_malloc(2048);
    EXPECT_EQ(room(visited), capacity / 2) << "an empty bin";
    hz_bin_send_home(self_, visited);
    fill(visited);
    self_->slow_count = 0; /* no tick */
    t_free(block);
    EXPECT_EQ(room(visited), capacity / 2) << "a full bin";
    EXPECT_EQ(unit::bin_count(self_, visited), capacity / 4 + 1) << "and half of that, with the block";
}

/* As slow paths do, with bins that are always empty. */
TEST_F(AllowedRoom, VisitsKeepToTheAllowance) {
    support::Random random(3);
    for (uint32_t sharers : {0U, 200U, 20U, 1000U, 100U}) {
        Sharers others(sharers);
        size_t allowance = hz_allowance();
        bool fits = false; /* after a smaller allowance came, it takes some visits */
        for (unsigned i = 0; i < 5000; i++) {
            unsigned size_class = 1 + static_cast<unsigned>(random.below(unit::class_count - 1));
            for (size_t visits = 1 + random.below(8); visits > 0; visits--) {
                size_t before = room_bytes();
                bool too_much = hz_room_visit(self_, size_class);
                ASSERT_LE(room_bytes(), std::max(before, allowance)) << "it grows within the allowance only";
                ASSERT_EQ(too_much, room_bytes() > allowance + allowance / 16);
                if (too_much)
                    hz_room_shrink(self_, size_class);
                fits |= !too_much;
                ASSERT_TRUE(!fits || !too_much);
            }
        }
        EXPECT_TRUE(fits);
        EXPECT_EQ(room_bytes(), charges(self_));
        EXPECT_GT(room_bytes(), std::min(allowance, size_t{8} * MiB) / 2) << "it makes use of the allowance";
    }
}

/* What a thread holds, whatever it does, when it does it with malloc and free alone. */
class Traffic {
  public:
    explicit Traffic(uint64_t seed) : random_(seed) {
    }
    void run(unsigned steps) {
        for (unsigned i = 0; i < steps; i++) {
            size_t size = random_.between(1, random_.below(20) == 0 ? 64 * support::KiB : 3000);
            unsigned count = 1 + static_cast<unsigned>(random_.below(60));
            for (unsigned j = 0; j < count; j++) {
                void *&slot = held_[random_.below(400)];
                t_free(slot);
                slot = t_malloc(size);
            }
        }
    }
    void end() {
        for (void *&slot : held_) {
            t_free(slot);
            slot = nullptr;
        }
    }

  private:
    support::Random random_;
    void *held_[400] = {};
};

TEST_F(AllowedRoom, TheSumIsThatOfTheBins) {
    Worker worker;
    struct hz_thread_block *thread = worker.block();
    Traffic traffic(1);
    bool can_park = hz_os_barrier_prepare(true);
    for (uint32_t sharers : {1U, 300U, 2U}) {
        Sharers others(sharers);
        for (int i = 0; i < 50; i++) {
            worker.run([&] {
                traffic.run(20);
                EXPECT_EQ(static_cast<size_t>(thread->room_bytes), charges(thread));
                thread->idle_at_ms = 0;
                do
                    hz_idle_bins_flush(thread, 0, hz_os_now_ms());
                while (thread->idle_next != 0);
                EXPECT_EQ(static_cast<size_t>(thread->room_bytes), charges(thread));
            });
            if (can_park && hz_park(thread))
                hz_park_empty(self_, thread);
            EXPECT_EQ(static_cast<size_t>(thread->room_bytes), charges(thread));
        }
    }
    worker.run([&] { traffic.end(); });
    worker.end();
    EXPECT_EQ(static_cast<size_t>(thread->room_bytes), charges(thread)) << "the next owner inherits it";
}

/* A batch from the depot makes the room that it needs, since it may come from a thread with larger bins. */
size_t longest_batch() {
    size_t longest = 0;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        longest = std::max(longest, hz_batch_count(size_class) * hz_class_bytes(size_class));
    return longest;
}

TEST_F(AllowedRoom, TrafficKeepsToTheAllowance) {
    Traffic traffic(2);
    for (uint32_t sharers : {300U, 50U, 1000U}) {
        Sharers others(sharers);
        for (int i = 0; i < 200; i++) /* after a smaller allowance came, each visit to a bin halves its room */
            traffic.run(10);
        for (int i = 0; i < 200; i++) {
            traffic.run(1);
            size_t allowance = hz_allowance();
            ASSERT_LE(room_bytes(), allowance + allowance / 16 + longest_batch()) << sharers << " sharers";
        }
        EXPECT_GT(room_bytes(), hz_allowance() / 4) << "and makes use of it";
    }
    traffic.end();
}

} // namespace
