/* The bins of the CPUs: what threads free rests there, whichever thread takes it, and comes home from everywhere. */
#include "stress/blocks.h"
#include "stress/children.h"
#include "unit/heap/at_rest.h"
#include "unit/heap/worker.h"
#include "unit/together.h"

#include <algorithm>
#include <set>
#include <sys/rseq.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using children::require;
using unit::Blocks;
using unit::Worker;

constexpr unsigned some_class = 5;
constexpr unsigned mid_class = HZ_MID_CLASS_FIRST + 3;

size_t resting() {
    size_t count = 0;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        count += hz_cpu_bins_held(size_class);
    return count;
}

/* The calling thread uses the bins of its CPU from now on, for frees too. */
void join() {
    unit::self()->frees_watched = HZ_FREES_WATCHED;
    struct hz_thread_block *self = hz_thread_enter();
    hz_cpu_bins_join(self);
    hz_thread_leave(self);
}

/* Calls a function as a slow path would. */
template <typename Call> auto in_slow_path(Call call) {
    struct hz_thread_block *self = hz_thread_enter();
    auto result = call(self);
    hz_thread_leave(self);
    return result;
}

uint32_t reclaim() {
    return in_slow_path([](struct hz_thread_block *self) { return hz_cpu_bins_reclaim(self); });
}

enum hz_cpu_rest look() {
    return in_slow_path([](struct hz_thread_block *self) { return hz_cpu_bins_look(self); });
}

Blocks allocate(unsigned size_class, size_t count) {
    Blocks blocks;
    for (size_t i = 0; i < count; i++)
        blocks.push_back(blocks::make(hz_class_bytes(size_class), i + 1));
    return blocks;
}

void free_all(const Blocks &blocks) {
    for (void *block : blocks)
        require(blocks::drop(block), "a block holds what was written to it");
}

class CpuBins : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!HZ_RSEQ_IS_BUILT || __rseq_size == 0)
            GTEST_SKIP() << "threads are not registered for restartable sequences here";
        hz_cpu_bins_start();
        ASSERT_TRUE(hz_cpu_bins_are_on());
        join();
        ASSERT_TRUE(hz_cpu_is_joined());
    }
    void TearDown() override {
        hz_cpu_bins_stop(false);
        (void)reclaim();
        EXPECT_EQ(resting(), 0U);
    }
};

TEST_F(CpuBins, AFreedBlockRestsWithTheCpuAndNotWithTheThread) {
    unit::OnCpu pinned;
    Blocks blocks = allocate(some_class, 40);
    size_t before = hz_cpu_bins_held(some_class);
    free_all(blocks);
    EXPECT_EQ(hz_cpu_bins_held(some_class), before + 40);
    EXPECT_EQ(unit::bin_count(unit::self(), some_class), 0U);
    EXPECT_EQ(t_malloc(hz_class_bytes(some_class)), blocks.back());
    t_free(blocks.back());
}

TEST_F(CpuBins, AnotherThreadOfTheCpuTakesIt) {
    unit::OnCpu pinned;
    void *block = blocks::make(hz_class_bytes(mid_class), 1);
    void *taken = nullptr;
    ASSERT_TRUE(blocks::drop(block));
    std::thread([&] {
        join();
        taken = t_malloc(hz_class_bytes(mid_class));
        t_free(taken);
    }).join();
    EXPECT_EQ(taken, block);
}

TEST_F(CpuBins, ManyBlocksGoOnToTheDepotAndComeBack) {
    unit::OnCpu pinned;
    for (unsigned size_class : unit::some_classes()) {
        Blocks blocks = allocate(size_class, 4 * hz_bin_capacity(size_class));
        free_all(blocks);
        EXPECT_LE(hz_cpu_bins_held(size_class), hz_bin_capacity(size_class));
        std::set<void *> different(blocks.begin(), blocks.end());
        ASSERT_EQ(different.size(), blocks.size());
    }
}

