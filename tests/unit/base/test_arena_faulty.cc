/* The base layer over an OS that refuses: false or NULL, nothing lost, nothing damaged, and all works again after. */
#include "unit/base/faulty.h"

#include <gtest/gtest.h>

namespace {

using children::require;
using support::MiB;

void nothing() {
}

void init() {
    require(unit_base_init(), "the base can be had");
}

struct unit_arena_figures figures() {
    struct unit_arena_figures got;
    unit_arena_figures_get(&got);
    return got;
}

/* ---- initialisation ---- */

void runs_work() {
    require(unit_base_init(), "a second try succeeds");
    struct unit_run run;
    require(unit_run_alloc(3, 1, &run), "runs can be had");
    char *start = unit_page_address(run.segment, run.first);
    memset(start, 1, 3 * unit_page_bytes);
    require(hz_segment_find(start) == run.segment, "and found");
    hz_arena_run_free(run.segment, run.first);
    require(figures().used_bytes == 0, "and given back");
}

TEST(InitFaulty, CanBeTriedAgain) {
    unit::fail_each_call_both_ways(
        3, nothing, [] { (void)unit_base_init(); }, runs_work);
}

TEST(PageTagFaulty, SmallTableWhenTheFlatOneIsRefused) {
    children::expect_good_end(children::start([] {
        hz_os_faulty_fail(0, 1);
        require(unit_base_init(), "the small table does");
        require(!unit_pagetags_flat(), "small");
        unit::os_works_again();
        void *block = hz_large_alloc(MiB, 1, true);
        require(block != nullptr && unit_pagetag_of(block).size_class == HZ_CLASS_LARGE, "tags are written");
        require(unit_pagetag_of(block).bin == 0, "without a bin");
        struct hz_segment *segment = hz_segment_find(block);
        auto base = reinterpret_cast<uintptr_t>(unit_page_address(segment, 0));
        uintptr_t shared = base ^ ((unit_pagetags_mask() + 1) * unit_page_bytes);
        require(hz_segment_find(reinterpret_cast<void *>(shared)) == nullptr, "an address that shares the entry");
        hz_large_free(block);
        std::vector<void *> blocks;
        for (int i = 0; i < 40; i++) {
            blocks.push_back(hz_large_alloc(3 * MiB, 1, false));
            require(blocks.back() != nullptr, "mappings can be had");
            support::fill(blocks.back(), 3 * MiB, static_cast<uint64_t>(i));
        }
        for (int i = 0; i < 40; i++) {
            require(support::holds(blocks[static_cast<size_t>(i)], 3 * MiB, static_cast<uint64_t>(i)), "contents");
            hz_large_free(blocks[static_cast<size_t>(i)]);
        }
        return 0;
    }));
}

/* ---- runs ---- */

/* Only a part of each page is written: there are many children. */
constexpr size_t mark_bytes = 512;
constexpr unsigned run_count = 60;

struct unit_run held[run_count];
unsigned held_count;

void mark(const struct unit_run &run, uint64_t seed) {
    for (unsigned page = run.first; page < run.first + run.pages; page++)
        support::fill(unit_page_address(run.segment, page), mark_bytes, seed * 64 + page);
}

bool marked(const struct unit_run &run, uint64_t seed) {
    bool yes = true;
    for (unsigned page = run.first; page < run.first + run.pages; page++)
        yes = yes && support::holds(unit_page_address(run.segment, page), mark_bytes, seed * 64 + page);
    return yes;
}

void take_runs() {
    unsigned misses = 0;
    for (held_count = 0; held_count < run_count && misses < 3;) {
        if (!unit_run_alloc(1 + held_count % 7, 1, &held[held_count])) {
            misses++;
            continue;
        }
        const struct unit_run &run = held[held_count];
        mark(run, held_count);
        held_count++;
    }
}

void check_runs() {
    size_t pages = 0;
    for (unsigned i = 0; i < held_count; i++) {
        const struct unit_run &run = held[i];
        pages += run.pages;
        require(marked(run, i), "contents");
    }
    require(figures().used_bytes == pages * unit_page_bytes, "refused runs are not counted as used");
    for (unsigned i = 0; i < held_count; i++)
        hz_arena_run_free(held[i].segment, held[i].first);
    require(figures().used_bytes == 0, "all is given back");
    take_runs();
    require(held_count == run_count, "all works again");
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
        const struct unit_run &run = held[i];
        require(marked(run, i), "contents");
    }
    for (int i = 0; i < 20; i++) {
        struct unit_run run;
        require(unit_run_alloc(1, 1, &run), "runs can be had");
        bool dirty = (run.dirty_mask >> run.first & 1) != 0;
        require(dirty || support::is_zero(unit_page_address(run.segment, run.first), unit_page_bytes),
                "what was not purged is not called clean");
    }
    hz_arena_purge(0, SIZE_MAX);
    require(figures().free_dirty_bytes == 0, "a later purge gets what was refused");
}

