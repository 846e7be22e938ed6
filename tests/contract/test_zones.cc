/* Zones: blocks that lie apart, are freed like any other, and go all at once. */
#include "api.h"
#include "support.h"

#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>

/* Only programs over the faulty OS have it. */
extern "C" __attribute__((weak)) uint64_t hz_os_faulty_calls(void);

namespace {

using namespace support;

class Zones : public testing::Test {
  protected:
    void SetUp() override {
        if (t_table.zone_create_fn == nullptr)
            GTEST_SKIP() << "hz_zone_create does not exist here";
        zone = t_table.zone_create_fn();
        ASSERT_NE(zone, nullptr);
    }
    void TearDown() override {
        if (zone != nullptr)
            t_table.zone_destroy_fn(zone);
    }
    void destroy() {
        t_table.zone_destroy_fn(zone);
        zone = nullptr;
    }
    void *take(size_t size) {
        return t_opaque(t_table.zone_malloc_fn(zone, size));
    }
    struct hz_zone_stats stats() {
        struct hz_zone_stats out = {};
        EXPECT_EQ(t_table.zone_stats_get_fn(zone, &out, sizeof(out)), 0);
        return out;
    }
    static size_t live() {
        struct hz_stats out = {};
        EXPECT_EQ(t_stats_get(&out), 0);
        return out.live_bytes;
    }
    /* What the test framework may allocate between two readings when it uses the same heap. */
    static constexpr size_t slack = t_system ? 256 * KiB : 0;

