/* Statistics, which are exact while no other thread runs. */
#include "stress/children.h"
#include "unit/heap/at_rest.h"

namespace {

using support::KiB;
using support::MiB;
using unit::AtRest;
using unit::Blocks;
using unit::report;
using unit::stats;

Blocks allocate(size_t size, size_t count) {
    Blocks blocks;
    for (size_t i = 0; i < count; i++)
        blocks.push_back(t_malloc(size));
    return blocks;
}

void free_all(Blocks &blocks) {
    for (void *block : blocks)
        t_free(block);
    blocks.clear();
}

size_t taken(const Blocks &blocks) {
    size_t bytes = 0;
    for (void *block : blocks)
        bytes += t_usable_size(block) + hz_query_offset(block);
    return bytes;
}

/* Fills, flushes and empties every class. After each step the live bytes are the bytes of blocks that are not freed. */
TEST(Stats, LiveBytesAreExactInEveryClass) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        size_t bytes = hz_class_bytes(size_class);
        size_t count = 3 * size_t{hz_bin_capacity(size_class)} + 3;
        size_t before = stats().live_bytes;
        Blocks blocks = allocate(bytes, count);
        ASSERT_EQ(stats().live_bytes - before, count * bytes);
        Blocks kept(blocks.begin(), blocks.begin() + static_cast<ptrdiff_t>(count / 3));
        blocks.erase(blocks.begin(), blocks.begin() + static_cast<ptrdiff_t>(count / 3));
        free_all(blocks);
        ASSERT_EQ(stats().live_bytes - before, kept.size() * bytes) << "also after bins were flushed";
        free_all(kept);
        ASSERT_EQ(stats().live_bytes, before);
    }
}

TEST(Stats, LiveBytesOfRunsAndMappings) {
    struct hz_stats before = stats();
    Blocks blocks;
    for (size_t size : {100 * KiB, MiB, 2 * MiB, 2 * MiB + 1, 9 * MiB})
        blocks.push_back(t_malloc(size));
    struct hz_stats after = stats();
    EXPECT_EQ(after.live_bytes - before.live_bytes, taken(blocks));
    EXPECT_EQ(after.mapping_count - before.mapping_count, 2U);
    EXPECT_GE(after.mapped_bytes - before.mapped_bytes, 11 * MiB);
    free_all(blocks);
    EXPECT_EQ(stats().live_bytes, before.live_bytes);
    EXPECT_EQ(stats().mapping_count, before.mapping_count);
}

TEST(Stats, LiveBytesAreExactAfterThreads) {
    size_t before = stats().live_bytes;
    Blocks kept[4];
    unit::together(4, [&](unsigned index) {
        support::Random random(index);
        Blocks blocks;
        for (unsigned i = 0; i < unit::rounds(4000); i++)
            blocks.push_back(t_malloc(random.between(1, random.below(10) == 0 ? 70000 : 600)));
        for (size_t i = 0; i < blocks.size(); i++)
            if (i % 10 == 0)
                kept[index].push_back(blocks[i]);
            else
                t_free(blocks[i]);
    });
    size_t bytes = 0;
    for (const Blocks &blocks : kept)
        bytes += taken(blocks);
    EXPECT_EQ(stats().live_bytes - before, bytes);
    for (Blocks &blocks : kept)
        free_all(blocks);
    EXPECT_EQ(stats().live_bytes, before);
}

