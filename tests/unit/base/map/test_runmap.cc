/* Maps of units: the summaries find each word that has a long enough run, whatever was claimed and released. */
#include "unit/base/fixture.h"

extern "C" {
#include "base/map/runmap.h"
}

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>

namespace {

unsigned longest(uint64_t mask) {
    unsigned best = 0;
    for (unsigned bit = 0, length = 0; bit < 64; bit++) {
        length = (mask >> bit & 1) != 0 ? length + 1 : 0;
        best = std::max(best, length);
    }
    return best;
}

/* What the map has given back; the system refuses on request. */
std::vector<std::pair<uint32_t, uint64_t>> given_back;
bool refuses;

bool give_back(uint32_t index, uint64_t bits, bool /*anew*/) {
    given_back.emplace_back(index, bits);
    return !refuses;
}

class RunMap : public testing::Test {
  protected:
    void make(uint32_t words) {
        size_t bytes = hz_runmap_bytes(words);
        memory_ = std::make_unique<uint64_t[]>((bytes + 7) / 8);
        map_ = {};
        hz_runmap_init(&map_, memory_.get(), words, give_back);
        given_back.clear();
        refuses = false;
        for (words_ = 0; words_ < words; words_++)
            hz_runmap_add(&map_, words_);
    }
    uint64_t free_mask(uint32_t index) {
        return hz_load_rlx(&map_.free_masks[index]);
    }
    uint64_t dirty_mask(uint32_t index) {
        return hz_load_rlx(&map_.dirty_masks[index]);
    }
    /* Whether some word has a free run of that length at a multiple of `align`. */
    bool any_has(unsigned units, unsigned align = 1) {
        for (uint32_t index = 0; index < words_; index++)
            for (unsigned first = 0; first + units <= 64; first += align)
                if ((~free_mask(index) & hz_run_bits(first, units)) == 0)
                    return true;
        return false;
    }
    struct hz_claim claim(unsigned units) {
        struct hz_claim got = {};
        EXPECT_TRUE(hz_runmap_claim(&map_, units, 1, false, &got));
        return got;
    }
    void release(const struct hz_claim &claim) {
        hz_runmap_release(&map_, claim.index, claim.bits);
    }
    void check_counts() {
        size_t used = 0;
        size_t resting = 0;
        for (uint32_t index = 0; index < words_; index++) {
            used += hz_bits_count(~free_mask(index));
            resting += hz_bits_count(free_mask(index) & dirty_mask(index));
        }
        EXPECT_EQ(hz_runmap_used(&map_), used);
        EXPECT_EQ(hz_runmap_resting(&map_), resting);
    }
    /* Each length that the words have is found, and nothing longer. */
    void check_summaries() {
        check_counts();
        unsigned free_best = 0;
        unsigned dirty_best = 0;
        for (uint32_t index = 0; index < words_; index++) {
            free_best = std::max(free_best, longest(free_mask(index)));
            dirty_best = std::max(dirty_best, longest(free_mask(index) & dirty_mask(index)));
        }
        check_best(&map_.free_runs, free_best);
        check_best(&map_.dirty_runs, dirty_best);
    }
    struct hz_runmap map_ = {};
    uint32_t words_ = 0;

