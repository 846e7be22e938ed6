/* The restartable sequences, on stacks of the test's own: threads that are moved from CPU to CPU and interrupted by
   signals never get the same value twice, and lose none. */
#include "unit/library.h"
#include "unit/on_cpu.h"
#include "unit/together.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr size_t slot_count = 64;
constexpr size_t value_count = 96; /* more than fit into one stack, fewer than fit into two */
constexpr size_t first = 16;       /* byte offset of the first slot: the one below it stays empty */

struct Slab {
    uint32_t top = first;
    uint32_t limit = first + (slot_count - 1) * sizeof(void *);
    std::array<void *, slot_count> slots{}; /* slots[0] is below the first */
};
static_assert(offsetof(Slab, slots) + sizeof(void *) == first);

/* The stacks of all CPUs. */
class Slabs {
  public:
    explicit Slabs(bool with_memory = true) : owned_(with_memory ? HZ_CPUS : 0) {
        for (size_t cpu = 0; cpu < owned_.size(); cpu++)
            table_[cpu] = &owned_[cpu];
    }
    void *pop() {
        return hz_rseq_pop(cs(), cpu(), table_.data(), 0);
    }
    bool push(void *value) {
        return hz_rseq_push(cs(), cpu(), table_.data(), 0, value);
    }
    Slab &at(size_t cpu) {
        return owned_[cpu];
    }
    /* All values, in whatever stack. No thread uses the stacks meanwhile. */
    std::vector<void *> values() {
        std::vector<void *> found;
        for (Slab &slab : owned_)
            for (size_t top = slab.top; top > first; top -= sizeof(void *))
                found.push_back(slab.slots[top / sizeof(void *) - 2]);
        return found;
    }
    static uint64_t *cs() {
        return reinterpret_cast<uint64_t *>(hz_rseq_area() + HZ_RSEQ_CS_AT / sizeof(uint32_t));
    }
    static const uint32_t *cpu() {
        return hz_rseq_area() + number_at / sizeof(uint32_t);
    }
    static inline size_t number_at = HZ_RSEQ_CPU_ID_AT; /* of the word with the number */

  private:
    std::vector<Slab> owned_;
    std::array<void *, HZ_CPUS> table_{};
};

class Rseq : public ::testing::Test {
  protected:
    void SetUp() override {
        /* this reference makes the linker take glibc's variables, to which the library only has weak references */
        if (!HZ_RSEQ_IS_BUILT || __rseq_size == 0)
            GTEST_SKIP() << "threads are not registered for restartable sequences here";
        ASSERT_EQ(reinterpret_cast<char *>(hz_rseq_area()), hz_thread_pointer() + __rseq_offset);
    }
};

void *value_of(size_t number) {
    return reinterpret_cast<void *>(number * HZ_GRANULE_BYTES);
}

TEST_F(Rseq, PopsWhatWasPushedLast) {
    unit::OnCpu pinned;
    Slabs slabs;
    EXPECT_EQ(slabs.pop(), nullptr);
    EXPECT_TRUE(slabs.push(value_of(1)));
    EXPECT_TRUE(slabs.push(value_of(2)));
    EXPECT_EQ(slabs.pop(), value_of(2));
    EXPECT_EQ(slabs.pop(), value_of(1));
    EXPECT_EQ(slabs.pop(), nullptr);
}

TEST_F(Rseq, APushGivesUpAtTheLimitAndForTheNewestValue) {
    unit::OnCpu pinned;
    Slabs slabs;
    for (size_t number = 1; number < slot_count; number++)
        ASSERT_TRUE(slabs.push(value_of(number)));
    EXPECT_FALSE(slabs.push(value_of(slot_count)));
    ASSERT_EQ(slabs.pop(), value_of(slot_count - 1));
    EXPECT_FALSE(slabs.push(value_of(slot_count - 2))) << "it is the newest";
    EXPECT_TRUE(slabs.push(value_of(slot_count)));
}