/* Each thread frees what its neighbour allocated. */
TEST(Stats, LiveBytesAreExactAfterCrossThreadFrees) {
    constexpr unsigned threads = 4;
    struct hz_stats before = stats();
    Blocks blocks[threads];
    Blocks kept[threads];
    unit::Barrier allocated(threads);
    unit::together(threads, [&](unsigned index) {
        support::Random random(index);
        for (unsigned i = 0; i < unit::rounds(4000); i++)
            blocks[index].push_back(t_malloc(random.between(1, random.below(20) == 0 ? 300000 : 600)));
        allocated.wait();
        const Blocks &others = blocks[(index + 1) % threads];
        for (size_t i = 0; i < others.size(); i++)
            if (i % 10 == 0)
                kept[index].push_back(others[i]);
            else
                t_free(others[i]);
    });
    size_t bytes = 0;
    for (const Blocks &each : kept)
        bytes += taken(each);
    EXPECT_EQ(stats().live_bytes - before.live_bytes, bytes);
    EXPECT_EQ(unit::bytes_at_rest("bins_bytes") + unit::bytes_at_rest("remote_bytes") +
                  unit::bytes_at_rest("waiting_bytes") + unit::bytes_at_rest("depot_bytes"),
              static_cast<double>(stats().cached_bytes))
        << "the tiers are all that is cached";
    for (Blocks &each : kept)
        free_all(each);
    EXPECT_EQ(stats().live_bytes, before.live_bytes);
}

TEST(Stats, CachedBytesIncludeBins) {
    hz_purge();
    struct hz_stats before = stats();
    EXPECT_EQ(before.cached_bytes, 0U) << "a purge leaves nothing in this thread's caches";
    unsigned size_class = 10;
    Blocks blocks = allocate(hz_class_bytes(size_class), 4);
    free_all(blocks);
    EXPECT_EQ(stats().cached_bytes, unit::bin_count(unit::self(), size_class) * hz_class_bytes(size_class));
    EXPECT_GT(stats().cached_bytes, 0U);
}

TEST(Stats, CachedBytesIncludeBlocksOnTheirWayHome) {
    hz_purge();
    hz_classes_forget_sparse(); /* no class is sparse: those are not sent to mailboxes */
    struct hz_shard *shard = hz_shard_claim();
    Blocks blocks = unit::take(shard, 7, 10);
    EXPECT_EQ(stats().cached_bytes, 0U);
    EXPECT_EQ(stats().live_bytes, 10 * hz_class_bytes(7))
        << "the test took them without the bins, so they count as live";
    unit::send(shard, blocks);
    EXPECT_EQ(stats().cached_bytes, unit::waits(10) * hz_class_bytes(7));
    EXPECT_EQ(stats().live_bytes, 0U);
    unit::leave(shard);
    EXPECT_EQ(stats().cached_bytes, 0U);
}

TEST(Stats, ResidentBytesFollowPurges) {
    Blocks blocks = allocate(100 * KiB, 50); /* within the dirty budget, so the frees purge nothing */
    for (void *block : blocks)
        memset(block, 1, 100 * KiB);
    struct hz_stats full = stats();
    EXPECT_GE(full.resident_bytes, 50 * 100 * KiB);
    EXPECT_GE(full.mapped_bytes, full.resident_bytes);
    free_all(blocks);
    EXPECT_GE(stats().free_bytes + stats().cached_bytes, 50 * 100 * KiB) << "the thread's bin keeps a few";
    size_t purged = hz_purge();
    EXPECT_GE(purged, 50 * 100 * KiB);
    EXPECT_EQ(stats().purged_bytes - full.purged_bytes, purged);
    EXPECT_EQ(stats().resident_bytes, 0U) << "nothing is in use here";
    EXPECT_EQ(stats().free_bytes, 0U);
}

/* ---- the peak ---- */

/* What the arena holds now. Unlike stats(), this does not note it. */
size_t held() {
    return hz_arena_held_bytes();
}

