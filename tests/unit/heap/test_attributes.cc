/* What the program tells the kernel about a block ends when the block is given back, whichever way it goes. */
#include "unit/heap/fixture.h"

#include <algorithm>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {
#include "base/arena/arena.h"
#include "base/arena/attributes.h"
#include "base/arena/large.h"
#include "base/arena/trim.h"
#include "base/map/budget.h"
#include "heap/threads/zone.h"
}

namespace {

size_t os_page() {
    return hz_os_page_bytes();
}

/* The program makes a block's whole system pages read-only, if it has any. */
void protect(void *block, size_t bytes) {
    uintptr_t first = hz_round_up(reinterpret_cast<uintptr_t>(block), os_page());
    uintptr_t behind = (reinterpret_cast<uintptr_t>(block) + bytes) & ~(os_page() - 1);
    if (behind <= first)
        return;
    hz_attributes_note(reinterpret_cast<void *>(first), behind - first);
    ASSERT_EQ(mprotect(reinterpret_cast<void *>(first), behind - first, PROT_READ), 0);
}

/* Writing to read-only memory fails, which read() tells without a signal. */
bool is_writable(const void *address) {
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], "x", 1) != 1)
        abort();
    bool done = read(ends[0], const_cast<void *>(address), 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return done;
}

bool are_writable(const void *block, size_t bytes) {
    for (size_t at = 0; at < bytes; at += os_page())
        if (!is_writable(static_cast<const char *>(block) + at))
            return false;
    return true;
}

TEST(Attributes, MarksAreFoundInRuns) {
    static struct hz_altered altered;
    static hz_huge_units units;
    constexpr size_t pages = 256;
    if (pages * os_page() > HZ_SEGMENT_BYTES)
        GTEST_SKIP() << "a segment has fewer system pages here";
    char *base = static_cast<char *>(hz_os_map(pages * os_page(), os_page(), false));
    ASSERT_NE(base, nullptr);
    ASSERT_EQ(mprotect(base, pages * os_page(), PROT_READ), 0);
    /* one run within a word, one across words, one of a whole word and more, and the last page */
    const size_t runs[][2] = {{3, 5}, {60, 70}, {128, 200}, {255, 256}};
    for (const size_t *run : runs)
        hz_altered_mark(&altered, run[0] * os_page(), (run[1] - run[0]) * os_page());
    EXPECT_TRUE(hz_altered_heal(&altered, &units, base, 4 * os_page(), (pages - 4) * os_page()));
    for (size_t page = 0; page < pages; page++) {
        bool is_marked = false;
        for (const size_t *run : runs)
            is_marked |= page >= run[0] && page < run[1];
        EXPECT_EQ(is_writable(base + page * os_page()), is_marked && page >= 4) << page;
    }
    ASSERT_TRUE(hz_os_unmap(base, pages * os_page()));
}

TEST(Attributes, ABlockOfEachClassIsHealed) {
    std::vector<size_t> sizes;
    for (size_t bytes = os_page(); bytes <= HZ_RUN_ABOVE_BYTES; bytes += os_page() / 2)
        sizes.push_back(bytes);
    for (unsigned size_class = HZ_LONG_CLASS_FIRST; size_class < unit::class_count; size_class++)
        sizes.push_back(hz_class_bytes(size_class));
    for (size_t bytes : sizes) {
        if (bytes > HZ_RUN_ABOVE_BYTES) /* all bins of long blocks together have too little room */
            hz_room_set(unit::self(), hz_class_of(bytes), 2);
        void *block = hz_heap_aligned(1, bytes);
        ASSERT_NE(block, nullptr);
        size_t usable = hz_class_bytes(hz_class_of(bytes));
        memset(block, 1, usable);
        protect(block, usable);
        hz_heap_free(block);
        void *again = hz_heap_aligned(1, bytes);
        EXPECT_EQ(again, block);
        EXPECT_TRUE(are_writable(again, usable)) << bytes;
        hz_heap_free(again);
        if (bytes > HZ_RUN_ABOVE_BYTES) {
            hz_bin_send_home(unit::self(), hz_class_of(bytes));
            hz_room_set(unit::self(), hz_class_of(bytes), 0);
        }
    }
}

/* A long block for which no bin has room goes to its page, and its memory to the arena. */
TEST(Attributes, ALongBlockThatGoesHomeAtOnceIsHealed) {
    for (unsigned size_class : unit::some_long_classes()) {
        size_t bytes = hz_class_bytes(size_class);
        struct hz_shard *shard = unit::self()->shard;
        void *block = unit::take(shard, size_class, 1)[0];
        memset(block, 1, bytes);
        protect(block, bytes);
        hz_bin_send_home(unit::self(), size_class);
        hz_room_set(unit::self(), size_class, 0);
        hz_free_slow(block);
        hz_bin_send_home(unit::self(), size_class);
        EXPECT_TRUE(are_writable(block, bytes)) << bytes;
    }
}

