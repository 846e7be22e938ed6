/* Random numbers: how many tries it takes until one succeeds. */
#include "unit/base/fixture.h"

#include <cmath>
#include <gtest/gtest.h>
#include <set>

namespace {

constexpr uint64_t draws = 200000;

TEST(Random, NumbersDifferByTheirState) {
    uint64_t one = 1;
    uint64_t other = 2;
    uint64_t ones = 0;
    for (uint64_t i = 0; i < draws; i++) {
        uint64_t number = hz_random_next(&one);
        ASSERT_NE(number, hz_random_next(&other));
        ones += static_cast<uint64_t>(__builtin_popcountll(number));
    }
    EXPECT_NEAR(static_cast<double>(ones), 32.0 * draws, 6 * 4 * std::sqrt(draws)) << "half of the bits are 1";
}

/* Mean N, and the chance of more than k tries is (1 - 1/N)^k. */
TEST(Random, TriesHaveNoMemory) {
    for (uint32_t rate : {2U, 3U, 20U, 5000U, 1000000000U}) {
        uint64_t state = rate;
        double sum = 0;
        uint64_t more[5] = {};
        double p = 1.0 / rate;
        for (uint64_t i = 0; i < draws; i++) {
            uint64_t tries = hz_random_tries(&state, rate);
            ASSERT_GE(tries, 1U);
            sum += static_cast<double>(tries);
            for (uint64_t part = 0; part < 5; part++)
                more[part] += tries > (part + 1) * rate / 2;
        }
        double deviation = std::sqrt((1 - p) / (p * p) * draws);
        EXPECT_NEAR(sum, static_cast<double>(rate) * draws, 6 * deviation) << "rate " << rate;
        for (uint64_t part = 0; part < 5; part++) {
            double chance = std::exp(std::log1p(-p) * static_cast<double>((part + 1) * rate / 2));
            EXPECT_NEAR(static_cast<double>(more[part]), chance * draws, 6 * std::sqrt(chance * (1 - chance) * draws))
                << "rate " << rate << ", more than " << (part + 1) * rate / 2;
        }
    }
}

/* The chance of a gap of k or more is exp(-k/mean). */
TEST(Random, GapsHaveNoMemory) {
    for (uint64_t mean : {uint64_t{1}, uint64_t{100}, uint64_t{512} << 10, uint64_t{1} << 30}) {
        uint64_t state = mean;
        uint64_t shorter[5] = {};
        for (uint64_t i = 0; i < draws; i++) {
            uint64_t gap = hz_random_gap(&state, mean);
            for (uint64_t part = 0; part < 5; part++)
                shorter[part] += gap < (part + 1) * mean;
        }
        for (uint64_t part = 0; part < 5; part++) {
            double chance = hz_random_chance((part + 1) * mean, mean);
            EXPECT_NEAR(static_cast<double>(shorter[part]), chance * draws,
                        6 * std::sqrt(chance * (1 - chance) * draws))
                << "mean " << mean << ", below " << part + 1 << " times that";
        }
    }
}

TEST(Random, ChanceIsExact) {
    for (uint64_t mean : {uint64_t{1}, uint64_t{7}, uint64_t{512} << 10, uint64_t{1} << 30})
        for (uint64_t length = 1; length < uint64_t{1} << 40; length += 1 + length / 3) {
            double exact = -std::expm1(-static_cast<double>(length) / static_cast<double>(mean));
            EXPECT_NEAR(hz_random_chance(length, mean) / exact, 1, 1e-12) << length << " of " << mean;
        }
}

TEST(Random, EachTrySucceedsAtRateOne) {
    uint64_t state = 1;
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(hz_random_tries(&state, 1), 1U);
}

TEST(Random, TheSystemsDiffer) {
    uint64_t numbers[4] = {};
    for (uint64_t &number : numbers)
        hz_os_random(&number, sizeof number);
    EXPECT_EQ(std::set<uint64_t>(numbers, numbers + 4).size(), 4U);
}

} // namespace