/* Each test reaches a new peak, gives everything back, and only then looks. */
class Peak : public testing::Test {
  protected:
    void SetUp() override {
        (void)unit::self();
        hz_purge();
        before_ = stats().peak_bytes;
        ASSERT_LT(held(), MiB) << "nothing is in use here";
    }
    void TearDown() override {
        hz_purge();
        EXPECT_EQ(stats().peak_bytes, before_) << "a peak stays, and a purge is none";
    }
    /* Blocks of one size, until the arena holds more than ever before. */
    Blocks fill(size_t size) const {
        Blocks blocks;
        while (held() <= before_)
            blocks.push_back(t_malloc(size));
        return blocks;
    }
    void expect_peak(size_t bytes, Blocks &blocks) {
        EXPECT_GT(bytes, before_);
        free_all(blocks);
        hz_purge();
        EXPECT_LT(held(), bytes);
        before_ = stats().peak_bytes;
        EXPECT_EQ(before_, bytes);
    }
    size_t before_ = 0;
};

TEST_F(Peak, OfRuns) {
    size_t base = held();
    Blocks blocks = fill(MiB);
    expect_peak(base + taken(blocks), blocks);
}

TEST_F(Peak, OfBlocksWithUnits) {
    size_t base = held();
    Blocks blocks = fill(3 * MiB);
    expect_peak(base + taken(blocks), blocks);
}

TEST_F(Peak, OfBlocksMappedAlone) {
    size_t base = held();
    Blocks blocks = fill(65 * MiB);
    expect_peak(base + taken(blocks), blocks);
}

TEST_F(Peak, OfPagesOfBlocks) {
    for (size_t size : {size_t{1000}, size_t{4096}, 40 * KiB}) {
        Blocks blocks = fill(size);
        expect_peak(held(), blocks);
    }
}

/* No run is claimed for them. */
TEST_F(Peak, OfBlocksInPurgedPartsOfPages) {
    Blocks blocks = fill(4096);
    size_t full = held();
    Blocks kept;
    for (size_t i = 0; i < blocks.size(); i++)
        if (i % 16 == 0)
            kept.push_back(blocks[i]);
        else
            t_free(blocks[i]);
    hz_purge();
    ASSERT_LT(held(), full / 2) << "pages with a block have given back most of their memory";
    Blocks large;
    while (held() + MiB <= full)
        large.push_back(t_malloc(MiB));
    size_t pages = hz_pages_bytes();
    for (size_t i = 0; i < 1000; i++)
        kept.push_back(t_malloc(4096));
    ASSERT_EQ(hz_pages_bytes(), pages) << "they lie in the pages that were there";
    kept.insert(kept.end(), large.begin(), large.end());
    expect_peak(held(), kept);
}

/* ---- what rests where: known blocks in one place, and none in any other ---- */

/* Frees blocks that were taken from pages, and that the check build's map of live blocks therefore does not have. */
void heap_free(const Blocks &blocks) {
    for (void *block : blocks)
        hz_heap_free(block);
}

class Rest : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit::self();
        hz_purge();
        hz_classes_forget_sparse(); /* no class is sparse: those rest nowhere */
        ASSERT_EQ(unit::at_rest(), AtRest());
        ASSERT_EQ(unit::bytes_at_rest("arena_bytes"), 0);
        shard_ = hz_shard_claim();
    }
    void TearDown() override {
        unit::leave(shard_);
        hz_purge();
        EXPECT_EQ(unit::at_rest(), AtRest());
        EXPECT_EQ(stats().live_bytes, 0U);
    }
    struct hz_thread_block *self_ = nullptr;
    struct hz_shard *shard_ = nullptr;
};

TEST_F(Rest, InBins) {
    Blocks blocks = unit::take(self_->shard, 7, 3);
    Blocks others = unit::take(self_->shard, unit::largest_short, 2);
    blocks.insert(blocks.end(), others.begin(), others.end());
    heap_free(blocks);
    EXPECT_EQ(unit::at_rest(), (AtRest{{"bins_bytes", 3 * 112 + 2 * 65536}}));
}