TEST_F(CpuBins, AllBinsOfACpuHaveRoomForAsMuchAsIsAllowed) {
    unit::OnCpu pinned;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        free_all(allocate(size_class, 2 * hz_bin_capacity(size_class)));
    size_t bytes = 0;
    size_t free_of_charge = 0;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        bytes += hz_cpu_bins_held(size_class) * hz_class_bytes(size_class);
        free_of_charge += hz_max(hz_batch_count(size_class), hz_bin_first(size_class)) * hz_class_bytes(size_class);
    }
    EXPECT_LE(bytes, HZ_CPU_BYTES + HZ_ROOM_SHARED_BYTES + hz_pressure_recent_out_short() / 2 + free_of_charge)
        << "beyond the room a bin has one batch at most";
}

TEST_F(CpuBins, StatisticsCountThemAsBlocksInBins) {
    unit::OnCpu pinned;
    hz_heap_purge();
    Blocks blocks = allocate(mid_class, 2);
    double before = unit::bytes_at_rest("bins_bytes") + unit::bytes_at_rest("depot_bytes");
    size_t live = unit::stats().live_bytes;
    free_all(blocks);
    EXPECT_EQ(unit::bytes_at_rest("bins_bytes") + unit::bytes_at_rest("depot_bytes"),
              before + 2.0 * static_cast<double>(hz_class_bytes(mid_class)));
    EXPECT_EQ(unit::stats().live_bytes, live - 2 * hz_class_bytes(mid_class));
}

TEST_F(CpuBins, APurgeTakesWhatRestsWithEveryCpu) {
    for (int cpu : unit::cpus()) {
        unit::OnCpu pinned(cpu);
        free_all(allocate(some_class, 30));
    }
    EXPECT_GT(resting(), 0U);
    hz_heap_purge();
    EXPECT_EQ(resting(), 0U);
    EXPECT_TRUE(unit::at_rest().empty());
}

/* As a purge does while other CPUs are busy. */
TEST_F(CpuBins, AClosedSlabIsNotOpenedBeforeItsBlocksAreHome) {
    unit::OnCpu pinned;
    Blocks later = allocate(some_class, 10);
    free_all(allocate(some_class, 10));
    size_t rested = resting();
    ASSERT_GT(rested, 0U);
    ASSERT_TRUE(hz_cpu_bins_close());
    free_all(later);
    EXPECT_EQ(resting(), rested) << "the slab is not in use";
    EXPECT_EQ(reclaim(), rested);
    EXPECT_EQ(resting(), 0U);
    free_all(allocate(mid_class, 2));
    EXPECT_GT(resting(), 0U) << "it is open again";
}

TEST_F(CpuBins, SlabsStayOpenIfTheKernelRefusesTheFence) {
    unit::OnCpu pinned;
    pid_t child = fork();
    if (child == 0) {
        hz_cpu_bins_start();
        join();
        free_all(allocate(some_class, 10));
        size_t rested = resting();
        require(rested > 0, "the blocks rest with the CPU");
        hz_os_confine(); /* from now on the fence is not called, as if the kernel refused it */
        require(!hz_cpu_bins_close(), "the keeper is told that it must stay awake");
        require(reclaim() == 0 && resting() == rested, "nothing was taken");
        require(hz_cpu_pop(hz_bin_offset(some_class)) != nullptr, "threads find the blocks");
        _exit(0);
    }
    children::expect_good_end(child);
}

TEST_F(CpuBins, AClosedSlabIsOpenedByTheNextSlowPath) {
    unit::OnCpu pinned;
    free_all(allocate(some_class, 10));
    EXPECT_TRUE(hz_cpu_bins_close());
    EXPECT_FALSE(hz_cpu_push(hz_bin_offset(some_class), nullptr));
    EXPECT_EQ(hz_cpu_pop(hz_bin_offset(some_class)), nullptr);
    EXPECT_GT(reclaim(), 0U);
    free_all(allocate(some_class, 10));
    EXPECT_NE(hz_cpu_pop(hz_bin_offset(some_class)), nullptr) << "it is open again (one block is lost to this test)";
}

TEST_F(CpuBins, TheKeeperEmptiesASlabThatNobodyUses) {
    constexpr int rounds = 12;
    unit::OnCpu pinned;
    free_all(allocate(some_class, 30));
    EXPECT_EQ(look(), HZ_CPU_WORKS);
    for (int round = 0; round < rounds; round++)
        (void)look();
    EXPECT_EQ(resting(), 0U);
}