TEST_F(Rseq, GivesUpWithoutAStackOrOnACpuTooHigh) {
    Slabs none(false);
    EXPECT_EQ(none.pop(), nullptr);
    EXPECT_FALSE(none.push(value_of(1)));
    Slabs slabs;
    std::array<void *, HZ_CPUS> empty{};
    for (uint32_t number : {uint32_t{HZ_CPUS}, UINT32_MAX, UINT32_MAX - 1}) { /* the last two: not registered */
        EXPECT_EQ(hz_rseq_pop(Slabs::cs(), &number, empty.data(), 0), nullptr);
        EXPECT_FALSE(hz_rseq_push(Slabs::cs(), &number, empty.data(), 0, value_of(1)));
    }
}

TEST(RseqKernel, OnArm64ReleasesFrom619OnAreNotSound) {
    for (const char *release : {"4.18.0", "5.10.0-32-arm64", "6.1.0-49-arm64", "6.6", "6.18.44", "6.18-rc1"})
        EXPECT_TRUE(hz_rseq_is_sound_on_arm64(release)) << release;
    for (const char *release :
         {"6.19.0", "6.19-rc1", "6.100.1", "7.0.0", "10.1.2", "3.10.0", "4.4.0", "7", "", "linux"})
        EXPECT_FALSE(hz_rseq_is_sound_on_arm64(release)) << release;
}

TEST_F(Rseq, TheKindOfNumberDoesNotDependOnTheThread) {
    constexpr long unregister = 1; /* RSEQ_FLAG_UNREGISTER */
    size_t bytes = hz_rseq_area_bytes();
    EXPECT_GT(bytes, 0U);
    bool unregistered = false;
    std::thread([&] {
        uint32_t *area = hz_rseq_area();
        for (unsigned length : {32U, __rseq_size}) /* glibc 2.35 to 2.40 register 32 bytes */
            unregistered |= syscall(SYS_rseq, area, length, unregister, RSEQ_SIG) == 0;
        if (!unregistered)
            return;
        EXPECT_EQ(hz_rseq_area(), nullptr);
        EXPECT_EQ(hz_rseq_area_bytes(), bytes);
    }).join();
    if (!unregistered)
        GTEST_SKIP() << "the kernel does not let the thread go";
}

TEST(RseqNumber, IsThatOfTheVirtualCpuWhereTheAreaHasIt) {
    EXPECT_EQ(hz_rseq_number_at(20), size_t{HZ_RSEQ_CPU_ID_AT});
    EXPECT_EQ(hz_rseq_number_at(HZ_RSEQ_MM_CID_BYTES - 1), size_t{HZ_RSEQ_CPU_ID_AT});
    EXPECT_EQ(hz_rseq_number_at(HZ_RSEQ_MM_CID_BYTES), size_t{HZ_RSEQ_MM_CID_AT});
    EXPECT_EQ(hz_rseq_number_at(32), size_t{HZ_RSEQ_MM_CID_AT});
}

/* The thread is known by its area: the kernel writes there on which CPU it is. */
TEST_F(Rseq, UsesTheStackOfTheCpuOnWhichTheThreadIs) {
    Slabs slabs;
    for (int cpu : unit::cpus()) {
        unit::OnCpu pinned(cpu);
        ASSERT_TRUE(slabs.push(value_of(static_cast<size_t>(cpu) + 1)));
        EXPECT_EQ(slabs.at(static_cast<size_t>(cpu)).slots[1], value_of(static_cast<size_t>(cpu) + 1));
        EXPECT_EQ(slabs.at(static_cast<size_t>(cpu)).top, first + sizeof(void *));
    }
}

volatile sig_atomic_t interruptions = 0;

Slabs *interrupted;                                  /* the stacks that the handler uses too */
std::array<std::atomic<bool>, value_count + 1> held; /* by number: somebody has popped it */

bool hold(void *value) {
    return !held[reinterpret_cast<uintptr_t>(value) / HZ_GRANULE_BYTES].exchange(true);
}

/* Lets go of a value, into whatever stack has room. */
void give(Slabs &slabs, void *value) {
    held[reinterpret_cast<uintptr_t>(value) / HZ_GRANULE_BYTES].store(false);
    while (!slabs.push(value))
        std::this_thread::yield();
}

std::atomic<unsigned> seen_twice;