/* The keeper takes a parked thread's blocks out of the middle of its bins. */
TEST_F(Rest, InBinsWithHoles) {
    heap_free(unit::take(self_->shard, 7, 3));
    hz_store_rlx(&self_->parking.parked, true);
    void *taken[HZ_PARK_STEP];
    Blocks out(taken, taken + hz_park_take(self_, 7, taken));
    EXPECT_EQ(out.size(), 2U) << "the newest block stays";
    EXPECT_EQ(unit::bin_count(self_, 7), 3U) << "two of the three are holes";
    EXPECT_EQ(unit::at_rest(), (AtRest{{"bins_bytes", 112}}));
    hz_store_rlx(&self_->parking.parked, false);
    self_->parking.has_holes = false;
    hz_bin_close_holes(&self_->cache, 7, &self_->parking.gone[7]);
    unit::put(self_->shard, out);
}

TEST_F(Rest, InRemoteBuffers) {
    if (!hz_class_is_home(7))
        GTEST_SKIP() << "in this lane a thread adopts the blocks that it frees";
    Blocks blocks = unit::take(shard_, 7, 3);
    Blocks others = unit::take(shard_, 2, 2);
    blocks.insert(blocks.end(), others.begin(), others.end());
    heap_free(blocks);
    EXPECT_EQ(unit::at_rest(), (AtRest{{"remote_bytes", 3 * 112 + 2 * 32}}));
}

TEST_F(Rest, WhereBlocksWaitForAShard) {
    if (unit::mail() == unit::Mail::none)
        GTEST_SKIP() << "in this lane no blocks wait";
    Blocks blocks = unit::take(shard_, 7, 10);
    unit::send(shard_, blocks);
    EXPECT_EQ(unit::at_rest(), (AtRest{{unit::first_part(), 10 * 112}, {"waiting_bytes", 10 * 112}}));
}

TEST_F(Rest, InCarries) {
    if (unit::mail() == unit::Mail::none)
        GTEST_SKIP() << "in this lane no blocks wait";
    Blocks blocks = unit::take(shard_, 7, 10);
    unit::send(shard_, blocks);
    Blocks taken = unit::refill(shard_, 7, 4);
    ASSERT_EQ(taken.size(), 4U);
    EXPECT_EQ(unit::at_rest(), (AtRest{{"carry_bytes", 6 * 112}, {"waiting_bytes", 6 * 112}}));
    unit::put(shard_, taken);
}

TEST_F(Rest, InTheDepot) {
    if (HZ_HAS_DEPOT == 0)
        GTEST_SKIP() << "this lane has no depot";
    Blocks blocks = unit::take(self_->shard, 20, 5);
    ASSERT_TRUE(hz_depot_push(self_, 20, blocks.data(), 5));
    EXPECT_EQ(unit::at_rest(), (AtRest{{"depot_bytes", 5.0 * static_cast<double>(hz_class_bytes(20))}}));
}

TEST_F(Rest, InPages) {
    Blocks blocks = unit::take(self_->shard, hz_class_of(4096), 10);
    EXPECT_EQ(unit::bytes_at_rest("pages_bytes"), 0) << "what was not carved yet holds no memory";
    Blocks back(blocks.begin(), blocks.begin() + 4);
    unit::put(self_->shard, back);
    EXPECT_EQ(unit::bytes_at_rest("pages_bytes"), 4 * 4096);
    EXPECT_EQ(unit::at_rest(), AtRest());
    unit::put(self_->shard, Blocks(blocks.begin() + 4, blocks.end()));
}

TEST_F(Rest, InTheArena) {
    t_free(t_calloc(1, MiB));
    EXPECT_EQ(unit::bytes_at_rest("arena_bytes"), static_cast<double>(MiB));
    t_free(t_malloc(3 * MiB));
    EXPECT_EQ(unit::bytes_at_rest("arena_bytes"), static_cast<double>(5 * MiB)) << "a unit of 4 MiB";
    EXPECT_EQ(unit::at_rest(), AtRest());
}

/* ---- the rows of threads ---- */

using Row = std::map<std::string, double>;

