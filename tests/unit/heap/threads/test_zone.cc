/* Zones from inside: who takes blocks without the lock, and where the blocks are that nobody has taken. */
#include "unit/heap/fixture.h"
#include "unit/heap/worker.h"

extern "C" {
#include "heap/back/keeper.h"
#include "heap/back/purge.h"
#include "heap/back/tick.h"
#include "heap/malloc.h"
#include "heap/pages/page.h"
#include "heap/pages/page_purge.h"
#include "heap/threads/park.h"
#include "heap/threads/zone.h"
}

#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace {

using unit::Blocks;
using unit::Worker;

constexpr size_t small = 64;

/* Without a keeper, which would look at the zones too. */
class Zone : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        hz_keeper_forbid();
    }
    void SetUp() override {
        unit::self();
        hz_heap_purge();
        zone = hz_malloc_zone_make();
        ASSERT_NE(zone, nullptr);
    }
    void TearDown() override {
        hz_malloc_zone_drop(zone);
    }
    /* As the front does it. */
    void *take(size_t bytes) {
        unsigned size_class = hz_zone_class(1, bytes);
        void *block = size_class < unsigned{HZ_ZONE_CURSORS} ? hz_zone_pop(zone, size_class) : nullptr;
        return block != nullptr ? block : hz_malloc_in_zone(zone, 1, bytes, false);
    }
    /* By a thread that may become the user, whether there is a keeper or not. */
    void *claim(size_t bytes) {
        struct hz_thread_block *self = hz_thread_enter();
        void *block = hz_zone_alloc(zone, self, true, 1, bytes, false);
        hz_thread_leave(self);
        return block;
    }
    struct hz_thread_block *user() {
        return hz_load_rlx(&zone->user);
    }
    size_t live() {
        struct hz_zone_figures figures;
        hz_zone_figures_get(zone, &figures);
        return figures.live_blocks;
    }
    size_t held() {
        struct hz_zone_figures figures;
        hz_zone_figures_get(zone, &figures);
        return figures.held_bytes;
    }
    void look() {
        struct hz_thread_block *self = hz_thread_enter();
        (void)hz_zones_look(self);
        hz_thread_leave(self);
    }
    /* Drops the zone, and makes another one, which is the same if it was kept warm. */
    void renew() {
        hz_malloc_zone_drop(zone);
        zone = hz_malloc_zone_make();
        ASSERT_NE(zone, nullptr);
    }
    struct hz_zone *zone = nullptr;
    const unsigned small_class = hz_zone_class(1, small);
};

TEST_F(Zone, TheFirstThreadThatTakesIsTheUser) {
    EXPECT_EQ(hz_zone_pop(zone, small_class), nullptr);
    EXPECT_NE(claim(small), nullptr);
    EXPECT_EQ(user(), unit::self());
    void *first = hz_zone_pop(zone, small_class);
    void *second = hz_zone_pop(zone, small_class);
    EXPECT_EQ(static_cast<char *>(second) - static_cast<char *>(first), static_cast<ptrdiff_t>(small));
    EXPECT_EQ(live(), 3U);
    Worker other;
    other.run([&] {
        EXPECT_EQ(hz_zone_pop(zone, small_class), nullptr);
        EXPECT_NE(claim(small), nullptr);
    });
    EXPECT_EQ(user(), unit::self());
    EXPECT_EQ(live(), 4U);
}

TEST_F(Zone, AThreadThatTakesMuchBecomesTheUser) {
    if (!hz_os_barrier_prepare(true))
        GTEST_SKIP() << "the kernel has no membarrier";
    std::set<void *> taken = {claim(small)};
    Worker other;
    other.run([&] {
        size_t count = 1;
        for (; user() != hz_self(); count++) {
            ASSERT_LT(count, 1000U);
            EXPECT_TRUE(taken.insert(claim(small)).second) << "a block is handed out once";
        }
        EXPECT_GT(count, 50U);
    });
    EXPECT_NE(user(), unit::self());
    EXPECT_EQ(hz_zone_pop(zone, small_class), nullptr);
    EXPECT_TRUE(taken.insert(claim(small)).second);
    EXPECT_EQ(live(), taken.size());
}

/* A tick looks at 64 zones. The others' turn comes in the next ticks, also when the walk over the pages has ended. */
TEST_F(Zone, TicksLookAtEveryOne) {
    struct hz_thread_block *self = hz_thread_enter();
    std::vector<std::pair<struct hz_zone *, struct hz_page *>> zones(200);
    for (auto &[other, page] : zones) {
        other = hz_zone_make();
        ASSERT_NE(other, nullptr);
        page = hz_page_of(hz_zone_alloc(other, self, true, 1, small, false));
    }
    uint64_t begin = hz_os_now_ms() + 10000;
    for (uint64_t ms = 0; ms <= 2000; ms += 50) {
        struct hz_turn turn = {};
        turn.driver = HZ_TICK_ALONE;
        turn.now_ms = begin + ms;
        turn.busy = HZ_REMOTE_BIN;
        hz_chores_do(self, &turn);
    }
    size_t whole = 0;
    for (auto &[other, page] : zones) {
        whole += hz_load_rlx(&page->free_count) == page->capacity - 1;
        hz_zone_drop(other);
    }
    EXPECT_EQ(whole, zones.size());
    hz_thread_leave(self);
}

