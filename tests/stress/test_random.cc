/*
 * Several threads do seeded random operations on their own and on shared slots and verify contents at every step.
 * HZ_STRESS_SEED=n sets the seed, to repeat a run or to vary it; a failure prints the seed.
 */
#include "blocks.h"
#include "threads.h"

#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>
#include <memory>

namespace {

using namespace support;

constexpr size_t thread_count = 4;
constexpr size_t own_slots = 400;
constexpr size_t shared_slots = 256;
constexpr size_t operations = sanitized ? 25000 : 600000;

struct Shared {
    std::atomic<void *> slots[shared_slots] = {};
    std::atomic<size_t> failures{0};
    std::atomic<uint64_t> thread_index{0};
    uint64_t seed = 0;
};

class Worker {
  public:
    Worker(Shared *shared, uint64_t seed) : shared_(shared), random_(seed) {
    }

    void run() {
        for (size_t i = 0; i < operations; i++)
            step();
        for (void *&slot : slots_)
            require(blocks::drop(slot));
    }

  private:
    void step() {
        void *&slot = slots_[random_.below(own_slots)];
        size_t dice = random_.below(100);
        if (dice < 45)
            replace(slot);
        else if (dice < 85)
            exchange(slot);
        else
            resize(slot);
    }

    void require(bool good) {
        if (!good)
            shared_->failures.fetch_add(1, std::memory_order_relaxed);
    }

    /* Frees the slot's block; if the slot is empty, allocates one with a random function. */
    void replace(void *&slot) {
        if (slot != nullptr) {
            require(blocks::drop(slot));
            slot = nullptr;
            return;
        }
        size_t size = blocks::pick_size(random_);
        slot = allocate(size);
        require(slot != nullptr);
        if (slot != nullptr)
            blocks::stamp(slot, size, random_.next());
    }

    void *allocate(size_t size) {
        size_t dice = random_.below(16);
        if (dice == 0) {
            void *block = t_calloc(1, size);
            require(block != nullptr && is_zero(block, size));
            return block;
        }
        if (dice == 1) {
            size_t alignment = size_t{16} << random_.below(10);
            void *block = t_aligned_alloc(alignment, size);
            require(aligned_to(block, alignment));
            return block;
        }
        return t_malloc(size);
    }

    void exchange(void *&slot) {
        slot = shared_->slots[random_.below(shared_slots)].exchange(slot, std::memory_order_acq_rel);
        require(slot == nullptr || blocks::intact(slot));
    }

    void resize(void *&slot) {
        if (slot == nullptr)
            return;
        blocks::Header old;
        memcpy(&old, slot, sizeof old);
        size_t size = blocks::pick_size(random_);
        void *resized = t_realloc(slot, size);
        require(resized != nullptr);
        if (resized == nullptr)
            return;
        slot = resized;
        size_t kept = std::min({size, size_t{old.size}, blocks::front_bytes}) - sizeof old;
        auto *contents = static_cast<unsigned char *>(slot) + sizeof old;
        require(memcmp(slot, &old, sizeof old) == 0 && holds(contents, kept / 8 * 8, old.seed));
        blocks::stamp(slot, size, random_.next());
    }

    Shared *shared_;
    Random random_;
    void *slots_[own_slots] = {};
};

void *run_worker(void *argument) {
    auto *shared = static_cast<Shared *>(argument);
    auto worker = std::make_unique<Worker>(shared, mix(shared->seed + shared->thread_index.fetch_add(1)));
    worker->run();
    return nullptr;
}

void run(uint64_t seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    size_t live = live_bytes();
    auto shared = std::make_unique<Shared>();
    shared->seed = seed;
    pthread_t started[thread_count];
    for (pthread_t &thread : started)
        ASSERT_EQ(threads::start(&thread, run_worker, shared.get()), 0);
    for (pthread_t thread : started)
        pthread_join(thread, nullptr);
    size_t damaged = 0;
    for (std::atomic<void *> &slot : shared->slots)
        damaged += blocks::drop(slot.load()) ? 0 : 1;
    EXPECT_EQ(shared->failures.load(), 0U);
    EXPECT_EQ(damaged, 0U);
    if (!t_system) {
        EXPECT_EQ(live_bytes(), live);
    }
}

TEST(RandomOperations, ContentsSurvive) {
    const char *chosen = getenv("HZ_STRESS_SEED");
    if (chosen != nullptr) {
        char *end = nullptr;
        errno = 0;
        uint64_t seed = strtoull(chosen, &end, 10);
        ASSERT_TRUE(errno == 0 && end != chosen && *end == '\0')
            << "HZ_STRESS_SEED is '" << chosen << "'; allowed: a number from 0 to 2^64 - 1";
        run(seed);
        return;
    }
    for (uint64_t seed : {uint64_t{1}, uint64_t{20240607}, uint64_t{987654321}})
        run(seed);
}

/* The suite relies on its self-describing blocks to detect damage. */
TEST(BlocksSelfTest, DamageIsDetected) {
    for (size_t size : {size_t{9}, size_t{100}, size_t{1032}, size_t{5000}, 100 * KiB}) {
        for (size_t at : {size_t{8}, size - 1, std::min(size / 2, blocks::front_bytes)}) {
            auto *block = static_cast<unsigned char *>(blocks::make(size, 3));
            ASSERT_TRUE(blocks::intact(block));
            block[std::max<size_t>(at, 8)] ^= 1;
            EXPECT_FALSE(blocks::intact(block)) << "size " << size << " at " << at;
            t_free(block);
        }
    }
}

} // namespace