/* By the numbers of the thread blocks. */
std::map<unsigned, Row> thread_rows() {
    std::map<std::string, double> numbers = report();
    std::map<unsigned, Row> rows;
    for (int index = 0; numbers.count("threads." + std::to_string(index) + ".number") != 0; index++) {
        std::string prefix = "threads." + std::to_string(index) + ".";
        Row row;
        for (const auto &[name, value] : numbers)
            if (name.rfind(prefix, 0) == 0)
                row[name.substr(prefix.size())] = value;
        EXPECT_TRUE(rows.emplace(static_cast<unsigned>(row["number"]), row).second) << "a thread has two rows";
    }
    return rows;
}

double number(uint64_t value) {
    return static_cast<double>(value);
}

Row row_of(struct hz_thread_block *thread, double bins_bytes, double remote_bytes) {
    return {{"number", hz_thread_registered(thread)->number},
            {"thread_id", 0}, /* nothing in this library's attach asks for it */
            {"shard", thread->shard->index},
            {"bins_bytes", bins_bytes},
            {"remote_bytes", remote_bytes},
            {"parked", hz_load_rlx(&thread->parking.parked) ? 1 : 0},
            {"refill", number(hz_load_rlx(&thread->counters.refill))},
            {"flush", number(hz_load_rlx(&thread->counters.flush))}};
}

TEST_F(Rest, EachThreadHasARow) {
    constexpr unsigned threads = 3;
    struct hz_thread_block *blocks_of[threads];
    unit::Barrier filled(threads + 1);
    unit::Barrier read(threads + 1);
    std::vector<std::thread> others;
    for (unsigned index = 0; index < threads; index++)
        others.emplace_back([&, index] {
            struct hz_thread_block *thread = blocks_of[index] = unit::self();
            t_free(t_malloc(5000)); /* some refills */
            hz_thread_flush(thread);
            hz_room_set(thread, 7, 4); /* a new bin has room for one block */
            heap_free(unit::take(thread->shard, 7, index + 1));
            filled.wait();
            read.wait();
        });
    filled.wait();
    std::map<unsigned, Row> rows = thread_rows();
    EXPECT_EQ(rows.size(), threads + 1U);
    EXPECT_EQ(rows[hz_thread_registered(self_)->number], row_of(self_, 0, 0));
    for (unsigned index = 0; index < threads; index++)
        EXPECT_EQ(rows[hz_thread_registered(blocks_of[index])->number],
                  row_of(blocks_of[index], 112.0 * (index + 1), 0));
    EXPECT_GT(rows[hz_thread_registered(blocks_of[0])->number]["refill"], 0);
    EXPECT_EQ(unit::at_rest(), (AtRest{{"bins_bytes", 112 * (1 + 2 + 3)}})) << "the sum of the rows";
    read.wait();
    for (std::thread &other : others)
        other.join();
    EXPECT_EQ(thread_rows().size(), 1U) << "threads that have ended have no row";
}

TEST_F(Rest, ARowHasTheRemoteBuffer) {
    if (!hz_class_is_home(7))
        GTEST_SKIP() << "in this lane a thread adopts the blocks that it frees";
    heap_free(unit::take(shard_, 7, 3));
    EXPECT_EQ(thread_rows()[hz_thread_registered(self_)->number], row_of(self_, 0, 3 * 112));
}

TEST_F(Rest, ARowSaysThatTheThreadIsParked) {
    EXPECT_EQ(thread_rows()[hz_thread_registered(self_)->number]["parked"], 0);
    hz_store_rlx(&self_->parking.parked, true);
    EXPECT_EQ(thread_rows()[hz_thread_registered(self_)->number]["parked"], 1);
    hz_store_rlx(&self_->parking.parked, false);
}