/* The second look that finds the cursors where they were puts what they have left into the pages. */
TEST_F(Zone, AReserveThatRestsGoesToItsPage) {
    void *block = claim(small);
    struct hz_page *page = hz_page_of(block);
    EXPECT_LT(hz_load_rlx(&page->free_count), page->capacity - 1);
    look();
    EXPECT_LT(hz_load_rlx(&page->free_count), page->capacity - 1);
    look();
    EXPECT_EQ(hz_load_rlx(&page->free_count), page->capacity - 1);
    EXPECT_EQ(user(), nullptr);
    EXPECT_EQ(live(), 1U);
    EXPECT_NE(claim(small), nullptr);
    EXPECT_NE(hz_zone_pop(zone, small_class), nullptr);
    look();
    EXPECT_EQ(user(), unit::self()) << "the cursor has moved";
}

TEST_F(Zone, AnotherThreadTakesTheReserveOfOneThatSleeps) {
    if (!hz_os_barrier_prepare(true))
        GTEST_SKIP() << "the kernel has no membarrier";
    Worker other;
    void *block = nullptr;
    other.run([&] { block = claim(small); });
    struct hz_page *page = hz_page_of(block);
    EXPECT_EQ(user(), other.block());
    hz_zones_settle(unit::self());
    EXPECT_EQ(user(), nullptr);
    EXPECT_EQ(hz_load_rlx(&page->free_count), page->capacity - 1);
    other.run([&] { EXPECT_EQ(hz_zone_pop(zone, small_class), nullptr); });
}

/* A signal handler may have interrupted it, and sleep. */
TEST_F(Zone, AThreadThatIsTakingABlockStaysTheUser) {
    if (!hz_os_barrier_prepare(true))
        GTEST_SKIP() << "the kernel has no membarrier";
    Worker other;
    other.run([&] { (void)claim(small); });
    hz_store_rlx(&other.block()->popping, 1);
    hz_zones_settle(unit::self());
    EXPECT_EQ(user(), other.block());
    hz_store_rlx(&other.block()->popping, 0);
    hz_zones_settle(unit::self());
    EXPECT_EQ(user(), nullptr);
}

TEST_F(Zone, AWarmZoneTakesNothingFromThePages) {
    for (int round = 0; round < 3; round++) {
        std::set<void *> taken;
        for (size_t i = 0; i < 60; i++)
            EXPECT_TRUE(taken.insert(i == 0 ? claim(small) : take(small)).second);
        EXPECT_EQ(live(), 60U);
        EXPECT_FALSE(zone->is_mixed);
        struct hz_zone *before = zone;
        renew();
        EXPECT_EQ(zone, before);
        EXPECT_EQ(live(), 0U);
    }
}

/* All blocks of a cursor were freed one by one, and a purge has retired their page. The next zone must not hand them
   out. */
TEST_F(Zone, ACursorEndsWithItsPage) {
    Blocks blocks = {claim(small)};
    while (blocks.size() < 64)
        blocks.push_back(take(small));
    for (void *block : blocks)
        hz_heap_free(block);
    hz_heap_purge();
    EXPECT_EQ(held(), 0U);
    renew();
    EXPECT_NE(claim(small), nullptr);
    EXPECT_EQ(live(), 1U);
    EXPECT_GT(held(), 0U);
    EXPECT_EQ(hz_pagetag_owner(blocks[0]) == HZ_SHARD_OF_ZONE, hz_pagetag_class(blocks[0]) == small_class);
}

TEST_F(Zone, KeptPagesGoBackAfterTwoLooksAndWalks) {
    for (size_t bytes = 16; bytes <= size_t{HZ_ZONE_BLOCK_MAX}; bytes *= 2)
        for (int i = 0; i < 10; i++)
            (void)take(bytes);
    renew();
    EXPECT_GT(held(), 0U);
    struct hz_thread_block *self = unit::self();
    uint32_t next = 0;
    for (int i = 0; i < 4; i++) {
        look();
        EXPECT_TRUE(hz_pages_purge(self, HZ_PURGE_ZONES, &next, UINT32_MAX, UINT32_MAX));
    }
    EXPECT_EQ(held(), 0U);
}

/* Work in zones shows in no bin, so the thread leaves a note for a keeper that is about to sleep. */
TEST_F(Zone, WorkIsNoted) {
    auto is_noted = [](const std::function<void()> &work) {
        hz_keeper_forget_work();
        work();
        return hz_load_rlx(&hz_keeper_missed) != 0;
    };
    EXPECT_FALSE(is_noted([] {}));
    void *block = nullptr;
    EXPECT_TRUE(is_noted([&] { block = hz_malloc_in_zone(zone, 1, small, false); }));
    EXPECT_TRUE(is_noted([&] { hz_heap_free(block); }));
    EXPECT_TRUE(is_noted([&] { renew(); }));
    void *common = hz_heap_malloc(small);
    EXPECT_TRUE(is_noted([&] { std::thread([&] { hz_heap_free(common); }).join(); })) << "a thread without a block";
}

TEST_F(Zone, SomeFreesAreVisits) {
    Blocks blocks;
    while (blocks.size() < 64)
        blocks.push_back(take(small));
    unit::self()->slow_count = 0;
    unit::self()->zone_frees = 0;
    for (void *block : blocks)
        hz_heap_free(block);
    EXPECT_EQ(unit::self()->slow_count, 2U);
}

} // namespace