TEST_F(CpuBins, ASlabInUseKeepsItsBlocks) {
    constexpr int rounds = 12;
    unit::OnCpu pinned;
    free_all(allocate(some_class, 30));
    Blocks kept;
    for (int round = 0; round < rounds; round++) {
        kept.push_back(t_malloc(hz_class_bytes(some_class)));
        EXPECT_EQ(look(), HZ_CPU_WORKS);
    }
    EXPECT_GT(resting(), 0U);
    for (void *block : kept)
        t_free(block);
}

TEST_F(CpuBins, WithoutAKeeperThreadsUseTheirOwnBinsAgain) {
    unit::OnCpu pinned;
    free_all(allocate(some_class, 30));
    hz_cpu_bins_stop(false);
    EXPECT_FALSE(hz_cpu_bins_are_on());
    EXPECT_GT(reclaim(), 0U);
    EXPECT_EQ(resting(), 0U);
    free_all(allocate(some_class, 30));
    EXPECT_FALSE(hz_cpu_is_joined());
    EXPECT_EQ(resting(), 0U);
}

TEST_F(CpuBins, TheFirstFreesOfAThreadAreWatched) {
    unit::OnCpu pinned;
    std::thread([] {
        void *block = t_malloc(hz_class_bytes(some_class));
        t_free(block); /* into its page or its own bin */
        require(!hz_cpu_is_joined(), "the thread's frees are still watched");
    }).join();
}

/* The keeper parks all others, however empty their bins are. */
TEST_F(CpuBins, OthersSeeWhetherAThreadFreesIntoThem) {
    std::thread([] {
        (void)hz_thread_attach();
        struct hz_thread_block *self = hz_thread_mine;
        in_slow_path([](struct hz_thread_block *each) { return hz_cpu_bins_join(each), 0; });
        require(!hz_cpu_bins_has(self), "the thread's frees are still watched");
        join();
        require(hz_cpu_bins_has(self), "the thread has joined");
        hz_cpu_bins_leave(self);
        require(!hz_cpu_bins_has(self), "the thread has left");
        join();
        hz_thread_detach(self);
        require(!hz_cpu_bins_has(self), "the thread has ended");
    }).join();
    EXPECT_TRUE(hz_cpu_bins_has(unit::self()));
    hz_cpu_bins_stop(false);
    EXPECT_FALSE(hz_cpu_bins_has(unit::self()));
}

TEST_F(CpuBins, NoCpuHasBinsWhileAllocationsAreSampled) {
    constexpr uint32_t rate = 1000;
    pid_t child = fork();
    if (child == 0) {
        if (!hz_sample_start(rate))
            _exit(0); /* this build has no sampling */
        hz_cpu_bins_start();
        require(!hz_cpu_bins_are_on(), "no CPU has bins");
        _exit(0);
    }
    children::expect_good_end(child);
}

TEST_F(CpuBins, ADoubleFreeOfTheNewestBlockEndsTheProgram) {
    unit::OnCpu pinned;
    EXPECT_DEATH(
        {
            hz_cpu_bins_start();
            join();
            void *block = t_malloc(hz_class_bytes(some_class));
            t_free(block);
            t_free(block);
        },
        "");
}

/* The thread's own bin has the block: it was freed before the thread joined, by a free or by an allocation. */
TEST_F(CpuBins, ADoubleFreeOfABlockInTheThreadsOwnBinEndsTheProgram) {
    for (bool joins_before : {false, true}) {
        hz_cpu_bins_start();
        join();
        unit::OnCpu pinned;
        EXPECT_DEATH(
            {
                unit::self()->frees_watched = HZ_FREES_WATCHED;
                void *block = t_malloc(hz_class_bytes(some_class));
                t_free(block);
                require(unit::bin_count(unit::self(), some_class) > 0, "the child's thread has left");
                hz_cpu_bins_start();
                std::thread([] {
                    join();
                    free_all(allocate(some_class, 40)); /* raises the limit of the CPU's bin */
                }).join();
                if (joins_before)
                    join();
                t_free(block);
            },
            "double free of block");
    }
}

