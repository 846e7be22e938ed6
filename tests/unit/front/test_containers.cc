/* hakozuna.hpp: containers over the common heap and over zones, memory resources, and zones that end with their scope.
 */
#include "hakozuna/hakozuna.hpp"

#include <cstdint>
#include <deque>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

template <class T> using Vector = std::vector<T, hakozuna::allocator<T>>;
template <class T> using ZoneVector = std::vector<T, hakozuna::zone_allocator<T>>;
using ZoneString = std::basic_string<char, std::char_traits<char>, hakozuna::zone_allocator<char>>;

struct alignas(256) Wide {
    char bytes[256];
};

bool is_aligned(const void *address, size_t alignment) {
    return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

TEST(Allocator, ServesContainers) {
    Vector<int> numbers;
    for (int i = 0; i < 100000; i++)
        numbers.push_back(i);
    EXPECT_EQ(numbers[99999], 99999);
    EXPECT_GE(hz_usable_size(numbers.data()), numbers.capacity() * sizeof(int));
    std::map<int, int, std::less<>, hakozuna::allocator<std::pair<const int, int>>> squares;
    for (int i = 0; i < 1000; i++)
        squares[i] = i * i;
    EXPECT_EQ(squares[30], 900);
    Vector<Wide> wide(3);
    EXPECT_TRUE(is_aligned(wide.data(), 256));
    EXPECT_TRUE(hakozuna::allocator<int>() == hakozuna::allocator<long>());
    EXPECT_FALSE(hakozuna::allocator<int>() != hakozuna::allocator<long>());
}

TEST(Allocator, RefusesByAnException) {
    constexpr size_t most = std::numeric_limits<size_t>::max();
    EXPECT_THROW((void)hakozuna::allocator<int>().allocate(most / 2), std::bad_array_new_length);
    EXPECT_THROW((void)hakozuna::allocator<char>().allocate(most), std::bad_alloc);
    hakozuna::zone zone;
    EXPECT_THROW((void)hakozuna::zone_allocator<int>(zone).allocate(most / 2), std::bad_array_new_length);
    EXPECT_THROW((void)zone.allocate(most), std::bad_alloc);
}

TEST(Zone, EndsWithItsScope) {
    struct hz_stats before = {};
    struct hz_stats after = {};
    hz_free(hz_malloc(10));
    ASSERT_EQ(hz_stats_get(&before, sizeof(before)), 0);
    {
        hakozuna::zone zone;
        for (size_t i = 0; i < 1000; i++)
            ASSERT_NE(zone.allocate(i), nullptr);
        EXPECT_TRUE(is_aligned(zone.allocate(100, 4096), 4096));
        EXPECT_EQ(zone.stats().live_blocks, 1001U);
        void *block = zone.allocate(10);
        EXPECT_EQ(hz_zone_of(block), zone.get());
        zone.deallocate(block);
        EXPECT_EQ(zone.stats().live_blocks, 1001U);
    }
    ASSERT_EQ(hz_stats_get(&after, sizeof(after)), 0);
    EXPECT_EQ(after.live_bytes, before.live_bytes);
}

TEST(Zone, Moves) {
    hakozuna::zone first;
    struct hz_zone *inside = first.get();
    hakozuna::zone second(std::move(first));
    EXPECT_EQ(second.get(), inside);
    hakozuna::zone third;
    third = std::move(second);
    EXPECT_EQ(third.get(), inside);
}

TEST(ZoneAllocator, KeepsContainersInTheirZone) {
    hakozuna::zone zone;
    hakozuna::zone other;
    {
        std::vector<ZoneString, hakozuna::zone_allocator<ZoneString>> words(zone);
        for (int i = 0; i < 100; i++)
            words.emplace_back("long enough not to be kept inside of the string", zone);
        EXPECT_EQ(hz_zone_of(words.data()), zone.get());
        EXPECT_EQ(hz_zone_of(words[99].data()), zone.get());
        EXPECT_EQ(zone.stats().live_blocks, 101U);

        ZoneVector<int> mine(1000, 1, zone);
        ZoneVector<int> its(1000, 2, other);
        EXPECT_TRUE(mine.get_allocator() != its.get_allocator());
        its = mine;
        EXPECT_EQ(hz_zone_of(its.data()), zone.get()) << "a copy takes the zone along";
        ZoneVector<int> moved(10, 3, other);
        moved = std::move(mine);
        EXPECT_EQ(hz_zone_of(moved.data()), zone.get());
    }
    EXPECT_EQ(zone.stats().live_blocks, 0U);
    EXPECT_EQ(other.stats().live_blocks, 0U);
}

TEST(MemoryResource, ServesContainersOfPmr) {
    hakozuna::memory_resource common;
    hakozuna::zone zone;
    hakozuna::memory_resource in_zone(zone);
    {
        std::pmr::vector<std::pmr::string> words(&in_zone);
        words.emplace_back("long enough not to be kept inside of the string");
        EXPECT_EQ(hz_zone_of(words.data()), zone.get());
        EXPECT_EQ(hz_zone_of(words[0].data()), zone.get());
        std::pmr::deque<int> numbers(&common);
        for (int i = 0; i < 1000; i++)
            numbers.push_back(i);
        EXPECT_EQ(hz_zone_of(&numbers.front()), nullptr);
        std::pmr::vector<Wide> wide(3, &in_zone);
        EXPECT_TRUE(is_aligned(wide.data(), 256));
        /* pools of the standard library on top */
        std::pmr::unsynchronized_pool_resource pool(&in_zone);
        std::pmr::vector<int> pooled(1000, 1, &pool);
        EXPECT_GT(zone.stats().live_blocks, 4U);
    }
    EXPECT_EQ(zone.stats().live_blocks, 0U);
    EXPECT_THROW((void)common.allocate(std::numeric_limits<size_t>::max()), std::bad_alloc);
}

TEST(MemoryResource, IsEqualToOneOfTheSameHeap) {
    hakozuna::zone zone;
    hakozuna::zone other;
    hakozuna::memory_resource common;
    EXPECT_TRUE(common == hakozuna::memory_resource());
    EXPECT_TRUE(hakozuna::memory_resource(zone) == hakozuna::memory_resource(zone));
    EXPECT_FALSE(hakozuna::memory_resource(zone) == hakozuna::memory_resource(other));
    EXPECT_FALSE(common == hakozuna::memory_resource(zone));
    EXPECT_FALSE(common == *std::pmr::new_delete_resource());
}

} // namespace
