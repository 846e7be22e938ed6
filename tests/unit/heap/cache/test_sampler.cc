/*
 * Which allocations the sampling guard takes: one in N, whatever the size, the pattern and the thread.
 *
 * A count of samples varies by chance: n allocations have n/N samples, with a standard deviation below sqrt(n/N). The
 * tests allow six standard deviations, which chance exceeds once in 5 * 10^8 times.
 */
#include "stress/children.h"
#include "unit/heap/at_rest.h"
#include "unit/heap/worker.h"

#include <cmath>
#include <functional>
#include <set>

namespace {

using children::require;
using support::KiB;
using support::Random;
using unit::Blocks;

constexpr uint32_t rate = 20;
constexpr size_t samples = support::sanitized ? 600 : 1500; /* that a test expects */
constexpr size_t block_max = HZ_GUARD_BLOCK_MAX;

/* Runs the body in a child whose threads are sampled. */
template <typename Body> void sampled(uint32_t one_in, Body body) {
    children::expect_good_end(children::start([&] {
        require(hz_sample_start(one_in), "there is memory for the pool");
        body();
        return 0;
    }));
}

void require_near(size_t count, double expected, const char *what, size_t size = 0) {
    bool near = std::abs(static_cast<double>(count) - expected) <= 6 * std::sqrt(expected);
    if (!near)
        fprintf(stderr, "%zu samples; expected: about %.0f\n", count, expected);
    require(near, what, size);
}

size_t is_guarded(const void *block) {
    return hz_guard_has(block) ? 1 : 0;
}

/* ---- the rate ---- */

TEST(Sampling, OneInNOfALoopOverOneBlock) {
    for (uint32_t one_in : {1U, 2U, 7U, 100U})
        sampled(one_in, [=] {
            for (size_t size : {size_t{0}, size_t{1}, size_t{16}, size_t{100}, size_t{2 * KiB}, size_t{2 * KiB + 1},
                                size_t{5000}, block_max}) {
                size_t count = 0;
                size_t total = one_in * samples / (one_in == 100 ? 4 : 1);
                for (size_t i = 0; i < total; i++) {
                    void *block = t_malloc(size);
                    count += is_guarded(block);
                    t_free(block);
                }
                require_near(count, static_cast<double>(total) / one_in, "one in N", size);
            }
        });
}

/* The chance of a gap of k is p (1 - p)^(k - 1): the choice has no memory. */
TEST(Sampling, EachAllocationIsChosenForItself) {
    sampled(rate, [] {
        constexpr size_t longest = 60;
        constexpr size_t count = 20000;
        std::vector<size_t> seen(longest + 1);
        size_t gap = 0;
        for (size_t i = 0; i < count;) {
            void *block = t_malloc(64);
            gap++;
            if (is_guarded(block) != 0) {
                seen[std::min(gap, longest)]++;
                gap = 0;
                i++;
            }
            t_free(block);
        }
        double chance = 1.0 / rate;
        double rest = 1;
        for (size_t length = 1; length < longest; length++) {
            require_near(seen[length], count * rest * chance, "gaps of this length", length);
            rest *= 1 - chance;
        }
        require_near(seen[longest], count * rest, "long gaps");
    });
}

/* Calls allocate(i) for `total` numbers and frees each block `held` calls later. Returns the samples. */
size_t ring(size_t total, size_t held, const std::function<void *(size_t)> &allocate) {
    Blocks blocks(held);
    size_t count = 0;
    for (size_t i = 0; i < total; i++) {
        t_free(blocks[i % held]);
        blocks[i % held] = allocate(i);
        count += is_guarded(blocks[i % held]);
    }
    for (void *block : blocks)
        t_free(block);
    return count;
}

TEST(Sampling, OneInNOfARing) {
    sampled(rate * 10, [] {
        for (size_t held : {size_t{2}, size_t{31}, size_t{500}}) {
            size_t total = rate * 10 * samples / 2;
            size_t count = ring(total, held, [](size_t) { return t_malloc(48); });
            require_near(count, static_cast<double>(samples) / 2, "one in N", held);
        }
    });
}

/* Each allocation of a rarely used class is as likely to be sampled. The same holds for a class whose turn comes at a
   fixed place among others, and for aligned ones. */
TEST(Sampling, OneInNOfEachSize) {
    struct Kind {
        size_t period; /* every `period`th allocation is of this kind, unless an earlier kind claims it */
        std::function<void *()> allocate;
    };
    const std::vector<Kind> kinds = {
        {33, [] { return t_malloc(16); }},     {32, [] { return t_malloc(1000); }},
        {9, [] { return t_malloc(8 * KiB); }}, {7, [] { return t_aligned_alloc(256, 300); }},
        {5, [] { return t_malloc(0); }},       {3, [] { return t_calloc(3, 700); }},
        {1, [] { return t_malloc(40); }},
    };
    sampled(rate, [&] {
        std::vector<size_t> total(kinds.size());
        std::vector<size_t> count(kinds.size());
        size_t kind = 0;
        Blocks blocks(40);
        for (size_t i = 0; i < 20 * rate * samples; i++) {
            kind = 0;
            while (i % kinds[kind].period != 0)
                kind++;
            void *&slot = blocks[i % blocks.size()];
            t_free(slot);
            slot = kinds[kind].allocate();
            total[kind]++;
            count[kind] += is_guarded(slot);
        }
        for (kind = 0; kind < kinds.size(); kind++) {
            double expected = static_cast<double>(total[kind]) / rate;
            require_near(count[kind], expected, "one in N of this kind", kind + 1);
        }
    });
}

TEST(Sampling, OneInNOfRandomSizes) {
    sampled(rate * 5, [] {
        Random random(1);
        size_t total = rate * 5 * samples;
        size_t count = ring(total, 200, [&](size_t) { return t_malloc(random.between(1, 3000)); });
        require_near(count, samples, "one in N");
    });
}

TEST(Sampling, BlocksThatDoNotFitAreNotCounted) {
    sampled(1, [] {
        for (size_t size : {block_max + 1, 64 * KiB, 64 * KiB + 1, 3000 * KiB}) {
            void *block = t_malloc(size);
            require(block != nullptr && is_guarded(block) == 0, "it is too large", size);
            t_free(block);
        }
        void *block = t_aligned_alloc(64 * KiB, 100);
        require(block != nullptr && is_guarded(block) == 0, "its alignment is too large");
        t_free(block);
    });
}

/* Each thread makes half a gap of allocations: if a thread's first gap were as long as the others, there would be half
   as many samples. */
TEST(Sampling, OneInNOfShortThreads) {
    sampled(rate, [] {
        std::atomic<size_t> count{0};
        constexpr size_t threads = 4000;
        for (size_t i = 0; i < threads; i++)
            std::thread([&] {
                for (uint32_t k = 0; k < rate / 2; k++) {
                    void *block = t_malloc(32);
                    count += is_guarded(block);
                    t_free(block);
                }
            }).join();
        require_near(count, threads / 2.0, "one in N", threads);
    });
}

TEST(Sampling, OneInNAfterPurges) {
    sampled(rate, [] {
        size_t count = 0;
        constexpr size_t rounds = 4000;
        for (size_t i = 0; i < rounds; i++) {
            count += ring(rate, 3, [](size_t) { return t_malloc(80); });
            hz_heap_purge();
        }
        require_near(count, rounds, "one in N");
    });
}

TEST(Sampling, ChildrenOfAForkChooseForThemselves) {
    sampled(1000, [] {
        std::set<int> firsts;
        t_free(t_malloc(10));
        for (int child = 0; child < 10; child++)
            firsts.insert(children::code_of(children::start([] {
                int i = 0;
                for (int seen = 0; seen < 2; i++) { /* the parent may have chosen the first one already */
                    void *block = t_malloc(10);
                    seen += is_guarded(block) != 0;
                    t_free(block);
                }
                return i % 90;
            })));
        require(firsts.size() > 3, "they do not all sample the same allocation", firsts.size());
    });
}

/* ---- malloc's table of bins ---- */

void require_bins(bool are_empty) {
    struct hz_thread_block *self = unit::self();
    require(self->mid_max == (are_empty ? 0 : HZ_SPREAD_ABOVE_BYTES), "mid classes", self->mid_max);
    for (size_t granules = 1; granules <= HZ_SMALL_MAX / 16; granules++)
        require(self->bin_of[granules] == (are_empty ? 0 : hz_bin_offset(hz_class_of(granules * 16))), "by size",
                granules);
}

TEST(Sampling, IsOffUnlessAskedFor) {
    children::expect_good_end(children::start([] {
        require(!unit::self()->sampling.is_on && hz_guard_rate() == 0 && hz_profile_rate() == 0, "it is off");
        require_bins(false);
        return 0;
    }));
}

TEST(Sampling, IsOnInEveryThreadFromThenOn) {
    children::expect_good_end(children::start([] {
        (void)unit::self();
        std::thread([] { (void)unit::self(); }).join(); /* leaves a thread block from before */
        require(hz_sample_start_profile(64 * KiB), "there is memory for the pool");
        require_bins(true);
        std::thread([] {
            require_bins(true);
            std::thread([] { require_bins(true); }).join();
        }).join();
        return 0;
    }));
}

/* Blocks of all sizes, so many that bins and pages are used; each is written and read. */
TEST(Sampling, GivesEachBlockOnce) {
    sampled(50, [] {
        for (size_t size : {size_t{1}, size_t{16}, size_t{300}, size_t{2000}, size_t{4000}, size_t{12000}}) {
            Blocks blocks;
            for (size_t round = 0; round < 3; round++) {
                for (uint64_t i = 0; i < 1000; i++) {
                    blocks.push_back(t_malloc(size));
                    support::fill(blocks.back(), size, i);
                }
                require(std::set<void *>(blocks.begin(), blocks.end()).size() == blocks.size(), "each is new", size);
                for (uint64_t i = 0; i < blocks.size(); i++)
                    require(support::holds(blocks[i], size, i), "no block overlaps another", size);
                for (void *block : blocks)
                    t_free(block);
                blocks.clear();
            }
        }
    });
}

struct hz_stats stats() {
    struct hz_stats got;
    hz_heap_stats(&got);
    return got;
}

/* ---- guarded blocks in the API ---- */

TEST(Guarded, AreBlocksLikeOthers) {
    sampled(1, [] {
        for (size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{4000}, block_max}) {
            size_t before = stats().live_bytes;
            void *block = t_malloc(size);
            require(is_guarded(block) == 1 && t_usable_size(block) == size, "the size is exact", size);
            require(stats().live_bytes == before + size, "it is live", size);
            require(stats().resident_bytes >= stats().live_bytes, "and resident", size);
            t_free(block);
            require(stats().live_bytes == before, "and freed", size);
            t_free_sized(t_malloc(size), size);
            auto *zeroed = static_cast<char *>(t_calloc(1, size));
            require(is_guarded(zeroed) == 1 && support::is_zero(zeroed, size), "calloc zeroes", size);
            memset(zeroed, 1, size);
            t_free(zeroed);
        }
        void *aligned = t_aligned_alloc(1024, 5000);
        require(is_guarded(aligned) == 1 && support::aligned_to(aligned, 1024), "the alignment is kept");
        t_free_aligned_sized(aligned, 1024, 5000);
        int error = errno = 77;
        t_free(t_malloc(10));
        require(errno == error, "errno stays");
    });
}

TEST(Guarded, AlwaysMoveInRealloc) {
    sampled(1, [] {
        for (size_t size : {size_t{1}, size_t{100}, size_t{112}, size_t{5000}})
            for (size_t other : {size_t{1}, size_t{90}, size_t{100}, size_t{112}, size_t{20000}}) {
                void *block = t_malloc(size);
                support::fill(block, size, size);
                void *moved = t_realloc(block, other);
                require(moved != block, "it moves, so that the old address is watched", size);
                require(t_usable_size(moved) >= other, "to a block that is large enough", other);
                require(support::holds(moved, std::min(size, other) / 8 * 8, size), "with its contents", size);
                t_free(moved);
            }
    });
}

TEST(Guarded, SlotsRunOutWithoutHarm) {
    sampled(1, [] {
        Blocks blocks;
        size_t guarded = 0;
        for (int i = 0; i < 2000; i++) {
            blocks.push_back(t_malloc(100));
            guarded += is_guarded(blocks.back());
        }
        require(guarded == HZ_GUARD_SLOTS, "as many as there are slots", guarded);
        for (void *block : blocks)
            t_free(block);
        void *block = t_malloc(100);
        require(is_guarded(block) == 1, "freed slots are used again");
        t_free(block);
    });
}

} // namespace