TEST(ArenaFaulty, RefusedPurgesKeepTheDirt) {
    auto purge = [] {
        size_t dirty = figures().free_dirty_bytes;
        size_t purged = hz_arena_purge(0, SIZE_MAX);
        require(figures().free_dirty_bytes == dirty - purged, "only what was purged is clean");
    };
    unit::fail_each_call_both_ways(10, dirty_pages, purge, check_purge);
}

/* ---- direct mappings ---- */

char *mapping;
char *resized;

void check_mapping() {
    char *now = resized != nullptr ? resized : mapping;
    if (mapping != nullptr) {
        require(support::holds(now, 5 * MiB, 1), "contents");
        require(hz_large_usable(now) == (resized != nullptr ? 12 * MiB : 5 * MiB),
                "the size is the old or the new one");
        require(figures().direct_count == 1, "one mapping");
        hz_large_free(now);
    }
    require(figures().direct_count == 0 && figures().direct_bytes == 0, "none is left");
    mapping = static_cast<char *>(hz_large_alloc(5 * MiB, 1, true));
    require(mapping != nullptr && support::is_zero(mapping, 5 * MiB), "all works again");
    hz_large_free(mapping);
}

TEST(LargeFaulty, MappingsAreRefusedWhole) {
    auto work = [] {
        mapping = static_cast<char *>(hz_large_alloc(5 * MiB, 1, false));
        if (mapping == nullptr)
            return;
        support::fill(mapping, 5 * MiB, 1);
        resized = static_cast<char *>(hz_large_resize(mapping, 12 * MiB));
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
        hz_arena_purge(0, SIZE_MAX); /* if it was kept for reuse */
        require(hz_segment_find(mapping) == nullptr, "the address is not ours any more");
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
            require(support::is_zero(piece, bytes), "a piece is zero");
            memset(piece, 1, bytes);
        }
    };
    auto check = [] {
        for (int i = 0; i < 10; i++) {
            void *piece = hz_meta_alloc(50000);
            require(piece != nullptr && support::is_zero(piece, 50000), "all works again");
            memset(piece, 1, 50000);
        }
    };
    unit::fail_each_call_both_ways(10, nothing, work, check);
}

TEST(LiveMapFaulty, BlocksHandedOutWithoutAMapAreNeverCalledDead) {
    children::expect_good_end(children::start([] {
        init();
        struct unit_run run;
        require(unit_run_alloc(1, 1, &run), "a run can be had");
        char *block = unit_page_address(run.segment, run.first);
        char *later = block + HZ_GRANULE_BYTES;
        hz_os_faulty_fail(0, UINT64_MAX);
        for (int i = 0; i < 100000 && hz_os_faulty_failures() == 0; i++)
            (void)hz_meta_alloc(16384); /* until there is no memory for a map */
        hz_livemap_add(block);
        require(hz_livemap_remove(block) == HZ_LIVEMAP_OK, "an unwatched block passes");
        hz_livemap_add(block);
        unit::os_works_again();
        hz_livemap_add(later); /* there may be a map from here on */
        require(hz_livemap_remove(block) == HZ_LIVEMAP_OK, "it was live, though nobody could write that down");
        require(hz_livemap_remove(later) == HZ_LIVEMAP_OK, "so is the later one");
        return 0;
    }));
}

} // namespace