/* Each thread frees what others have allocated, wanders over the CPUs, and the slabs are closed and emptied. */
TEST_F(CpuBins, NothingIsLostWhileThreadsWanderAndSlabsAreClosed) {
    constexpr unsigned threads = 4;
    constexpr size_t box_count = 256;
    static std::atomic<void *> boxes[box_count];
    std::atomic<bool> over{false};
    std::vector<int> cpus = unit::cpus();
    std::thread closer([&] {
        require(hz_thread_attach() != nullptr, "a thread that takes blocks home has a shard");
        while (!over.load()) {
            (void)hz_cpu_bins_close();
            (void)reclaim();
            (void)look();
            (void)resting();
            std::this_thread::yield();
        }
    });
    unit::together(threads, [&](unsigned index) {
        support::Random random(index + 1);
        for (unsigned step = 0; step < unit::rounds(60000); step++) {
            if (step % 1024 == index)
                join();
            if (step % 512 == 0) {
                cpu_set_t one;
                CPU_ZERO(&one);
                CPU_SET(cpus[(step / 512 + index) % cpus.size()], &one);
                sched_setaffinity(0, sizeof(one), &one);
            }
            size_t size = blocks::least_size + random.below(step % 16 == 0 ? 20000 : 400);
            void *former = boxes[random.below(box_count)].exchange(blocks::make(size, random.next()));
            if (former != nullptr)
                require(blocks::drop(former), "a block holds what was written to it");
        }
    });
    over = true;
    closer.join();
    for (std::atomic<void *> &box : boxes)
        if (void *block = box.exchange(nullptr))
            require(blocks::drop(block), "a block holds what was written to it");
    hz_heap_purge();
    EXPECT_EQ(resting(), 0U);
}

/* A handler has interrupted a fast path between the look whether the thread has joined and the section, and forks: the
   child goes on with what the fast path has loaded. */
TEST_F(CpuBins, AFastPathGoesOnInTheChildOfAHandler) {
    unit::OnCpu pinned;
    size_t offset = hz_bin_offset(some_class);
    free_all(allocate(some_class, 30));
    uint64_t *pops = hz_cpu_link.pops;
    pid_t child = fork();
    if (child == 0) {
        require(!hz_cpu_is_joined(), "the child's thread has left");
        void *block = t_malloc(hz_class_bytes(some_class));
        require(hz_rseq_pop(pops, hz_cpu_link.cpu, hz_cpu_slabs, offset) == nullptr, "it finds no slab");
        require(!hz_rseq_push(pops, hz_cpu_link.cpu, hz_cpu_slabs, offset, block), "nor does a free");
        require(hz_cpu_pop(offset) == nullptr && !hz_cpu_push(offset, block), "as before the section");
        _exit(0);
    }
    children::expect_good_end(child);
}

/* The child's only thread finds all slabs closed; their blocks go home, and it can go on. */
TEST_F(CpuBins, AForksChildTakesThemHome) {
    unit::OnCpu pinned;
    free_all(allocate(some_class, 30));
    size_t rested = resting();
    ASSERT_GT(rested, 0U);
    pid_t child = fork();
    if (child == 0) {
        require(!hz_cpu_is_joined(), "the child's thread has left");
        require(resting() == rested, "the child has the slabs' blocks");
        free_all(allocate(some_class, 2 * hz_bin_capacity(some_class))); /* a refill reclaims */
        require(resting() == 0, "they have gone home");
        hz_cpu_bins_start();
        join();
        free_all(allocate(some_class, 30));
        require(hz_cpu_is_joined() && resting() > 0, "the child can use them again");
        _exit(0);
    }
    children::expect_good_end(child);
}

/* In a process whose threads glibc has not registered. */
void use_own_bins() {
    hz_cpu_bins_start();
    require(!hz_cpu_bins_are_on(), "no CPU has bins");
    join();
    free_all(allocate(some_class, 3 * hz_bin_capacity(some_class)));
    require(!hz_cpu_is_joined() && resting() == 0, "no block rests with a CPU");
    require(unit::bin_count(unit::self(), some_class) > 0, "blocks rest with the thread");
}

/* Where threads are registered, runs itself again with another setting of glibc. */
TEST(CpuBinsFallback, ThreadsThatAreNotRegisteredUseTheirOwnBins) {
    if (__rseq_size == 0) {
        use_own_bins();
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
        execl("/proc/self/exe", "test_cpu_bins", "--gtest_filter=CpuBinsFallback.*", nullptr);
        _exit(1);
    }
    children::expect_good_end(child);
}

} // namespace
