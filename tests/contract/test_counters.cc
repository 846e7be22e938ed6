/*
 * The counters of a report as a program sees them: both formats, the builds that have them, and how calls of the malloc
 * family change them. Unit tests cover what each counter counts internally (unit/heap/test_counters.cc).
 */
#include "api.h"
#include "report.h"
#include "support.h"

#include <gtest/gtest.h>

namespace {

using namespace support;
using report::Names;
using report::Taken;
using report::Values;

class Counters : public testing::Test {
  protected:
    void SetUp() override {
        if (t_table.stats_print_fn == nullptr)
            GTEST_SKIP() << "hz_stats_print does not exist here";
    }
};

/* The counts that `work` adds. Both reports are read only afterwards, so that nothing else is counted. */
template <typename Work> Values counted(Work work) {
    Taken before(HZ_STATS_JSON);
    work();
    Taken after(HZ_STATS_JSON);
    Values first = report::counters_of_json(before.text());
    Values difference;
    for (const auto &[name, value] : report::counters_of_json(after.text()))
        difference[name] = value - first[name];
    EXPECT_FALSE(difference.empty());
    return difference;
}

TEST_F(Counters, BothFormatsSayTheSame) {
    t_free(t_malloc(3000));
    t_free(t_malloc(MiB));
    Taken json(HZ_STATS_JSON);
    Taken text(HZ_STATS_VERBOSE);
    Taken brief(HZ_STATS_TEXT);
    Values values;
    for (const auto &[name, value] : report::counters_of_json(json.text()))
        if (value != 0) /* for people, zeros are left out */
            values[name] = value;
    EXPECT_FALSE(values.empty());
    EXPECT_EQ(report::counters_of_text(text.text()), values);
    EXPECT_EQ(report::counters_of_text(brief.text()), Values()) << "unless asked, there are no counters";
}

TEST_F(Counters, EachGroupHasSome) {
    Names groups;
    for (const auto &each : report::counters_of_json(report::printed(HZ_STATS_JSON)))
        groups.insert(each.first.substr(0, each.first.find('.')));
    EXPECT_EQ(groups, Names({"counters", "mid", "remote", "os", "locks"}));
}

TEST_F(Counters, HotCountersExistOnlyInTheStatsBuild) {
    Values values = report::counters_of_json(report::printed(HZ_STATS_JSON));
    for (const char *name : {"mid.malloc_calls", "mid.alloc_cache_hit", "mid.free_calls", "mid.free_batch_enq"})
        EXPECT_EQ(values.count(name), t_config_has("stats=1") ? 1U : 0U) << name;
}

TEST_F(Counters, EveryCallOfMidSizes) {
    if (!t_config_has("stats=1"))
        GTEST_SKIP() << "counted in the stats build only";
    constexpr size_t count = 100;
    static void *blocks[count];
    Values made = counted([] {
        for (size_t i = 0; i < count; i++)
            blocks[i] = t_malloc(2049 + i * 3000); /* 2 KiB to 300 KiB */
    });
    EXPECT_EQ(made["mid.malloc_calls"], count);
    EXPECT_EQ(made["mid.alloc_cache_hit"] + made["mid.depot_hit"] + made["mid.lock_path"], count)
        << "each call is served in one of three ways";
    EXPECT_EQ(made["mid.bin_hit"] + made["mid.bin_miss"], made["mid.lock_path"]);
    EXPECT_EQ(made["mid.free_calls"], 0);
    Values freed = counted([] {
        for (void *block : blocks)
            t_free(block);
    });
    EXPECT_EQ(freed["mid.free_calls"], count);
    EXPECT_EQ(freed["mid.free_batch_enq"], count);
    EXPECT_EQ(freed["mid.malloc_calls"], 0);
    Values others = counted([] {
        for (size_t size : {size_t{0}, size_t{16}, 2 * KiB, 2 * MiB + 1, 40 * MiB})
            t_free(t_malloc(size));
    });
    EXPECT_EQ(others["mid.malloc_calls"], 0);
    EXPECT_EQ(others["mid.free_calls"], 0);
}

/* A thread that uses one size gets the block that it has just freed, up to 2 MiB. */
TEST_F(Counters, PairsOfOneSizeUseTheCache) {
    if (!t_config_has("stats=1") || t_config_has("fences=1"))
        GTEST_SKIP() << "counted in the stats build only";
    static size_t size;
    for (size_t each : {size_t{3000}, 64 * KiB, 64 * KiB + 1, 100 * KiB, 500 * KiB, MiB, 3 * MiB / 2, 2 * MiB}) {
        size = each;
        for (int i = 0; i < 500; i++) /* until the bins of other sizes have given up their room */
            t_free(t_malloc(size));
        Values values = counted([] {
            for (int i = 0; i < 100; i++)
                t_free(t_malloc(size));
        });
        EXPECT_EQ(values["mid.malloc_calls"], 100) << size;
        EXPECT_EQ(values["mid.alloc_cache_hit"], 100) << size;
        EXPECT_EQ(values["counters.refill"], 0) << size;
        EXPECT_EQ(values["counters.flush"], 0) << size;
        EXPECT_EQ(values["counters.home_blocks"], 0) << size;
        EXPECT_EQ(values["counters.large_alloc"], 0) << size;
    }
}

/* Every function of the family is counted in the same places. */
TEST_F(Counters, EveryFunctionOfTheFamily) {
    if (!t_config_has("stats=1"))
        GTEST_SKIP() << "counted in the stats build only";
    static void *block;
    Values once = {{"mid.malloc_calls", 1}, {"mid.free_calls", 1}};
    auto calls = [](Values values) {
        return Values{{"mid.malloc_calls", values["mid.malloc_calls"]}, {"mid.free_calls", values["mid.free_calls"]}};
    };
    EXPECT_EQ(calls(counted([] { t_free(t_calloc(3, 1000)); })), once);
    EXPECT_EQ(calls(counted([] { t_free(t_realloc(nullptr, 3000)); })), once);
    EXPECT_EQ(calls(counted([] { t_free(t_aligned_alloc(1024, 3000)); })), once);
    EXPECT_EQ(calls(counted([] { t_free_sized(t_malloc(3000), 3000); })), once);
    block = t_malloc(3000);
    EXPECT_EQ(calls(counted([] { block = t_realloc(block, 30000); })), once) << "a move is one malloc and one free";
    t_free(block);
}

TEST_F(Counters, LargeBlocksAndTheirBytes) {
    static size_t usable;
    usable = 0;
    Values values = counted([] {
        for (size_t size : {64 * KiB + 1, MiB, 40 * MiB}) {
            void *block = t_realloc(t_malloc(1), size); /* malloc has classes up to 2 MiB */
            usable += taken_by(block, true);
            t_free(block);
        }
    });
    EXPECT_EQ(values["counters.large_alloc"], 3);
    EXPECT_EQ(values["counters.large_free"], 3);
    EXPECT_EQ(values["os.large_acq"], usable);
    EXPECT_EQ(values["os.large_rel"], usable);
}

} // namespace
