/* Statistics, which are exact while no other thread runs. */
#include "unit/heap/fixture.h"

#include "contract/json.h"

#include <string>
#include <sys/mman.h>

namespace {

using support::KiB;
using support::MiB;
using unit::Blocks;

struct hz_stats stats() {
    struct hz_stats got = {};
    EXPECT_EQ(t_stats_get(&got), 0);
    return got;
}

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

size_t usable(const Blocks &blocks) {
    size_t bytes = 0;
    for (void *block : blocks)
        bytes += t_usable_size(block);
    return bytes;
}

std::map<std::string, double> report() {
    int fd = memfd_create("stats", 0);
    EXPECT_EQ(t_table.stats_print_fn(fd, HZ_STATS_JSON), 0);
    std::string text(static_cast<size_t>(lseek(fd, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    close(fd);
    std::map<std::string, double> numbers;
    EXPECT_TRUE(JsonReader::numbers(text, numbers)) << text;
    return numbers;
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
    EXPECT_EQ(after.live_bytes - before.live_bytes, usable(blocks));
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
        bytes += usable(blocks);
    EXPECT_EQ(stats().live_bytes - before, bytes);
    for (Blocks &blocks : kept)
        free_all(blocks);
    EXPECT_EQ(stats().live_bytes, before);
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
    hz_density_is_low(0, {SIZE_MAX / 2, 1}); /* no class is sparse: those are not sent to mailboxes */
    struct hz_shard *shard = hz_shard_claim();
    Blocks blocks = unit::take(shard, 7, 10);
    EXPECT_EQ(stats().cached_bytes, 0U);
    EXPECT_EQ(stats().live_bytes, 10 * hz_class_bytes(7))
        << "the test took them without the bins, so they count as live";
    struct hz_list list = unit::list_of(blocks);
    hz_shard_send(unit::self(), shard, 7, &list);
    EXPECT_EQ(stats().cached_bytes, 10 * hz_class_bytes(7));
    EXPECT_EQ(stats().live_bytes, 0U);
    hz_shard_leave(unit::self(), shard);
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
    EXPECT_GE(stats().free_bytes, 50 * 100 * KiB);
    size_t purged = hz_purge();
    EXPECT_GE(purged, 50 * 100 * KiB);
    EXPECT_EQ(stats().purged_bytes - full.purged_bytes, purged);
    EXPECT_EQ(stats().resident_bytes, 0U) << "nothing is in use here";
    EXPECT_EQ(stats().free_bytes, 0U);
}

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
    t_free(t_malloc(MiB));
    EXPECT_EQ(report()["counters.large_alloc"], large + 1);
    EXPECT_GE(report()["counters.large_free"], 1);
}

} // namespace