/* A handler that runs sections of its own, between any two instructions of the one that it interrupts. */
void use_in_handler(int) {
    int saved = errno;
    void *value = interrupted->pop();
    if (value != nullptr) {
        seen_twice += !hold(value);
        held[reinterpret_cast<uintptr_t>(value) / HZ_GRANULE_BYTES].store(false);
        while (!interrupted->push(value)) {
        }
    }
    interruptions = interruptions + 1;
    errno = saved;
}

/* Pops and pushes while it wanders over the CPUs. */
void wander(Slabs &slabs, unsigned index, const std::vector<int> &cpus, unsigned steps) {
    std::vector<void *> mine;
    for (unsigned step = 0; step < steps; step++) {
        if (step % 512 == index % 512) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpus[(step / 512 + index) % cpus.size()], &one);
            sched_setaffinity(0, sizeof(one), &one);
        }
        void *value = mine.size() < 4 ? slabs.pop() : nullptr;
        if (value != nullptr) {
            seen_twice += !hold(value);
            mine.push_back(value);
        } else if (!mine.empty()) {
            give(slabs, mine.back());
            mine.pop_back();
        }
    }
    for (void *value : mine)
        give(slabs, value);
}

/* Half of the values in each of two stacks: the even numbers fill slots 1, 2, ... of the first one. */
void fill(Slab &even, Slab &odd) {
    for (size_t number = 1; number <= value_count; number++)
        (number % 2 == 0 ? even : odd).slots[number / 2 + number % 2] = value_of(number);
    even.top = odd.top = first + value_count / 2 * sizeof(void *);
}

/* In `stacks[0]` and `stacks[1]` there are values at the beginning. */
void wander_and_interrupt(const std::array<int, 2> &stacks) {
    constexpr unsigned threads = 4;
    std::vector<int> cpus = unit::cpus();
    Slabs slabs;
    fill(slabs.at(static_cast<size_t>(stacks[0])), slabs.at(static_cast<size_t>(stacks[1])));
    interrupted = &slabs;
    struct sigaction action = {};
    action.sa_handler = use_in_handler;
    action.sa_flags = SA_RESTART;
    ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
    std::atomic<unsigned> running{threads};
    std::array<std::atomic<pthread_t>, threads> ids{};
    std::thread sender([&] {
        while (running.load() > 0) {
            for (std::atomic<pthread_t> &id : ids)
                if (id.load() != pthread_t{})
                    pthread_kill(id.load(), SIGUSR1);
            std::this_thread::yield();
        }
    });
    std::atomic<bool> may_end{false};
    std::vector<std::thread> workers;
    for (unsigned index = 0; index < threads; index++)
        workers.emplace_back([&, index] {
            ids[index].store(pthread_self());
            wander(slabs, index, cpus, unit::rounds(1000000));
            running--;
            while (!may_end.load()) /* its id stays valid */
                std::this_thread::yield();
        });
    sender.join();
    may_end = true;
    for (std::thread &worker : workers)
        worker.join();
    std::vector<void *> found = slabs.values();
    std::sort(found.begin(), found.end());
    EXPECT_EQ(seen_twice.load(), 0U);
    EXPECT_EQ(found.size(), value_count);
    EXPECT_EQ(std::unique(found.begin(), found.end()), found.end());
    EXPECT_GT(interruptions, 0);
}

TEST_F(Rseq, WanderingAndInterruptedThreadsKeepEveryValueOnce) {
    std::vector<int> cpus = unit::cpus();
    wander_and_interrupt({cpus.front(), cpus.back() != cpus.front() ? cpus.back() : cpus.front() + 1});
}

/* The kernel writes this word into every area that has room for it, which glibc's always has, since Linux 6.3. */
TEST_F(Rseq, TheSameWithNumbersOfVirtualCpus) {
    constexpr unsigned long feature_size = 27; /* AT_RSEQ_FEATURE_SIZE */
    if (getauxval(feature_size) < HZ_RSEQ_MM_CID_BYTES)
        GTEST_SKIP() << "the kernel has no virtual CPUs";
    Slabs::number_at = HZ_RSEQ_MM_CID_AT;
    wander_and_interrupt({0, 1});
    Slabs::number_at = HZ_RSEQ_CPU_ID_AT;
}

} // namespace
