/* When the OS refuses calls, the base layer returns false or NULL, loses nothing, and works again later. */
#include "unit/base/faulty.h"

#include <gtest/gtest.h>

namespace {

using children::require;
using support::MiB;
using unit::figures;

void nothing() {
}

void init() {
    require(unit::base_init(), "the base starts");
}

/* ---- initialisation ---- */

void runs_work() {
    require(unit::base_init(), "a second attempt succeeds");
    struct hz_run run;
    require(hz_arena_run_alloc(3, 1, &run), "a run can be allocated");
    char *start = unit::page_address(run.segment, run.first);
    memset(start, 1, 3 * unit::page_bytes);
    require(hz_segment_find(start) == run.segment, "the run is found by its address");
    hz_arena_run_free(run.segment, run.first);
    require(figures().used_bytes == 0, "the run is freed");
}

TEST(InitFaulty, CanBeTriedAgain) {
    unit::fail_each_call_both_ways(
        3, nothing, [] { (void)unit::base_init(); }, runs_work);
}

TEST(PageTagFaulty, SmallTableWhenTheFlatOneIsRefused) {
    children::expect_good_end(children::start([] {
        hz_os_faulty_fail(0, 1);
        require(unit::base_init(), "the small table is enough");
        require(!hz_pagetags.flat, "the table is small");
        unit::os_works_again();
        void *block = hz_large_alloc(MiB, 1, true);
        require(block != nullptr && hz_pagetag_class(block) == HZ_CLASS_LARGE, "the block has its tag");
        require(hz_load_rlx(&hz_pagetag_of(block)->bin) == 0, "the tag has no bin");
        struct hz_segment *segment = hz_segment_find(block);
        auto base = reinterpret_cast<uintptr_t>(unit::page_address(segment, 0));
        uintptr_t shared = base ^ ((hz_pagetags.mask + 1) * unit::page_bytes);
        require(hz_segment_find(reinterpret_cast<void *>(shared)) == nullptr,
                "an address that shares the table entry is not ours");
        hz_large_free(block);
        std::vector<void *> blocks;
        for (int i = 0; i < 40; i++) {
            blocks.push_back(hz_large_alloc(3 * MiB, 1, false));
            require(blocks.back() != nullptr, "a mapping can be allocated");
            support::fill(blocks.back(), 3 * MiB, static_cast<uint64_t>(i));
        }
        for (int i = 0; i < 40; i++) {
            require(support::holds(blocks[static_cast<size_t>(i)], 3 * MiB, static_cast<uint64_t>(i)),
                    "contents are intact");
            hz_large_free(blocks[static_cast<size_t>(i)]);
        }
        return 0;
    }));
}

/* ---- runs ---- */

/* Each page is written only in part, because there are many children. */
constexpr size_t mark_bytes = 512;
constexpr unsigned run_count = 60;

struct hz_run held[run_count];
unsigned held_count;

void mark(const struct hz_run &run, uint64_t seed) {
    for (unsigned page = run.first; page < run.first + run.pages; page++)
        support::fill(unit::page_address(run.segment, page), mark_bytes, seed * 64 + page);
}

bool marked(const struct hz_run &run, uint64_t seed) {
    bool yes = true;
    for (unsigned page = run.first; page < run.first + run.pages; page++)
        yes = yes && support::holds(unit::page_address(run.segment, page), mark_bytes, seed * 64 + page);
    return yes;
}

void take_runs() {
    unsigned misses = 0;
    for (held_count = 0; held_count < run_count && misses < 3;) {
        if (!hz_arena_run_alloc(1 + held_count % 7, 1, &held[held_count])) {
            misses++;
            continue;
        }
        const struct hz_run &run = held[held_count];
        mark(run, held_count);
        held_count++;
    }
}

void check_runs() {
    size_t pages = 0;
    for (unsigned i = 0; i < held_count; i++) {
        const struct hz_run &run = held[i];
        pages += run.pages;
        require(marked(run, i), "contents are intact");
    }
    require(figures().used_bytes == pages * unit::page_bytes, "a refused run does not count as used");
    for (unsigned i = 0; i < held_count; i++)
        hz_arena_run_free(held[i].segment, held[i].first);
    require(figures().used_bytes == 0, "everything is freed");
    take_runs();
    require(held_count == run_count, "allocation works again");
}

TEST(ArenaFaulty, RunsAreRefusedWhole) {
    unit::fail_each_call_both_ways(5, init, take_runs, check_runs);
}

/* ---- purge ---- */

void dirty_pages() {
    init();
    take_runs();
    for (unsigned i = 0; i < held_count; i += 2)
        hz_arena_run_free(held[i].segment, held[i].first);
}

void check_purge() {
    for (unsigned i = 1; i < held_count; i += 2) {
        const struct hz_run &run = held[i];
        require(marked(run, i), "contents are intact");
    }
    for (int i = 0; i < 20; i++) {
        struct hz_run run;
        require(hz_arena_run_alloc(1, 1, &run), "a run can be allocated");
        bool dirty = (run.dirty_mask >> run.first & 1) != 0;
        require(dirty || support::is_zero(unit::page_address(run.segment, run.first), unit::page_bytes),
                "a page that was not purged is not called clean");
    }
    hz_arena_purge(0, SIZE_MAX);
    require(figures().free_dirty_bytes == 0, "a later purge gives back what was refused");
}

TEST(ArenaFaulty, RefusedPurgesKeepTheDirt) {
    auto purge = [] {
        size_t dirty = figures().free_dirty_bytes;
        size_t purged = hz_arena_purge(0, SIZE_MAX);
        require(figures().free_dirty_bytes == dirty - purged, "only purged pages are clean");
    };
    unit::fail_each_call_both_ways(10, dirty_pages, purge, check_purge);
}

/* ---- direct mappings ---- */

char *mapping;
char *resized;

void check_mapping() {
    char *now = resized != nullptr ? resized : mapping;
    if (mapping != nullptr) {
        require(support::holds(now, 5 * MiB, 1), "contents are intact");
        require(hz_large_usable(now) == (resized != nullptr ? 12 * MiB : 5 * MiB),
                "the size is the old one or the new one");
        require(figures().direct_count == 1, "there is one mapping");
        hz_large_free(now);
    }
    require(figures().direct_count == 0 && figures().direct_bytes == 0, "no mapping is left");
    mapping = static_cast<char *>(hz_large_alloc(5 * MiB, 1, true));
    require(mapping != nullptr && support::is_zero(mapping, 5 * MiB), "allocation works again");
    hz_large_free(mapping);
}

TEST(LargeFaulty, MappingsAreRefusedWhole) {
    auto work = [] {
        mapping = static_cast<char *>(hz_large_alloc(5 * MiB, 1, false));
        if (mapping == nullptr)
            return;
        support::fill(mapping, 5 * MiB, 1);
        resized = static_cast<char *>(hz_large_resize(mapping, 12 * MiB, true));
    };
    unit::fail_each_call_both_ways(3, init, work, check_mapping);
}

TEST(LargeFaulty, RefusedUnmapsLoseAddressSpaceOnly) {
    auto prepare = [] {
        init();
        mapping = static_cast<char *>(hz_large_alloc(5 * MiB, 1, false));
        support::fill(mapping, 5 * MiB, 1);
    };
    auto work = [] {
        hz_large_free(mapping);
        hz_arena_purge(0, SIZE_MAX); /* in case it was kept for reuse */
        require(hz_segment_find(mapping) == nullptr, "the address is no longer ours");
        mapping = nullptr;
    };
    unit::fail_each_call_both_ways(1, prepare, work, check_mapping);
}

/* ---- meta ---- */

TEST(MetaFaulty, RefusesAndWorksAgain) {
    auto work = [] {
        for (unsigned i = 0; i < 60; i++) {
            size_t bytes = 1000 + (i % 10) * 10000;
            void *piece = hz_meta_alloc(bytes);
            if (piece == nullptr)
                continue;
            require(support::is_zero(piece, bytes), "the piece is zero");
            memset(piece, 1, bytes);
        }
    };
    auto check = [] {
        for (int i = 0; i < 10; i++) {
            void *piece = hz_meta_alloc(50000);
            require(piece != nullptr && support::is_zero(piece, 50000), "allocation works again");
            memset(piece, 1, 50000);
        }
    };
    unit::fail_each_call_both_ways(10, nothing, work, check);
}

TEST(LiveMapFaulty, BlocksHandedOutWithoutAMapAreNeverCalledDead) {
    children::expect_good_end(children::start([] {
        init();
        struct hz_run run;
        require(hz_arena_run_alloc(1, 1, &run), "a run can be allocated");
        char *block = unit::page_address(run.segment, run.first);
        char *later = block + HZ_GRANULE_BYTES;
        hz_os_faulty_fail(0, UINT64_MAX);
        for (int i = 0; i < 100000 && hz_os_faulty_failures() == 0; i++)
            (void)hz_meta_alloc(16384); /* until no memory is left for a map */
        hz_livemap_add(block);
        require(hz_livemap_remove(block) == HZ_LIVEMAP_OK, "a block without a map passes");
        hz_livemap_add(block);
        unit::os_works_again();
        hz_livemap_add(later); /* from here on there can be a map */
        require(hz_livemap_remove(block) == HZ_LIVEMAP_OK, "the block was live, though there was no map to record it");
        require(hz_livemap_remove(later) == HZ_LIVEMAP_OK, "the later block was live too");
        return 0;
    }));
}

} // namespace