    struct hz_zone *zone = nullptr;
};

TEST_F(Zones, BlocksOfEverySizeAreWhole) {
    struct Held {
        void *block;
        size_t size;
    };
    std::vector<Held> held;
    uint64_t seed = 0;
    for (size_t size : sample_sizes())
        for (int i = 0; i < 3; i++) {
            void *block = take(size);
            ASSERT_NE(block, nullptr) << size;
            ASSERT_TRUE(aligned_to(block, 16));
            ASSERT_GE(t_usable_size(block), size);
            EXPECT_EQ(t_table.zone_of_fn(block), zone);
            fill(block, size, seed++);
            held.push_back({block, size});
        }
    seed = 0;
    for (const Held &each : held) {
        EXPECT_TRUE(holds(each.block, each.size, seed++)) << each.size;
        t_free(each.block);
    }
    EXPECT_EQ(stats().live_blocks, 0U);
}

TEST_F(Zones, FiguresAreExact) {
    size_t bytes = 0;
    size_t blocks = 0;
    size_t before = live();
    auto taken = [](void *block) { return taken_by(block, t_usable_size(block) > 64 * KiB); };
    std::vector<void *> held;
    for (size_t size : sample_sizes()) {
        held.push_back(take(size));
        ASSERT_NE(held.back(), nullptr);
        bytes += taken(held.back());
        blocks++;
        struct hz_zone_stats now = stats();
        EXPECT_EQ(now.live_blocks, blocks);
        EXPECT_EQ(now.live_bytes, bytes);
        EXPECT_GE(now.held_bytes, now.live_bytes + now.free_bytes);
    }
    EXPECT_GE(live() + slack, before + bytes) << "the heap's figures have the zone's blocks too";
    EXPECT_LE(live(), before + bytes + slack);
    for (void *block : held) {
        bytes -= taken(block);
        t_free(block);
        EXPECT_EQ(stats().live_blocks, --blocks);
        EXPECT_EQ(stats().live_bytes, bytes);
    }
    errno = 0;
    EXPECT_EQ(t_table.zone_stats_get_fn(zone, nullptr, sizeof(struct hz_zone_stats)), -1);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(Zones, DestroyFreesAllAtOnce) {
    t_free(t_malloc(10));
    size_t before = live();
    for (int round = 0; round < 3; round++) {
        for (size_t size : {size_t{16}, size_t{100}, size_t{2000}, size_t{30000}})
            for (int i = 0; i < 500; i++)
                ASSERT_NE(take(size), nullptr);
        for (size_t size : {100 * KiB, MiB, 3 * MiB, 70 * MiB})
            ASSERT_NE(take(size), nullptr);
        EXPECT_GT(live(), before + 80 * MiB);
        destroy();
        EXPECT_LE(live(), before + slack);
        zone = t_table.zone_create_fn();
        ASSERT_NE(zone, nullptr);
        EXPECT_EQ(stats().live_bytes, 0U);
        EXPECT_EQ(stats().live_blocks, 0U);
        EXPECT_LE(stats().held_bytes, MiB) << "the destroyed zone has left a few pages";
    }
    t_table.zone_destroy_fn(nullptr);
}

/* Destroyed zones together keep at most a few MiB, and a purge gives even that back. */
TEST_F(Zones, WhatZonesLeaveIsBoundedAndPurged) {
    if (hz_os_faulty_calls != nullptr)
        GTEST_SKIP() << "what is resident depends on which call of the OS fails";
    constexpr size_t zones = 40;
    auto held = [] {
        struct hz_stats out = {};
        EXPECT_EQ(t_stats_get(&out), 0);
        return out.resident_bytes;
    };
    auto fill_all = [](const std::vector<struct hz_zone *> &every) {
        for (struct hz_zone *each : every)
            for (size_t size = 16; size <= 1024; size *= 2)
                for (size_t used = 0; used < 128 * KiB; used += size)
                    memset(t_table.zone_malloc_fn(each, size), 1, size);
    };
    std::vector<struct hz_zone *> every(zones);
    for (int round = 0; round < 2; round++) {
        t_table.purge_fn();
        size_t before = held();
        for (struct hz_zone *&each : every)
            ASSERT_NE(each = t_table.zone_create_fn(), nullptr);
        fill_all(every);
        EXPECT_GE(held(), before + zones * 896 * KiB);
        for (struct hz_zone *each : every)
            t_table.zone_destroy_fn(each);
        EXPECT_LE(held(), before + 16 * MiB) << "4 MiB in destroyed zones, the rest in the dirty budget";
        t_table.purge_fn();
        EXPECT_LE(held(), before + slack + MiB);
        every[0] = t_table.zone_create_fn();
        struct hz_zone_stats now = {};
        EXPECT_EQ(t_table.zone_stats_get_fn(every[0], &now, sizeof(now)), 0);
        EXPECT_EQ(now.held_bytes, 0U);
        t_table.zone_destroy_fn(every[0]);
    }
}

/* A zone gets each block of a kept page once, and blocks do not overlap, even where the former zone's were live. */
TEST_F(Zones, KeptPagesGiveEachBlockOnce) {
    for (int round = 0; round < 5; round++) {
        std::vector<std::pair<void *, size_t>> blocks;
        for (size_t size : {size_t{16}, size_t{48}, size_t{1000}, size_t{6000}})
            for (size_t i = 0; i < 400; i++) {
                blocks.emplace_back(take(size), size);
                ASSERT_NE(blocks.back().first, nullptr);
                fill(blocks.back().first, size, i);
                if ((i + static_cast<size_t>(round)) % 3 == 0) {
                    t_free(blocks.back().first);
                    blocks.pop_back();
                }
            }
        size_t number = 0;
        EXPECT_EQ(stats().live_blocks, blocks.size());
        for (size_t of_size = 0; of_size < 4; of_size++)
            for (size_t i = 0; i < 400; i++)
                if ((i + static_cast<size_t>(round)) % 3 != 0) {
                    EXPECT_TRUE(holds(blocks[number].first, blocks[number].second, i));
                    number++;
                }
        for (size_t i = 0; i < number; i += 2)
            t_free(blocks[i].first);
        destroy();
        zone = t_table.zone_create_fn();
        ASSERT_NE(zone, nullptr);
    }
}

/* A page or a large block that one zone has given back serves another one, or the common heap. */
TEST_F(Zones, MemoryPassesOn) {
    for (size_t size : {size_t{48}, size_t{5000}, 200 * KiB, 3 * MiB}) {
        for (int i = 0; i < 20; i++) {
            void *block = take(size);
            ASSERT_NE(block, nullptr);
            memset(block, 0xa5, size);
        }
        destroy();
        std::vector<void *> common(20);
        for (void *&block : common) {
            block = t_malloc(size);
            ASSERT_NE(block, nullptr);
            EXPECT_EQ(t_table.zone_of_fn(block), nullptr);
            fill(block, size, size);
        }
        zone = t_table.zone_create_fn();
        ASSERT_NE(zone, nullptr);
        void *zeroed = t_table.zone_calloc_fn(zone, size, 1);
        ASSERT_NE(zeroed, nullptr);
        EXPECT_TRUE(is_zero(zeroed, size));
        for (void *block : common) {
            EXPECT_TRUE(holds(block, size, size));
            t_free(block);
        }
    }
}

TEST_F(Zones, ResizedBlocksStayInTheirZone) {
    const size_t sizes[] = {1, 100, 5000, 64 * KiB, 200 * KiB, 2 * MiB, 3 * MiB, 9 * MiB, 80 * MiB};
    for (size_t from : sizes)
        for (size_t to : sizes) {
            void *block = take(from);
            ASSERT_NE(block, nullptr);
            fill(block, from, from + to);
            block = t_realloc(block, to);
            ASSERT_NE(block, nullptr);
            EXPECT_EQ(t_table.zone_of_fn(block), zone) << from << " to " << to;
            EXPECT_TRUE(holds(block, std::min(from, to), from + to)) << from << " to " << to;
            EXPECT_EQ(stats().live_blocks, 1U);
            EXPECT_EQ(stats().live_bytes, taken_by(block, to > 64 * KiB));
            block = t_aligned_realloc(block, 4096, to / 2 + 1);
            ASSERT_NE(block, nullptr);
            EXPECT_TRUE(aligned_to(block, 4096));
            EXPECT_EQ(t_table.zone_of_fn(block), zone) << from << " to " << to;
            EXPECT_TRUE(holds(block, std::min(from, to / 2 + 1), from + to)) << from << " to " << to;
            block = t_rezalloc(block, to);
            ASSERT_NE(block, nullptr);
            EXPECT_EQ(t_table.zone_of_fn(block), zone);
            void *expanded = t_expand(block, t_usable_size(block) + 1);
            EXPECT_EQ(t_table.zone_of_fn(expanded != nullptr ? expanded : block), zone);
            t_free(block);
            EXPECT_EQ(stats().live_blocks, 0U);
        }
}

TEST_F(Zones, AlignsAndRefuses) {
    for (size_t alignment = 1; alignment <= 16 * MiB; alignment *= 2)
        for (size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{3000}, 100 * KiB, 3 * MiB}) {
            void *block = t_opaque(t_table.zone_aligned_alloc_fn(zone, alignment, size));
            ASSERT_NE(block, nullptr) << alignment << ", " << size;
            EXPECT_TRUE(aligned_to(block, alignment)) << alignment << ", " << size;
            EXPECT_EQ(t_table.zone_of_fn(block), zone);
            memset(block, 1, size);
            if (size % 3 == 0)
                t_free(block);
        }
    for (size_t alignment : {size_t{0}, size_t{3}, SIZE_MAX}) {
        errno = 0;
        EXPECT_EQ(t_table.zone_aligned_alloc_fn(zone, alignment, 10), nullptr);
        EXPECT_EQ(errno, EINVAL) << alignment;
    }
    for (size_t size : {SIZE_MAX, size_t{PTRDIFF_MAX} + 1, size_t{PTRDIFF_MAX}}) {
        errno = 0;
        EXPECT_EQ(take(size), nullptr);
        EXPECT_EQ(errno, ENOMEM) << size;
    }
    errno = 0;
    EXPECT_EQ(t_table.zone_calloc_fn(zone, SIZE_MAX / 2, 3), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(t_table.zone_of_fn(nullptr), nullptr);
}

TEST_F(Zones, ZonesLieApart) {
    struct hz_zone *other = t_table.zone_create_fn();
    ASSERT_NE(other, nullptr);
    ASSERT_NE(other, zone);
    std::vector<void *> kept;
    for (size_t i = 0; i < 1000; i++) {
        void *mine = take(i);
        void *its = t_opaque(t_table.zone_malloc_fn(other, i));
        void *common = t_malloc(i);
        ASSERT_TRUE(mine != nullptr && its != nullptr && common != nullptr);
        EXPECT_EQ(t_table.zone_of_fn(mine), zone);
        EXPECT_EQ(t_table.zone_of_fn(its), other);
        EXPECT_EQ(t_table.zone_of_fn(common), nullptr);
        fill(its, i, i);
        fill(common, i, ~i);
        memset(mine, 1, i);
        kept.push_back(its);
        kept.push_back(common);
    }
    destroy();
    for (size_t i = 0; i < 1000; i++) {
        EXPECT_TRUE(holds(kept[2 * i], i, i)) << i;
        EXPECT_TRUE(holds(kept[2 * i + 1], i, ~i)) << i;
        t_free(kept[2 * i + 1]);
    }
    t_table.zone_destroy_fn(other);
}

/* Threads allocate from one zone, and free what others allocated, while yet others purge and ask. */
TEST_F(Zones, AnyThreadMayUseAZone) {
    constexpr size_t slots = 64;
    std::atomic<void *> exchange[slots] = {};
    std::vector<std::thread> threads;
    for (uint64_t seed = 0; seed < 3; seed++)
        threads.emplace_back([&, seed] {
            Random random(seed);
            for (int i = 0; i < (sanitized ? 3000 : 20000); i++) {
                size_t size = random.below(200) == 0 ? random.between(64 * KiB, 5 * MiB) : random.between(8, 4000);
                void *block = take(size);
                if (block == nullptr)
                    continue;
                memcpy(block, &size, sizeof(size));
                block = exchange[random.below(slots)].exchange(block);
                if (block == nullptr)
                    continue;
                memcpy(&size, block, sizeof(size));
                EXPECT_GE(t_usable_size(block), size);
                if (size % 5 == 0)
                    block = t_realloc(block, size / 2 + 8);
                t_free(block);
            }
        });
    for (int i = 0; i < 20; i++) {
        struct hz_zone_stats now = stats();
        EXPECT_GE(now.held_bytes, now.live_bytes + now.free_bytes);
        (void)t_table.purge_fn();
    }
    for (std::thread &thread : threads)
        thread.join();
    size_t left = 0;
    for (std::atomic<void *> &slot : exchange)
        left += slot.load() != nullptr;
    EXPECT_EQ(stats().live_blocks, left);
    destroy();
}

/* Zones come and go in many threads at once. */
TEST_F(Zones, ComeAndGo) {
    std::vector<std::thread> threads;
    for (uint64_t seed = 0; seed < 3; seed++)
        threads.emplace_back([seed] {
            Random random(seed);
            for (int round = 0; round < (sanitized ? 50 : 300); round++) {
                struct hz_zone *own = t_table.zone_create_fn();
                if (own == nullptr)
                    continue;
                std::vector<void *> blocks;
                for (size_t i = 0; i < 100; i++) {
                    void *block = t_table.zone_malloc_fn(own, random.between(1, 3000));
                    if (block != nullptr)
                        memset(block, static_cast<int>(seed), 1);
                    if (i % 3 == 0)
                        t_free(block);
                }
                t_table.zone_destroy_fn(own);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

TEST_F(Zones, AChildOfAForkGoesOnWithThem) {
    void *small = take(100);
    void *large = take(300 * KiB);
    void *direct = take(5 * MiB);
    ASSERT_TRUE(small != nullptr && large != nullptr && direct != nullptr);
    fill(small, 100, 1);
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        Random random(1);
        while (!stop.load())
            t_free(take(random.below(100) == 0 ? 3 * MiB : random.between(1, 200 * KiB)));
    });
    for (int i = 0; i < (sanitized ? 5 : 30); i++) {
        pid_t child = fork();
        if (child == 0) {
            bool good = holds(small, 100, 1);
            t_free(large);
            void *more[100];
            for (size_t k = 0; k < 100; k++) {
                more[k] = take(k * 2000);
                good = good && more[k] != nullptr;
            }
            for (size_t k = 0; k < 100; k += 2)
                t_free(more[k]);
            struct hz_zone_stats now = {};
            good = good && t_table.zone_stats_get_fn(zone, &now, sizeof(now)) == 0 && now.live_blocks >= 52;
            t_table.zone_destroy_fn(zone);
            struct hz_zone *another = t_table.zone_create_fn();
            good = good && another != nullptr && t_table.zone_malloc_fn(another, 10) != nullptr;
            _exit(good ? 0 : 1);
        }
        ASSERT_GT(child, 0);
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    stop.store(true);
    busy.join();
    EXPECT_EQ(stats().live_blocks, 3U);
}

} // namespace
