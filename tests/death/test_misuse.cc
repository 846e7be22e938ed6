/*
 * Misuse ends the program with a stable line on stderr and SIGABRT. The table has one row per kind of misuse: what the
 * program does, the text it must print, and whether only the check build can notice it. base/os/check.h has the texts.
 * A handler of SIGABRT can allocate, wherever the misuse was found.
 */
extern "C" {
#include "base/os/check.h"
}
#include "contract/api.h"
#include "contract/support.h"

#include <csignal>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

namespace {

using namespace support;

enum Noticed { always, by_checks };

/* Makes a pointer to misuse, before the fatal call, so that the expected text can contain its address. */
using Make = void *(*)();
using Misuse = void (*)(void *pointer);

struct Row {
    const char *name;
    Noticed noticed;
    const char *text; /* a POSIX extended regular expression, with alternatives where several texts are right */
    Make make;
    Misuse misuse;
};

void free_it(void *pointer) {
    t_free(pointer);
}

void realloc_it(void *pointer) {
    t_free(t_realloc(pointer, 100));
}

void free_it_sized(void *pointer) {
    t_free_sized(pointer, 16);
}

/* ---- pointers that are not ours ---- */

void *static_address() {
    static char bytes[64];
    return bytes;
}

void *code_address() {
    return reinterpret_cast<void *>(&free_it);
}

/* The address is on the stack, although its frame is gone. */
void *stack_address() {
    static void *address;
    char here[64];
    address = t_opaque(here);
    return address;
}

void *mapped_address() {
    return mmap(nullptr, 64 * KiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

template <uintptr_t value> void *number() {
    return reinterpret_cast<void *>(value);
}

/* A block of glibc's malloc, which the program still has beside the hz_ names. */
void *block_of_glibc() {
    /* No test may free it; static keeps it reachable for LeakSanitizer. */
    static void *const block = malloc(100);
    return t_opaque(block);
}

/* ---- pointers into our memory ---- */

template <size_t size> void *block_of() {
    void *block = t_malloc(size);
    memset(block, 1, size);
    return block;
}

template <size_t size> void *freed() {
    void *block = block_of<size>();
    t_free(block);
    return block;
}

/* A span that has no class. */
template <size_t size> void *grown_block_of() {
    return t_realloc(t_malloc(1), size);
}

template <size_t size> void *freed_grown() {
    void *block = grown_block_of<size>();
    t_free(block);
    return block;
}

template <size_t size, size_t offset> void *inside_grown() {
    return static_cast<char *>(grown_block_of<size>()) + offset;
}

/* Freed, with many other blocks freed before and after it. */
template <size_t size> void *freed_long_ago() {
    void *others[200];
    for (void *&other : others)
        other = t_malloc(size);
    void *block = others[77];
    for (void *other : others)
        t_free(other);
    return block;
}

template <size_t size, size_t offset> void *inside() {
    return static_cast<char *>(block_of<size>()) + offset;
}

/* Shares its page tag with a block, but is no user address unless a program asks for such ones. */
template <size_t size> void *above() {
    return reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(block_of<size>()) | uintptr_t{1} << 52);
}

/* Of a zone, beside another block of the same page. */
template <size_t size> void *block_of_zone() {
    static struct hz_zone *const zone = t_table.zone_create_fn();
    (void)t_table.zone_malloc_fn(zone, size);
    void *block = t_table.zone_malloc_fn(zone, size);
    memset(block, 1, size);
    return block;
}

template <size_t size> void *freed_of_zone() {
    void *block = block_of_zone<size>();
    t_free(block);
    return block;
}

template <size_t size> void *block_of_destroyed_zone() {
    struct hz_zone *zone = t_table.zone_create_fn();
    void *block = t_table.zone_malloc_fn(zone, size);
    t_table.zone_destroy_fn(zone);
    return block;
}

template <size_t size, size_t offset> void *inside_of_zone() {
    return static_cast<char *>(block_of_zone<size>()) + offset;
}

void *run_free(void *pointer) {
    t_free(pointer);
    return nullptr;
}

void free_in_another_thread(void *pointer) {
    pthread_t thread;
    pthread_create(&thread, nullptr, run_free, pointer);
    pthread_join(thread, nullptr);
}

/* Handed out again for a smaller size, and freed as that block, which may begin elsewhere within the same memory. */
template <size_t size, size_t smaller> void *freed_as_another() {
    void *block = block_of<size>();
    t_free(block);
    void *again = block_of<smaller>();
    t_free(again);
    return block;
}

/* Freed by another thread, so the block may still be on its way home. */
void *freed_elsewhere() {
    void *block = block_of<200>();
    free_in_another_thread(block);
    return block;
}

void *moved_by_realloc() {
    void *block = block_of<100>();
    void *neighbour = block_of<100>();
    void *moved = t_realloc(block, 100 * KiB);
    t_free(neighbour);
    return moved == block ? nullptr : block;
}

template <size_t size> void free_sized_as(void *pointer) {
    t_free_sized(pointer, size);
}

template <size_t alignment, size_t size> void free_aligned_sized_as(void *pointer) {
    t_free_aligned_sized(pointer, alignment, size);
}

#define EITHER(a, b) "(" a "|" b ")"

constexpr const char *foreign = HZ_TEXT_FOREIGN;
constexpr const char *twice = HZ_TEXT_DOUBLE_FREE;
constexpr const char *interior = HZ_TEXT_INTERIOR;
constexpr const char *bad_size = HZ_TEXT_SIZE;
constexpr const char *bad_realloc = HZ_TEXT_FOREIGN;
/* A mapping is gone after its free: its address can no longer be told from one that was never ours. */
constexpr const char *gone = EITHER(HZ_TEXT_DOUBLE_FREE, HZ_TEXT_FOREIGN);

constexpr size_t mapped = 40 * MiB;

const Row rows[] = {
    {"FreeOfStatic", always, foreign, static_address, free_it},
    {"FreeOfStack", always, foreign, stack_address, free_it},
    {"FreeOfCode", always, foreign, code_address, free_it},
    {"FreeOfMapping", always, foreign, mapped_address, free_it},
    {"FreeOfGlibcsBlock", always, foreign, block_of_glibc, free_it},
    {"FreeOfSmallNumber", always, foreign, number<0x10>, free_it},
    {"FreeOfHighestUserAddress", always, foreign, number<0x7ffffffffff0>, free_it},
    {"FreeOfNonCanonical", always, foreign, number<0xdead000000000010>, free_it},
    {"FreeOfMinusSixteen", always, foreign, number<0xfffffffffffffff0>, free_it},
    {"FreeAboveSmall", always, foreign, above<100>, free_it},
    {"FreeAboveMedium", always, foreign, above<20000>, free_it},
    {"FreeAboveSpan", always, foreign, above<300 * KiB>, free_it},
    {"FreeSizedOfStatic", always, foreign, static_address, free_it_sized},
    {"ReallocOfStatic", always, bad_realloc, static_address, realloc_it},
    {"ReallocOfNonCanonical", always, bad_realloc, number<0xdead000000000010>, realloc_it},

    {"DoubleFreeOf16", always, twice, freed<16>, free_it},
    {"DoubleFreeOf1000", always, twice, freed<1000>, free_it},
    {"DoubleFreeOf30000", always, twice, freed<30000>, free_it},
    {"DoubleFreeUnderAnotherPointer", always, twice, freed_as_another<10200, 9300>, free_it},
    {"DoubleFreeOfLongUnderAnotherPointer", always, twice, freed_as_another<73000, 66000>, free_it},
    {"DoubleFreeOfLong", always, twice, freed<70000>, free_it},
    {"DoubleFreeOfSpan", always, twice, freed<300 * KiB>, free_it},
    {"DoubleFreeOfTheLongest", always, twice, freed<2 * MiB>, free_it},
    {"DoubleFreeOfGrownSpan", always, twice, freed_grown<300 * KiB>, free_it},
    {"DoubleFreeOfBigMapping", always, gone, freed<mapped>, free_it},
    {"DoubleFreeLater", by_checks, twice, freed_long_ago<64>, free_it},
    {"DoubleFreeLaterOfMedium", by_checks, twice, freed_long_ago<5000>, free_it},
    {"DoubleFreeLaterOfSpan", by_checks, twice, freed_long_ago<300 * KiB>, free_it},
    {"DoubleFreeOfSpanByAnotherThread", by_checks, twice, freed<300 * KiB>, free_in_another_thread},
    {"DoubleFreeByAnotherThread", by_checks, twice, freed<200>, free_in_another_thread},
    {"DoubleFreeAfterAnotherThread", by_checks, twice, freed_elsewhere, free_it},
    {"FreeOfWhatReallocMoved", by_checks, twice, moved_by_realloc, free_it},
    {"FreeSizedTwice", always, twice, freed<100>, free_sized_as<100>},

    {"FreeInsideSmall", by_checks, interior, inside<100, 32>, free_it},
    {"FreeInsideMedium", by_checks, interior, inside<20000, 4096>, free_it},
    {"FreeInsideSpan", always, interior, inside<300 * KiB, 128 * KiB>, free_it},
    {"FreeInsideGrownSpan", always, interior, inside_grown<300 * KiB, 128 * KiB>, free_it},
    {"FreeInsideLong", always, interior, inside<70000, 32>, free_it},
    {"FreeFarInsideLong", always, interior, inside<70000, 8192>, free_it},
    {"FreeInsideGrownLong", always, interior, inside_grown<70000, 32>, free_it},
    {"FreeFarInsideGrownLong", always, interior, inside_grown<70000, 65536>, free_it},
    {"FreeInsideUnits", always, interior, inside<3 * MiB - 3000, 32>, free_it},
    {"FreeFarInsideUnits", always, interior, inside<3 * MiB - 3000, 4096>, free_it},
    {"FreeInsideMapping", always, EITHER(HZ_TEXT_INTERIOR, HZ_TEXT_FOREIGN), inside<mapped, MiB>, free_it},
    {"FreeMisalignedByOne", by_checks, interior, inside<100, 1>, free_it},
    {"FreeMisalignedByEight", by_checks, interior, inside<100, 8>, free_it},
    {"ReallocInside", by_checks, HZ_TEXT_INTERIOR, inside<100, 32>, realloc_it},

    {"DoubleFreeInAZone", always, twice, freed_of_zone<100>, free_it},
    {"DoubleFreeInAZoneByAnotherThread", always, twice, freed_of_zone<100>, free_in_another_thread},
    {"DoubleFreeOfAZonesSpan", always, twice, freed_of_zone<300 * KiB>, free_it},
    {"FreeAfterTheZonesEnd", always, twice, block_of_destroyed_zone<100>, free_it},
    {"FreeOfASpanAfterTheZonesEnd", always, twice, block_of_destroyed_zone<300 * KiB>, free_it},
    {"FreeInsideAZonesBlock", always, interior, inside_of_zone<100, 32>, free_it},
    {"FreeInsideAZonesSpan", always, interior, inside_of_zone<300 * KiB, 32>, free_it},

    {"ReallocOfFreed", by_checks, HZ_TEXT_DOUBLE_FREE, freed<500>, realloc_it},
    {"SizedFreeTooLarge", by_checks, bad_size, block_of<100>, free_sized_as<5000>},
    {"SizedFreeTooSmall", by_checks, bad_size, block_of<5000>, free_sized_as<100>},
    {"SizedFreeOfSpanAsSmall", by_checks, bad_size, block_of<300 * KiB>, free_sized_as<100>},
    {"AlignedSizedFreeTooLarge", by_checks, bad_size, block_of<100>, free_aligned_sized_as<16, 5000>},
};

void PrintTo(const Row &row, std::ostream *out) {
    *out << row.name;
}

class MisuseEnds : public testing::TestWithParam<Row> {};

TEST_P(MisuseEnds, WithItsText) {
    const Row &row = GetParam();
    if (row.noticed == by_checks && !t_config_has("checks=1"))
        GTEST_SKIP() << "only the check build notices this";
    void *pointer = row.make();
    ASSERT_NE(pointer, nullptr) << "the row made no pointer to misuse";
    char address[32];
    snprintf(address, sizeof address, "0x%zx", reinterpret_cast<size_t>(pointer));
    EXPECT_EXIT(row.misuse(pointer), testing::KilledBySignal(SIGABRT),
                std::string("hakozuna: ") + row.text + " " + address + " \\([^)]+\\)\n");
}

INSTANTIATE_TEST_SUITE_P(Table, MisuseEnds, testing::ValuesIn(rows),
                         [](const testing::TestParamInfo<Row> &each) { return std::string(each.param.name); });

/* ---- a handler of SIGABRT ---- */

/* What a crash reporter may do: allocates and frees in every class, and large blocks too. */
void allocate_and_say_so(int) {
    for (size_t size : sample_sizes()) {
        void *blocks[3];
        for (void *&block : blocks)
            block = t_malloc(size);
        for (void *block : blocks)
            t_free(block);
    }
    void *block = t_realloc(t_calloc(10, 10), 10 * MiB);
    const char text[] = "the handler has allocated\n";
    if (block != nullptr)
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
}

/* Leaves in the thread's bin a block that is in its page already. The bin has held more blocks before, so it takes this
 * one without a look. The purge notices it, under the lock of the thread's shard. */
void purge_what_was_freed_twice() {
    void *others[40];
    for (void *&other : others)
        other = t_malloc(200);
    for (void *other : others)
        t_free(other);
    for (void *&other : others)
        other = t_malloc(200);
    t_free(freed_elsewhere());
    t_give_back();
}

/* Each ends in a different place: before any lock is taken, or under the lock of the thread's own shard or another one.
 */
struct Place {
    const char *name;
    void (*misuse)();
};

const Place places[] = {
    {"Foreign", [] { t_free(static_address()); }},
    {"Newest", [] { t_free(freed<64>()); }},
    {"InItsPage", [] { free_in_another_thread(freed_elsewhere()); }},
    {"InsideInItsPage", [] { free_in_another_thread(inside<100, 32>()); }},
    {"InAPurge", purge_what_was_freed_twice},
    {"Large", [] { t_free(freed<300 * KiB>()); }},
};

class HandlerOfAbort : public testing::TestWithParam<Place> {};

TEST_P(HandlerOfAbort, Allocates) {
    EXPECT_EXIT(
        {
            signal(SIGABRT, allocate_and_say_so);
            alarm(100); /* a handler that hangs fails the test */
            GetParam().misuse();
        },
        testing::KilledBySignal(SIGABRT), "hakozuna: .*\n.*the handler has allocated\n");
}

INSTANTIATE_TEST_SUITE_P(Table, HandlerOfAbort, testing::ValuesIn(places),
                         [](const testing::TestParamInfo<Place> &each) { return std::string(each.param.name); });

/* Calls that look odd but are correct must not end the program. */
TEST(CorrectUse, DoesNotEnd) {
    t_free(nullptr);
    t_free_sized(nullptr, 12345);
    for (size_t size : sample_sizes()) {
        void *block = t_malloc(size);
        t_free(block);
        void *again = t_malloc(size); /* often the same address, but freeing it again is not a double free */
        t_free_sized(again, size);
        void *aligned = t_aligned_alloc(512, size);
        t_free_aligned_sized(aligned, 512, size);
        free_in_another_thread(t_malloc(size));
    }
}

} // namespace