  private:
    static void check_best(struct hz_summary *summary, unsigned best) {
        uint32_t index = 0;
        if (best > 0) {
            unsigned length = best;
            EXPECT_TRUE(hz_summary_find(summary, &length, &index)) << best;
            EXPECT_EQ(length, best);
        }
        for (unsigned length = best + 1; length <= 64; length++) {
            unsigned asked = length;
            EXPECT_FALSE(hz_summary_find(summary, &asked, &index)) << length << " where the longest is " << best;
        }
    }
    std::unique_ptr<uint64_t[]> memory_;
};

TEST_F(RunMap, FindsTheLastWordOfMany) {
    constexpr uint32_t words = 3 * 4096 + 70;
    make(words);
    struct hz_claim claim = {};
    for (uint32_t i = 0; i < words; i++) {
        ASSERT_TRUE(hz_runmap_claim(&map_, 64, 1, false, &claim));
        ASSERT_EQ(claim.index, i) << "the first word comes first";
    }
    EXPECT_FALSE(hz_runmap_claim(&map_, 1, 1, false, &claim));
    for (uint32_t index : {words - 1, 4096U, 63U, 64U, 0U}) {
        hz_runmap_release(&map_, index, hz_run_bits(7, 20));
        EXPECT_FALSE(hz_runmap_claim(&map_, 21, 1, false, &claim));
        ASSERT_TRUE(hz_runmap_claim(&map_, 20, 1, false, &claim));
        EXPECT_EQ(claim.index, index);
        EXPECT_EQ(claim.first, 7U);
        EXPECT_FALSE(hz_runmap_claim(&map_, 1, 1, false, &claim)) << "a claimed word is not found again";
    }
}

TEST_F(RunMap, TheShortestRunThatFitsIsTaken) {
    make(3);
    struct hz_claim claim = {};
    for (int i = 0; i < 3; i++)
        ASSERT_TRUE(hz_runmap_claim(&map_, 64, 1, false, &claim));
    hz_runmap_release(&map_, 0, hz_run_bits(0, 30));
    hz_runmap_release(&map_, 1, hz_run_bits(40, 10));
    hz_runmap_release(&map_, 2, hz_run_bits(60, 4));
    ASSERT_TRUE(hz_runmap_claim(&map_, 5, 1, false, &claim));
    EXPECT_EQ(claim.index, 1U);
    ASSERT_TRUE(hz_runmap_claim(&map_, 10, 1, false, &claim));
    EXPECT_EQ(claim.index, 0U);
    ASSERT_TRUE(hz_runmap_claim(&map_, 4, 1, false, &claim));
    EXPECT_EQ(claim.index, 2U);
    check_summaries();
}

TEST_F(RunMap, DirtyUnitsOfAnyWordComeFirst) {
    make(100);
    struct hz_claim claim = {};
    std::vector<struct hz_claim> claims;
    for (int i = 0; i < 100; i++) {
        ASSERT_TRUE(hz_runmap_claim(&map_, 32, 32, false, &claim));
        claims.push_back(claim);
    }
    hz_runmap_release(&map_, claims[90].index, claims[90].bits);
    ASSERT_TRUE(hz_runmap_claim(&map_, 30, 1, false, &claim));
    EXPECT_EQ(claim.index, claims[90].index) << "clean words before it have room too";
    EXPECT_EQ(claim.dirty & claim.bits, claim.bits);
    hz_runmap_clean(&map_, claim.index, claim.bits);
    hz_runmap_release(&map_, claim.index, claim.bits);
    ASSERT_TRUE(hz_runmap_claim_bits(&map_, claim.index, claim.bits, &claim));
    EXPECT_EQ(claim.dirty & claim.bits, 0U) << "they were cleaned";
    EXPECT_FALSE(hz_runmap_claim_bits(&map_, claim.index, claim.bits, &claim)) << "they are taken";
    check_summaries();
}

TEST_F(RunMap, AlignedRuns) {
    make(8);
    struct hz_claim claim = {};
    ASSERT_TRUE(hz_runmap_claim(&map_, 1, 1, false, &claim));
    for (unsigned align = 1; align <= 64; align *= 2) {
        ASSERT_TRUE(hz_runmap_claim(&map_, 1, align, false, &claim));
        EXPECT_EQ(claim.first % align, 0U);
    }
    check_summaries();
}

TEST_F(RunMap, RandomClaimsMatchTheMasks) {
    make(130);
    support::Random random(1);
    std::vector<struct hz_claim> held;
    for (unsigned i = 0; i < unit::rounds(20000); i++) {
        if (random.below(2) == 0 || held.empty()) {
            struct hz_claim claim = {};
            unsigned units = static_cast<unsigned>(random.between(1, 40));
            bool found = hz_runmap_claim(&map_, units, 1, false, &claim);
            ASSERT_EQ(hz_bits_count(claim.bits), found ? units : 0);
            if (found)
                held.push_back(claim);
            else
                ASSERT_FALSE(any_has(units));
        } else {
            size_t index = random.below(held.size());
            if (random.below(3) == 0)
                hz_runmap_clean(&map_, held[index].index, held[index].bits);
            hz_runmap_release(&map_, held[index].index, held[index].bits);
            held[index] = held.back();
            held.pop_back();
        }
        if (i % 500 == 0)
            check_summaries();
    }
    check_summaries();
}

/* A search by length alone would meet one of the holes without an aligned part, and take it for all. */
TEST_F(RunMap, UnalignedHolesHideNoAlignedOne) {
    constexpr uint32_t words = 4096 + 300;
    make(words);
    struct hz_claim claim = {};
    for (uint32_t i = 0; i < words; i++)
        ASSERT_TRUE(hz_runmap_claim(&map_, 64, 1, false, &claim));
    for (uint32_t i = 0; i < words; i++)
        hz_runmap_release(&map_, i, hz_run_bits(i % 3 == 0 ? 5 : 1, 8)); /* longer than asked for, but not aligned */
    EXPECT_FALSE(hz_runmap_claim(&map_, 8, 8, true, &claim));
    for (uint32_t index : {words - 1, 4095U, 63U, 0U}) {
        hz_runmap_release(&map_, index, hz_run_bits(40, 8));
        ASSERT_TRUE(hz_runmap_claim(&map_, 8, 8, true, &claim)) << "word " << index;
        EXPECT_EQ(claim.index, index);
        EXPECT_EQ(claim.first, 40U);
    }
    hz_runmap_release(&map_, 1234, hz_run_bits(41, 15)); /* so long a run has an aligned part wherever it begins */
    ASSERT_TRUE(hz_runmap_claim(&map_, 8, 8, false, &claim)) << "a claim that is not thorough finds it, too";
    EXPECT_EQ(claim.first, 48U);
    hz_runmap_release(&map_, 1234, claim.bits);
    EXPECT_TRUE(hz_runmap_claim(&map_, 8, 8, false, &claim));
    hz_runmap_release(&map_, 4000, hz_run_bits(48, 8));
    unsigned calls = 0;
    while (!hz_runmap_claim(&map_, 8, 8, false, &claim))
        ASSERT_LT(calls++, words) << "each claim looks at other words than the one before";
    EXPECT_GT(calls, 0U) << "one claim looks at few words";
    EXPECT_EQ(claim.index, 4000U);
}

TEST_F(RunMap, RandomAlignedClaimsMatchTheMasks) {
    make(70);
    support::Random random(2);
    std::vector<struct hz_claim> held;
    unsigned misses = 0;
    for (unsigned i = 0; i < unit::rounds(20000); i++) {
        if (random.below(5) < 3 || held.empty()) {
            struct hz_claim claim = {};
            unsigned align = 1U << random.below(7);
            unsigned units = static_cast<unsigned>(random.between(1, random.below(4) == 0 ? 64 : 12));
            bool has = any_has(units, align);
            ASSERT_EQ(hz_runmap_claim(&map_, units, align, true, &claim), has) << units << " at " << align;
            misses += has ? 0 : 1;
            if (has) {
                ASSERT_EQ(claim.first % align, 0U);
                ASSERT_EQ(claim.bits, hz_run_bits(claim.first, units));
                held.push_back(claim);
            }
        } else {
            size_t index = random.below(held.size());
            if (random.below(3) == 0)
                hz_runmap_clean(&map_, held[index].index, held[index].bits);
            hz_runmap_release(&map_, held[index].index, held[index].bits);
            held[index] = held.back();
            held.pop_back();
        }
    }
    check_summaries();
    EXPECT_GT(misses, unit::rounds(20000) / 50) << "the map is nearly full, as a rule";
}

/* Threads claim and release units of few words, so that they meet in the same nodes. Afterwards nothing is hidden. */
TEST_F(RunMap, ThreadsHideNothing) {
    for (unsigned round = 0; round < unit::rounds(40); round++) {
        make(66);
        unit::together(4, [&](unsigned index) {
            support::Random random(round * 4 + index);
            std::vector<struct hz_claim> held;
            for (unsigned i = 0; i < 400; i++) {
                struct hz_claim claim = {};
                if (random.below(2) == 0 &&
                    hz_runmap_claim(&map_, static_cast<unsigned>(random.between(20, 64)), 1, false, &claim)) {
                    held.push_back(claim);
                } else if (!held.empty()) {
                    hz_runmap_release(&map_, held.back().index, held.back().bits);
                    held.pop_back();
                }
            }
            for (const struct hz_claim &claim : held)
                hz_runmap_release(&map_, claim.index, claim.bits);
        });
        struct hz_claim claim = {};
        for (unsigned i = 0; i < 66; i++)
            ASSERT_TRUE(hz_runmap_claim(&map_, 64, 1, false, &claim)) << "word " << i << " of 66 is hidden";
        EXPECT_FALSE(hz_runmap_claim(&map_, 1, 1, false, &claim)) << "ends, and drops leaves that are old";
        check_summaries();
    }
}

/* What a fork's child sees if a thread was between two steps: the leaf without the bits above, or no leaf at all. */
TEST_F(RunMap, RepairFindsWhatAVanishedThreadLeft) {
    make(70);
    struct hz_claim claim = {};
    for (int i = 0; i < 70; i++)
        ASSERT_TRUE(hz_runmap_claim(&map_, 64, 1, false, &claim));
    hz_or_rel(&map_.free_masks[65], UINT64_C(0xff)); /* released, not classified */
    EXPECT_FALSE(hz_runmap_claim(&map_, 8, 1, false, &claim));
    hz_store_rel(&map_.longest[3], uint16_t{4}); /* classified, but the summary has no bit yet */
    hz_or_rel(&map_.free_masks[3], UINT64_C(0xf0));
    hz_runmap_repair(&map_, 70);
    check_counts();
    ASSERT_TRUE(hz_runmap_claim(&map_, 8, 1, false, &claim));
    EXPECT_EQ(claim.index, 65U);
    ASSERT_TRUE(hz_runmap_claim(&map_, 4, 1, false, &claim));
    EXPECT_EQ(claim.index, 3U);
    check_summaries();
}

TEST_F(RunMap, NextFindsEachWordThatHasResting) {
    constexpr uint32_t words = 2 * 4096 + 3;
    make(words);
    uint32_t found = 0;
    EXPECT_FALSE(hz_summary_next(&map_.dirty_runs, 1, 64, 0, &found));
    const std::vector<uint32_t> some = {0, 1, 63, 64, 200, 4095, 4096, 8191, 8194};
    for (uint32_t index : some) {
        struct hz_claim claim = {};
        ASSERT_TRUE(hz_runmap_claim_bits(&map_, index, hz_run_bits(index % 60, 1 + index % 4), &claim));
        release(claim);
    }
    std::vector<uint32_t> seen;
    for (uint32_t from = 0; hz_summary_next(&map_.dirty_runs, 1, 64, from, &found); from = found + 1)
        seen.push_back(found);
    EXPECT_EQ(seen, some);
    EXPECT_FALSE(hz_summary_next(&map_.dirty_runs, 1, 64, words, &found));
}

TEST_F(RunMap, PurgesAllOrAsManyAsWanted) {
    make(3);
    struct hz_claim a = claim(64);
    struct hz_claim b = claim(10);
    release(a);
    release(b);
    check_counts();
    EXPECT_EQ(hz_runmap_purge_all(&map_, 5), 5U);
    EXPECT_EQ(hz_runmap_resting(&map_), 69U);
    EXPECT_EQ(hz_runmap_purge_all(&map_, SIZE_MAX), 69U);
    EXPECT_EQ(hz_runmap_resting(&map_), 0U);
    EXPECT_EQ(hz_runmap_purge_all(&map_, SIZE_MAX), 0U);
    check_summaries();
    uint64_t bits = 0;
    for (const auto &[index, some] : given_back)
        bits |= index == a.index ? some : 0;
    EXPECT_EQ(bits, a.bits);
}

TEST_F(RunMap, RefusedUnitsStayDirty) {
    make(1);
    release(claim(7));
    refuses = true;
    EXPECT_EQ(hz_runmap_purge_all(&map_, SIZE_MAX), 0U);
    EXPECT_EQ(given_back.size(), 1U) << "one run, tried once";
    EXPECT_EQ(hz_runmap_resting(&map_), 7U);
    EXPECT_EQ(hz_runmap_purge_oldest(&map_, 3), 0U) << "ends";
    EXPECT_EQ(hz_runmap_resting(&map_), 7U);
    check_summaries();
}

/* Without a delay, two looks are enough. Neighbours come and go in between. */
TEST_F(RunMap, UnitsThatRestedArePurgedAlthoughNeighboursAreUsed) {
    make(1);
    struct hz_claim old = claim(4);
    struct hz_claim busy = claim(2);
    release(old);
    release(busy);
    EXPECT_EQ(hz_runmap_purge_rested(&map_, 0, SIZE_MAX), 0U) << "the first look";
    ASSERT_TRUE(hz_runmap_claim_bits(&map_, busy.index, busy.bits, &busy));
    release(busy);
    EXPECT_EQ(hz_runmap_purge_rested(&map_, 0, SIZE_MAX), 4U) << "the busy ones were claimed since";
    EXPECT_EQ(dirty_mask(0), busy.bits);
    EXPECT_EQ(hz_runmap_purge_rested(&map_, 3600000, SIZE_MAX), 0U) << "too early for a look";
    EXPECT_EQ(hz_runmap_purge_rested(&map_, 0, 1), 1U) << "no more than wanted";
    EXPECT_EQ(hz_runmap_purge_rested(&map_, 0, SIZE_MAX), 1U) << "goes on where it ended";
    check_summaries();
}

TEST_F(RunMap, LooksAtAllWordsInTurns) {
    make(3000);
    for (uint32_t index = 0; index < 3000; index++) {
        struct hz_claim claim = {};
        ASSERT_TRUE(hz_runmap_claim_bits(&map_, index, 6, &claim));
        release(claim);
    }
    unsigned calls = 0;
    while (hz_runmap_resting(&map_) > 0 && calls < 100) {
        hz_runmap_purge_rested(&map_, 0, SIZE_MAX);
        calls++;
    }
    EXPECT_EQ(hz_runmap_resting(&map_), 0U);
    EXPECT_GT(calls, 3U) << "a call looks at a limited number of words";
    check_summaries();
}

TEST_F(RunMap, TheOldestWordIsPurgedFirst) {
    make(6);
    std::vector<struct hz_claim> claims;
    for (int i = 0; i < 6; i++)
        claims.push_back(claim(64));
    for (uint32_t i = 0; i < 6; i++) {
        release(claims[i]);
        /* as if the words were freed into at different times, the fourth one first */
        hz_store_rlx(&map_.freed_at_ms[i], static_cast<uint32_t>(hz_os_now_ms()) - (i == 3 ? 1000 : 100 + i));
    }
    EXPECT_EQ(hz_runmap_purge_oldest(&map_, 64), 64U);
    EXPECT_EQ(dirty_mask(3), 0U);
    EXPECT_EQ(hz_runmap_purge_oldest(&map_, 65), 65U);
    EXPECT_EQ(dirty_mask(5), 0U) << "then the next one";
    EXPECT_EQ(hz_runmap_resting(&map_), 4U * 64 - 1);
    check_summaries();
}

} // namespace
