/* What the tests of the arena share: its fixture, and helpers for runs. */
#ifndef TESTS_UNIT_BASE_ARENA_FIXTURE_H
#define TESTS_UNIT_BASE_ARENA_FIXTURE_H

#include "stress/children.h"
#include "unit/base/fixture.h"

#include <gtest/gtest.h>

namespace {

using children::require;
using support::MiB;
using unit::figures;

constexpr uint32_t an_hour_ms = 3600000;

[[maybe_unused]] char *start_of(const struct hz_run &run) {
    return unit::page_address(run.segment, run.first);
}

[[maybe_unused]] size_t bytes_of(const struct hz_run &run) {
    return run.pages * unit::page_bytes;
}

[[maybe_unused]] bool is_dirty(const struct hz_run &run, unsigned page) {
    return (run.dirty_mask >> page & 1) != 0;
}

/* Pages that were not reported dirty read as zero. */
[[maybe_unused]] bool clean_pages_are_zero(const struct hz_run &run) {
    for (unsigned page = run.first; page < run.first + run.pages; page++)
        if (!is_dirty(run, page) && !support::is_zero(unit::page_address(run.segment, page), unit::page_bytes))
            return false;
    return true;
}

constexpr size_t rest_default = 4 * MiB;

/* Lets so much rest until its end. */
class Rests {
  public:
    explicit Rests(size_t bytes) {
        hz_arena_rest_set(bytes);
    }
    ~Rests() {
        hz_arena_rest_set(rest_default);
    }
    Rests(const Rests &) = delete;
    Rests &operator=(const Rests &) = delete;
};

/* Ticks until nothing rests, and for two ticks at least, which forget loops of earlier tests; false if that takes
   longer than two seconds. */
[[maybe_unused]] bool rests_nothing_soon() {
    uint64_t start = hz_os_now_ms();
    hz_arena_tick();
    while (hz_os_now_ms() < start + (hz_arena_resting_bytes() > 0 ? 2000 : 250)) {
        std::this_thread::yield();
        hz_arena_tick();
    }
    return hz_arena_resting_bytes() == 0;
}

[[maybe_unused]] void expect_exact_counts() {
    struct hz_arena_figures now = figures();
    EXPECT_EQ(hz_arena_resting_bytes(), now.free_dirty_bytes);
    EXPECT_EQ(hz_arena_used_bytes(), now.used_bytes + now.direct_bytes);
}

class Arena : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        ASSERT_TRUE(unit::base_init());
    }
    void SetUp() override {
        used_before_ = figures().used_bytes;
    }
    void TearDown() override {
        EXPECT_EQ(figures().used_bytes, used_before_) << "a run was not freed";
    }
    static struct hz_run alloc(unsigned pages, unsigned align_pages = 1) {
        struct hz_run run = {};
        EXPECT_TRUE(hz_arena_run_alloc(pages, align_pages, &run));
        return run;
    }
    static void free(const struct hz_run &run) {
        hz_arena_run_free(run.segment, run.first);
    }

  private:
    size_t used_before_ = 0;
};

} // namespace

#endif
