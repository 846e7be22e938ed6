/* Purging: freed and purged memory leaves the process, as measured by the kernel. */
#include "api.h"
#include "support.h"

#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <thread>

namespace {

using namespace support;

constexpr size_t burst_bytes = 100 * MiB;
/* glibc keeps 64 MiB for the arena of a thread that has ended. */
const size_t may_stay_bytes = t_ours() ? 24 * MiB : 88 * MiB;

class Purge : public testing::TestWithParam<size_t> {
  protected:
    void SetUp() override {
        if (sanitized)
            GTEST_SKIP() << "sanitizers keep freed memory and count their shadow as resident";
    }
};

/* The test's list of a burst's blocks takes memory too (26 MB for the smallest blocks). Destroying the list must unmap
   that memory, or it would be counted. */
template <typename T> struct MappedMemory {
    using value_type = T;
    MappedMemory() = default;
    template <typename U> explicit MappedMemory(const MappedMemory<U> &) {
    }
    T *allocate(size_t count) {
        void *memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            abort();
        return static_cast<T *>(memory);
    }
    void deallocate(T *memory, size_t count) {
        munmap(memory, count * sizeof(T));
    }
    bool operator==(const MappedMemory &) const {
        return true;
    }
    bool operator!=(const MappedMemory &) const {
        return false;
    }
};

using Burst = std::vector<void *, MappedMemory<void *>>;

Burst burst(size_t size) {
    Burst blocks(burst_bytes / size);
    for (void *&block : blocks) {
        block = t_malloc(size);
        if (block == nullptr)
            abort();
        memset(block, 1, size);
    }
    return blocks;
}

TEST_P(Purge, ResidentMemoryFallsAfterTheBurst) {
    t_give_back();
    size_t before = resident_bytes();
    {
        Burst blocks = burst(GetParam());
        EXPECT_GT(resident_bytes(), before + burst_bytes / 2) << "the burst is not resident: the test proves nothing";
        for (void *block : blocks)
            t_free(block);
    }
    t_give_back();
    EXPECT_LT(resident_bytes(), before + may_stay_bytes);
}

TEST_P(Purge, ResidentMemoryFallsWhenAnotherThreadFreed) {
    t_give_back();
    size_t before = resident_bytes();
    {
        Burst blocks = burst(GetParam());
        std::thread other([&] {
            for (void *block : blocks)
                t_free(block);
        });
        other.join();
    }
    t_give_back();
    EXPECT_LT(resident_bytes(), before + may_stay_bytes);
}

TEST_P(Purge, ResidentMemoryFallsAfterTheOwnerDied) {
    t_give_back();
    size_t before = resident_bytes();
    {
        Burst blocks;
        std::thread owner([&] { blocks = burst(GetParam()); });
        owner.join();
        for (void *block : blocks)
            t_free(block);
    }
    t_give_back();
    EXPECT_LT(resident_bytes(), before + may_stay_bytes);
}

/* A purge must not touch live blocks: one block in each hundred stays live. */
TEST_P(Purge, LiveBlocksSurvive) {
    Burst blocks = burst(GetParam());
    for (size_t i = 0; i < blocks.size(); i++)
        if (i % 100 == 0)
            fill(blocks[i], GetParam(), i);
        else
            t_free(blocks[i]);
    t_give_back();
    for (size_t i = 0; i < blocks.size(); i += 100) {
        EXPECT_TRUE(holds(blocks[i], GetParam(), i));
        t_free(blocks[i]);
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Purge,
                         testing::Values(64, 1000, 10 * KiB, 60 * KiB, 300 * KiB, 1536 * KiB, 5 * MiB, 50 * MiB),
                         [](const testing::TestParamInfo<size_t> &each) {
                             return std::to_string(each.param) + "Bytes";
                         });

/* Repeated bursts must reuse purged memory rather than map new address space. */
TEST(PurgeReuse, AddressSpaceDoesNotGrowWithEveryBurst) {
    if (sanitized)
        GTEST_SKIP() << "sanitizers keep freed memory";
    auto round = [] {
        for (size_t size : {size_t{100}, 20 * KiB, 1 * MiB, 7 * MiB}) {
            Burst blocks = burst(size);
            for (void *block : blocks)
                t_free(block);
            t_give_back();
        }
    };
    round();
    size_t before = proc_bytes("/proc/self/status", "VmSize:");
    round();
    EXPECT_LT(proc_bytes("/proc/self/status", "VmSize:"), before + burst_bytes / 2);
}

} // namespace
