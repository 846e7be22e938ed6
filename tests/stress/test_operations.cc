/*
 * The operations of tests/operations at work: seeded rounds with threads and in lockstep, with few actors and with more
 * than any lane but hz3/p32 has shards. HZ_STRESS_SEED=n runs one seed, to repeat a failure or to vary the run.
 */
#include "operations/run.h"

#include "blocks.h"
#include "operations/broken.h"

#include <gtest/gtest.h>

namespace {

using namespace operations;

class Operations : public testing::TestWithParam<Round> {};

uint64_t chosen_seed(uint64_t seed) {
    const char *chosen = getenv("HZ_STRESS_SEED");
    if (chosen == nullptr)
        return seed;
    char *end = nullptr;
    errno = 0;
    uint64_t read = strtoull(chosen, &end, 10);
    if (errno != 0 || end == chosen || *end != '\0') {
        fprintf(stderr, "HZ_STRESS_SEED is '%s'; allowed: a number from 0 to 2^64 - 1\n", chosen);
        exit(2);
    }
    return read;
}

TEST_P(Operations, ContentsSurvive) {
    Round round = GetParam();
    if (support::tsan && round.actors > 255)
        GTEST_SKIP() << "takes half a minute; 70 threads are enough for the shards of the lanes that TSan tests";
    repeat_install();
    round.seed = chosen_seed(round.seed);
    EXPECT_GT(run_round(t_table, round).steps, round.actors);
}

constexpr uint64_t scaled(uint64_t steps) {
    return support::sanitized ? steps / 10 : steps;
}

INSTANTIATE_TEST_SUITE_P(
    Rounds, Operations,
    testing::Values(Round{Kind::lockstep, 1, 4, scaled(60000)}, Round{Kind::lockstep, 2, 4, scaled(60000)},
                    Round{Kind::threads, 3, 2, scaled(6000)}, Round{Kind::threads, 4, 4, scaled(4000)},
                    Round{Kind::threads, 5, 70, scaled(200)}, Round{Kind::threads, 6, 300, scaled(30)}));

/* Each check of the operations is made to fail once, in lockstep. */
class BrokenAllocator : public testing::TestWithParam<broken::Bug> {};

TEST_P(BrokenAllocator, IsFound) {
    if (t_system)
        GTEST_SKIP() << "needs exact figures of the heap, in which a whole process has its part here";
    if (support::sanitized)
        GTEST_SKIP() << "the checks are the same in every build";
    GTEST_FLAG_SET(death_test_style, "fast");
    t_entries api = t_table;
    GetParam().plant(api);
    repeat_install();
    EXPECT_DEATH(run_round(api, Round{Kind::lockstep, 1, 4, 60000}), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(Bugs, BrokenAllocator, testing::ValuesIn(broken::bugs),
                         [](const testing::TestParamInfo<broken::Bug> &each) { return each.param.name; });

/* The other files of this suite rely on blocks that describe themselves. */
TEST(Blocks, DamageIsDetected) {
    for (size_t size : {size_t{9}, size_t{100}, size_t{1032}, size_t{5000}, 100 * KiB}) {
        for (size_t at : {size_t{8}, size - 1, std::min(size / 2, blocks::front_bytes)}) {
            auto *block = static_cast<unsigned char *>(blocks::make(size, 3));
            ASSERT_TRUE(blocks::intact(block));
            block[std::max<size_t>(at, 8)] ^= 1;
            EXPECT_FALSE(blocks::intact(block)) << "size " << size << " at " << at;
            t_free(block);
        }
    }
}

} // namespace