/* Free looks at the tag of the page in which a block begins, not at that of the page which was changed. */
TEST(Attributes, AChangeBehindTheFirstPageIsHealed) {
    for (size_t bytes : {size_t{48} << 10, size_t{72} << 10, size_t{512} << 10, size_t{1} << 20, size_t{2} << 20}) {
        for (int i = 0; i < 400; i++) /* then the bin's frees are no longer looked at */
            hz_heap_free(hz_heap_malloc(bytes));
        for (size_t quarter : {1U, 2U, 3U}) {
            char *block = static_cast<char *>(hz_heap_malloc(bytes));
            ASSERT_NE(block, nullptr);
            protect(block + quarter * bytes / 4, bytes / 4);
            hz_heap_free(block);
            std::vector<void *> others;
            bool is_back = false;
            for (int i = 0; i < 20 && !is_back; i++) {
                others.push_back(hz_heap_malloc(bytes));
                ASSERT_TRUE(are_writable(others.back(), bytes)) << bytes << " at " << quarter;
                is_back = others.back() == block;
            }
            for (void *other : others)
                hz_heap_free(other);
        }
    }
}

TEST(Attributes, ATailThatGoesBackIsHealed) {
    for (size_t bytes : {size_t{1} << 20, size_t{30} << 20}) {
        char *block = static_cast<char *>(hz_large_alloc(bytes, 1, false));
        ASSERT_NE(block, nullptr);
        protect(block, bytes);
        ASSERT_EQ(hz_large_resize(block, bytes / 4, false), block);
        void *tail = nullptr;
        std::vector<void *> others;
        for (int i = 0; i < 200 && tail == nullptr; i++) {
            char *other = static_cast<char *>(hz_large_alloc(bytes / 4, 1, false));
            ASSERT_NE(other, nullptr);
            others.push_back(other);
            if (other > block && other < block + bytes)
                tail = other;
        }
        ASSERT_NE(tail, nullptr) << "nobody got the tail";
        EXPECT_TRUE(are_writable(tail, bytes / 4));
        EXPECT_FALSE(is_writable(block)) << "the rest is the program's own";
        for (void *other : others)
            hz_large_free(other);
        hz_large_free(block);
    }
}

TEST(Attributes, AZonesBlocksAreHealedWhenItIsDestroyed) {
    /* blocks of the first two sizes come from cursors */
    const size_t sizes[] = {4096, 8192, 20480, 65536, size_t{1} << 20, size_t{3} << 20};
    struct hz_zone *zone = hz_zone_make();
    ASSERT_NE(zone, nullptr);
    std::vector<void *> blocks;
    for (size_t bytes : sizes) {
        blocks.push_back(hz_zone_alloc(zone, hz_self(), true, 1, bytes, false));
        ASSERT_NE(blocks.back(), nullptr);
        protect(blocks.back(), bytes);
    }
    hz_zone_drop(zone);
    zone = hz_zone_make();
    for (size_t bytes : sizes)
        for (int i = 0; i < 20; i++) {
            void *block = hz_zone_alloc(zone, hz_self(), true, 1, bytes, false);
            ASSERT_NE(block, nullptr);
            EXPECT_TRUE(are_writable(block, bytes)) << bytes;
        }
    hz_zone_drop(zone);
}

TEST(Attributes, ATrimHealsWhatNobodyHasNoted) {
    const size_t bytes = std::max(size_t{20480}, os_page());
    void *block = hz_heap_aligned(os_page(), bytes);
    ASSERT_NE(block, nullptr);
    struct hz_segment *segment = hz_segment_find(block);
    void *other = hz_heap_malloc(bytes / 2); /* of another class, so of another page */
    if (hz_segment_find(other) != segment)
        GTEST_SKIP() << "no other block keeps the segment from being unmapped";
    ASSERT_EQ(mprotect(block, bytes, PROT_READ), 0);
    hz_free_slow(block);
    (void)hz_heap_trim(0);
    EXPECT_TRUE(are_writable(block, bytes));
    hz_heap_free(other);
}

TEST(Attributes, OtherMemoryIsLeftAlone) {
    static char own[1 << 16];
    hz_attributes_note(own, sizeof(own));
    hz_attributes_note(nullptr, SIZE_MAX);
    hz_attributes_note(reinterpret_cast<void *>(UINTPTR_MAX - 5), SIZE_MAX);
    hz_attributes_note(own, 0);
    void *block = hz_heap_malloc(100);
    hz_heap_free(block);
}

TEST(Attributes, ARefusalPausesThePurge) {
    EXPECT_FALSE(hz_budget_is_paused());
    hz_budget_told(false);
    EXPECT_TRUE(hz_budget_is_paused());
    hz_budget_told(true);
    EXPECT_FALSE(hz_budget_is_paused());
}

/* Locked memory does not go back by madvise. A new mapping is not locked. */
TEST(Attributes, LockedMemoryGoesBack) {
    struct hz_run run;
    ASSERT_TRUE(hz_arena_run_alloc(4, 1, &run));
    char *start = unit::page_address(run.segment, run.first);
    memset(start, 1, 4 * unit::page_bytes);
    if (syscall(SYS_mlock, start, 4 * unit::page_bytes) != 0) /* sanitizers make mlock() do nothing */
        GTEST_SKIP() << "the limit of locked memory is too low";
    ASSERT_FALSE(hz_os_purge(start, unit::page_bytes));
    EXPECT_TRUE(hz_arena_part_purge(start, 4 * unit::page_bytes, false));
    EXPECT_EQ(hz_os_resident_bytes(start, 4 * unit::page_bytes), 0U);
    EXPECT_TRUE(hz_os_purge(start, unit::page_bytes)) << "it is not locked any more";
    EXPECT_FALSE(hz_budget_is_paused());
    hz_arena_run_free(run.segment, run.first);
}

} // namespace