/* A purge claims thread blocks of threads that have ended, for a moment. */
TEST(ThreadRows, APurgeHasNoRows) {
    (void)unit::self();
    unit::together(4, [](unsigned) { t_free(t_malloc(100)); });
    std::atomic<bool> stop{false};
    std::thread purger([&] {
        while (!stop.load())
            hz_thread_blocks_purge();
    });
    for (unsigned round = 0; round < unit::rounds(100) && !HasFailure(); round++)
        EXPECT_EQ(thread_rows().size(), 1U) << "the purging thread is not attached";
    stop.store(true);
    purger.join();
}

TEST(ThreadRows, ThreadsThatEndMeanwhile) {
    (void)unit::self();
    std::atomic<bool> stop{false};
    std::vector<std::thread> starters;
    for (unsigned index = 0; index < 3; index++)
        starters.emplace_back([&] {
            while (!stop.load())
                std::thread([] { t_free(t_malloc(3000)); }).join();
        });
    for (unsigned round = 0; round < unit::rounds(100) && !HasFailure(); round++) {
        std::map<unsigned, Row> rows = thread_rows();
        EXPECT_GE(rows.size(), 1U);
        for (auto &[block, row] : rows) {
            EXPECT_LT(row["shard"], number(HZ_NUM_SHARDS));
            EXPECT_LT(row["bins_bytes"], number(20 * MiB));
        }
    }
    stop.store(true);
    for (std::thread &starter : starters)
        starter.join();
    EXPECT_EQ(thread_rows().size(), 1U);
}

TEST(ThreadRows, AForksChildHasOneThread) {
    (void)unit::self();
    std::atomic<bool> stop{false};
    unit::Barrier attached(2);
    std::thread other([&] {
        (void)unit::self();
        attached.wait();
        while (!stop.load())
            std::this_thread::yield();
    });
    attached.wait();
    EXPECT_EQ(thread_rows().size(), 2U);
    children::expect_good_end(children::start([] {
        children::require(thread_rows().size() == 1, "the vanished thread has no row");
        return 0;
    }));
    stop.store(true);
    other.join();
}

/* ---- the report ---- */

TEST(StatsReport, AgreesWithTheFigures) {
    Blocks blocks = allocate(100, 7);
    struct hz_stats now = stats();
    std::map<std::string, double> numbers = report();
    EXPECT_EQ(numbers["heap.live_bytes"], static_cast<double>(now.live_bytes));
    EXPECT_EQ(numbers["heap.cached_bytes"], static_cast<double>(now.cached_bytes));
    EXPECT_EQ(numbers["heap.mapped_bytes"], static_cast<double>(now.mapped_bytes));
    EXPECT_EQ(numbers["counters.threads"], 1);
    bool found = false;
    for (int row = 0; numbers.count("classes." + std::to_string(row) + ".block_bytes") != 0; row++) {
        std::string prefix = "classes." + std::to_string(row) + ".";
        if (numbers[prefix + "block_bytes"] != static_cast<double>(t_usable_size(blocks[0])))
            continue;
        found = true;
        EXPECT_EQ(numbers[prefix + "live"], 7);
        EXPECT_EQ(numbers[prefix + "cached"], unit::bin_count(unit::self(), hz_class_of(100)));
        EXPECT_EQ(numbers[prefix + "pages"], 1);
    }
    EXPECT_TRUE(found) << "the class of 100 bytes has a row";
    free_all(blocks);
}

TEST(StatsReport, CountsEveryThread) {
    double refills = report()["counters.refill"];
    std::thread([] { t_free(t_malloc(4321)); }).join();
    std::map<std::string, double> after = report();
    EXPECT_GE(after["counters.refill"], refills + 1) << "threads that have ended count too";
    EXPECT_EQ(after["counters.threads"], 1);
    double large = after["counters.large_alloc"];
    t_free(t_calloc(1, MiB));
    EXPECT_EQ(report()["counters.large_alloc"], large + 1);
    EXPECT_GE(report()["counters.large_free"], 1);
}

} // namespace
