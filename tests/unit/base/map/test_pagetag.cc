/* The page tag table, in its flat and in its small form: our pages have their tags, other addresses have none. */
#include "stress/children.h"
#include "unit/base/fixture.h"

#include <gtest/gtest.h>

namespace {

using children::require;

constexpr unsigned some_bin = 0x120;
constexpr unsigned some_class = 7;
constexpr unsigned some_owner = 63;

unsigned bin_of(const void *address) {
    return hz_load_rlx(&hz_pagetag_of(address)->bin);
}

bool no_tag(const void *address) {
    return bin_of(address) == 0 && hz_pagetag_class(address) == HZ_CLASS_NONE && hz_pagetag_owner(address) == 0;
}

bool tagged(const char *address, unsigned bin) {
    return bin_of(address) == bin && hz_pagetag_class(address) == some_class && hz_pagetag_owner(address) == some_owner;
}

const char *address(uintptr_t value) {
    return reinterpret_cast<const char *>(value);
}

/* True if no pointer that a program might pass by mistake, and no random address, has a tag. */
bool strangers_have_no_tag() {
    int on_stack = 0;
    static int in_data;
    bool none = no_tag(nullptr) && no_tag(&on_stack) && no_tag(&in_data) && no_tag(address(16));
    none = none && no_tag(reinterpret_cast<const void *>(&strangers_have_no_tag));
    for (uintptr_t high : {UINTPTR_MAX, uintptr_t{1} << 63, (uintptr_t{1} << 47) - 1, uintptr_t{1} << 47})
        none = none && no_tag(address(high));
    support::Random random(1);
    for (int i = 0; i < 1000 && none; i++)
        none = no_tag(address(random.next()));
    return none;
}

void open_tags(const char *start, size_t pages) {
    require(hz_pagetag_open(start, pages * unit::page_bytes), "the entries can be opened");
}

/* Each test has its own table: a child process makes it. */
template <typename Body> void with_table(Body body) {
    children::expect_good_end(children::start([&] {
        require(hz_pagetag_init(), "the table can be mapped");
        body();
        return 0;
    }));
}

TEST(PageTag, BeforeInitialisationNothingIsOurs) {
    EXPECT_TRUE(strangers_have_no_tag());
    EXPECT_FALSE(hz_pagetags.flat);
}

TEST(PageTag, StrangersHaveNoTag) {
    with_table([] { require(strangers_have_no_tag(), "strangers have no tag"); });
}

TEST(PageTag, CoversTheAddressSpaceUnlessItIsLimited) {
    if (hz_os_address_space_limit() != SIZE_MAX)
        GTEST_SKIP() << "the address space is limited, so the table is small";
    with_table([] {
        require(hz_pagetags.flat, "the table is flat");
        uintptr_t covered = (hz_pagetags.mask + 1) * unit::page_bytes;
        require(covered == uintptr_t{1} << HZ_ADDRESS_BITS || !hz_os_has_address(covered),
                "the table has an entry for each page");
        require(HZ_ADDRESS_BITS_VARY == 0 || covered == uintptr_t{1} << 39 || hz_os_has_address(covered / 8),
                "and is not much larger");
        require(hz_pagetag_covers(address(covered - unit::page_bytes), 0), "it covers the last page");
        require(!hz_pagetag_covers(address(covered), 0), "it does not cover what has no entry");
        require(!hz_pagetag_is_beyond(address(covered - 1)) && hz_pagetag_is_beyond(address(covered)),
                "an address that shares an entry is known");
    });
}

TEST(PageTag, SetAndClearTouchTheirPagesOnly) {
    with_table([] {
        const char *start = address(uintptr_t{0x123} << 28);
        const size_t pages = 5;
        open_tags(start, pages + 1);
        unsigned bin = hz_pagetags.flat ? some_bin : 0;
        hz_pagetag_set(start, pages, some_bin, some_class, some_owner);
        require(no_tag(start - 1) && no_tag(start + pages * unit::page_bytes), "the neighbours have no tag");
        for (size_t i = 0; i < pages; i++) {
            const char *page = start + i * unit::page_bytes;
            require(tagged(page, bin) && tagged(page + unit::page_bytes - 1, bin), "the whole page is tagged");
        }
        hz_pagetag_clear(start + unit::page_bytes, 2);
        for (size_t i = 0; i < pages; i++) {
            const char *page = start + i * unit::page_bytes;
            require((i == 1 || i == 2) ? no_tag(page) : tagged(page, bin), "only the cleared pages have no tag");
        }
        hz_pagetag_clear(start, 1);
        hz_pagetag_set(start, 3, some_bin, some_class, some_owner);
        require(tagged(start + 2 * unit::page_bytes, bin), "a cleared page can be tagged again");
    });
}

TEST(PageTag, ExtremesOfTheFieldsAreKept) {
    with_table([] {
        const char *page = address(uintptr_t{1} << 32);
        open_tags(page, 1);
        hz_pagetag_set(page, 1, 0xfff0, HZ_CLASS_LARGE, 254);
        require(bin_of(page) == (hz_pagetags.flat ? 0xfff0U : 0U), "the bin is kept");
        require(hz_pagetag_class(page) == HZ_CLASS_LARGE && hz_pagetag_owner(page) == 254, "class and owner are kept");
    });
}

TEST(PageTag, SmallTableInALimitedAddressSpace) {
    if (support::sanitized)
        GTEST_SKIP() << "sanitizers need their address space; test_arena_faulty has this case too";
    for (size_t limit : {size_t{1} << 30, size_t{8} << 30, size_t{1} << 40})
        children::expect_good_end(children::start([=] {
            struct rlimit bounds = {limit, RLIM_INFINITY};
            require(setrlimit(RLIMIT_AS, &bounds) == 0, "the limit can be set");
            require(hz_pagetag_init(), "the small table can be mapped");
            require(!hz_pagetags.flat, "the table is not flat");
            size_t table_bytes = (hz_pagetags.mask + 1) * 4;
            require(table_bytes <= limit / 64, "the table is small compared with the limit");
            require((hz_pagetags.mask + 1) * unit::page_bytes >= limit,
                    "as many bytes as the limit allows share no entry");
            open_tags(address(uintptr_t{1} << 40), 2);
            hz_pagetag_set(address(uintptr_t{1} << 40), 2, some_bin, some_class, some_owner);
            require(tagged(address(uintptr_t{1} << 40), 0), "the bin is dropped, so every free asks the directory");
            return 0;
        }));
}

TEST(PageTag, NeighboursDoNotDisturbEachOther) {
    with_table([] {
        std::atomic<bool> good{true};
        open_tags(address(uintptr_t{1} << 36), 4);
        unit::together(4, [&](unsigned index) {
            const char *page = address((uintptr_t{1} << 36) + index * unit::page_bytes);
            for (unsigned i = 0; i < unit::rounds(20000); i++) {
                hz_pagetag_set(page, 1, some_bin, some_class, some_owner);
                good = good && tagged(page, hz_pagetags.flat ? some_bin : 0);
                hz_pagetag_clear(page, 1);
                good = good && no_tag(page);
            }
        });
        require(good, "each thread sees its own page's tag");
    });
}

TEST(PageTagDeathTest, TaggingTwiceIsAnInternalError) {
    if (!HZ_CONFIG_CHECKS)
        GTEST_SKIP() << "internal assertions are in the check build";
    auto tag_twice = [] {
        const char *page = address(uintptr_t{1} << 36);
        if (hz_pagetag_init() &&
            hz_pagetag_open(page, 1)) /* in the dying process only, because the other tests begin without a table */
            hz_pagetag_set(page, 1, some_bin, some_class, some_owner);
        hz_pagetag_set(page, 1, some_bin, some_class, some_owner);
    };
    EXPECT_DEATH(tag_twice(), "internal error: .*class");
}

} // namespace
