/* The contract of os.h, kept by os_linux.c. */
#include "stress/children.h"
#include "unit/base/fixture.h"
#include "unit/on_cpu.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <ctime>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using children::require;
using support::is_zero;
using support::MiB;

size_t page() {
    return hz_os_page_bytes();
}

/* Asks the kernel, so that "no" does not crash the test. */
bool readable(const void *address) {
    int ends[2];
    if (pipe(ends) != 0)
        abort();
    bool yes = write(ends[1], address, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return yes;
}

bool writable(void *address) {
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], "", 1) != 1)
        abort();
    bool yes = read(ends[0], address, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return yes;
}

size_t resident_pages(void *address, size_t bytes) {
    std::vector<unsigned char> flags(bytes / page());
    if (mincore(address, bytes, flags.data()) != 0)
        return SIZE_MAX;
    return static_cast<size_t>(std::count_if(flags.begin(), flags.end(), [](unsigned char f) { return f & 1; }));
}

/* No call in these tests may change errno. */
class Os : public testing::Test {
  protected:
    void SetUp() override {
        errno = EILSEQ;
    }
    void TearDown() override {
        EXPECT_EQ(errno, EILSEQ);
    }
};

TEST(OsPage, IsTheKernels) {
    EXPECT_EQ(page(), static_cast<size_t>(sysconf(_SC_PAGESIZE)));
    EXPECT_TRUE(hz_is_power_of_two(page()));
    EXPECT_GE(page(), 4096U);
    EXPECT_LE(page(), 65536U);
}

TEST(OsReserve, IsAlignedAndNotReadable) {
    for (size_t alignment = page(); alignment <= 1024 * MiB; alignment *= 4) {
        auto *space = static_cast<char *>(hz_os_reserve(3 * MiB, alignment));
        ASSERT_NE(space, nullptr) << "alignment " << alignment;
        EXPECT_TRUE(support::aligned_to(space, alignment));
        EXPECT_FALSE(readable(space));
        ASSERT_TRUE(hz_os_commit(space + MiB, MiB));
        EXPECT_TRUE(is_zero(space + MiB, MiB));
        memset(space + MiB, 1, MiB);
        EXPECT_FALSE(readable(space + MiB - 1));
        EXPECT_FALSE(readable(space + 2 * MiB));
        EXPECT_TRUE(hz_os_unmap(space, 3 * MiB));
        EXPECT_FALSE(readable(space + MiB));
    }
}

TEST(OsMap, IsAlignedZeroAndWritable) {
    for (bool lazy : {false, true})
        for (size_t alignment = page(); alignment <= 256 * MiB; alignment *= 4) {
            auto *space = static_cast<char *>(hz_os_map(2 * page(), alignment, lazy));
            ASSERT_NE(space, nullptr);
            EXPECT_TRUE(support::aligned_to(space, alignment));
            EXPECT_TRUE(is_zero(space, 2 * page()));
            memset(space, 1, 2 * page());
            EXPECT_TRUE(hz_os_unmap(space, 2 * page()));
        }
}

TEST(OsMapZero, IsReadableAndWritableWhereCommitted) {
    size_t bytes = size_t{1} << 33;
    auto *table = static_cast<char *>(hz_os_map_zero(bytes, page()));
    ASSERT_NE(table, nullptr);
    hz_os_sparse(table, bytes);
    for (size_t offset : {size_t{0}, bytes / 2, bytes - page()})
        EXPECT_TRUE(is_zero(table + offset, page()));
    ASSERT_TRUE(hz_os_commit(table + bytes / 2, page()));
    table[bytes / 2] = 1;
    table[bytes / 2 + page() - 1] = 1;
    EXPECT_EQ(resident_pages(table + bytes / 2, 64 * page()), 1U);
    EXPECT_FALSE(writable(table + bytes / 2 + page())) << "a page that was not committed cannot be written";
    EXPECT_FALSE(writable(table + bytes / 2 - 1));
    EXPECT_TRUE(hz_os_unmap(table, bytes));
    EXPECT_FALSE(readable(table));
}

TEST(OsMap, LazyTablesCanBeHuge) {
    if (support::sanitized)
        GTEST_SKIP() << "sanitizers take most of the address space";
    size_t bytes = size_t{1} << 40;
    auto *table = static_cast<char *>(hz_os_map(bytes, page(), true));
    ASSERT_NE(table, nullptr);
    hz_os_sparse(table, bytes);
    table[0] = table[bytes / 2] = table[bytes - 1] = 1;
    EXPECT_EQ(resident_pages(table + bytes / 2, 64 * page()), 1U) << "touching one page makes one resident";
    EXPECT_TRUE(hz_os_unmap(table, bytes));
}

TEST_F(Os, RefusesWhatCannotBe) {
    EXPECT_EQ(hz_os_reserve(0, page()), nullptr);
    EXPECT_EQ(hz_os_reserve(SIZE_MAX & ~(page() - 1), page()), nullptr);
    EXPECT_EQ(hz_os_reserve(size_t{1} << 62, page()), nullptr);
    EXPECT_EQ(hz_os_reserve(page(), size_t{1} << 63), nullptr);
    EXPECT_EQ(hz_os_map(size_t{1} << 62, page(), true), nullptr);
    void *gone = hz_os_reserve(page(), page());
    ASSERT_TRUE(hz_os_unmap(gone, page()));
    EXPECT_FALSE(hz_os_commit(gone, page()));
    EXPECT_FALSE(hz_os_purge(gone, page()));
    EXPECT_EQ(hz_os_remap(gone, page(), 2 * page(), nullptr), nullptr);
    EXPECT_FALSE(hz_os_unmap(static_cast<char *>(gone) + 1, page())) << "the address does not start a page";
    hz_os_sparse(gone, page());
}

TEST_F(Os, PurgedMemoryIsZeroAndNotResident) {
    size_t bytes = 16 * page();
    auto *space = static_cast<char *>(hz_os_map(bytes, page(), false));
    hz_os_sparse(space, bytes);
    memset(space, 7, bytes);
    EXPECT_EQ(resident_pages(space, bytes), 16U);
    EXPECT_TRUE(hz_os_purge(space + 4 * page(), 8 * page()));
    EXPECT_EQ(resident_pages(space, bytes), 8U);
    EXPECT_TRUE(is_zero(space + 4 * page(), 8 * page()));
    EXPECT_EQ(space[4 * page() - 1], 7);
    EXPECT_EQ(space[12 * page()], 7);
    memset(space, 8, bytes);
    EXPECT_TRUE(hz_os_unmap(space, bytes));
}

TEST_F(Os, UnmapsAPart) {
    auto *space = static_cast<char *>(hz_os_map(3 * page(), page(), false));
    EXPECT_TRUE(hz_os_unmap(space + page(), page()));
    EXPECT_TRUE(readable(space));
    EXPECT_FALSE(readable(space + page()));
    EXPECT_TRUE(readable(space + 2 * page()));
    EXPECT_TRUE(hz_os_unmap(space, page()));
    EXPECT_TRUE(hz_os_unmap(space + 2 * page(), page()));
    errno = EILSEQ; /* readable() changed it */
}

TEST_F(Os, RemapMovesOntoTheTarget) {
    auto *from = static_cast<char *>(hz_os_map(2 * page(), page(), false));
    support::fill(from, 2 * page(), 3);
    auto *target = static_cast<char *>(hz_os_reserve(4 * page(), 4 * MiB));
    ASSERT_EQ(hz_os_remap(from, 2 * page(), 4 * page(), target), target);
    EXPECT_TRUE(support::holds(target, 2 * page(), 3));
    EXPECT_TRUE(is_zero(target + 2 * page(), 2 * page()));
    EXPECT_FALSE(readable(from));
    ASSERT_EQ(hz_os_remap(target, 4 * page(), page(), nullptr), target) << "shrinks in place";
    EXPECT_TRUE(support::holds(target, page(), 3));
    EXPECT_FALSE(readable(target + page()));
    EXPECT_TRUE(hz_os_unmap(target, page()));
    errno = EILSEQ;
}

/* The kernel moves no more than one mapping at once, and some kernels unmap the target before they see that. */
TEST_F(Os, RemapGivesTheTargetUpWhenItIsRefused) {
    for (size_t odd :
         {size_t{0}, 2 * MiB, 4 * MiB - 2 * page(), 4 * MiB - page()}) { /* a page with a protection of its own */
        char *block = static_cast<char *>(hz_os_map(4 * MiB, page(), false));
        void *target = hz_os_reserve(8 * MiB, page());
        ASSERT_TRUE(block != nullptr && target != nullptr);
        memset(block, 7, 4 * MiB);
        ASSERT_EQ(mprotect(block + odd, page(), PROT_READ), 0);
        EXPECT_EQ(hz_os_remap(block, 4 * MiB, 8 * MiB, target), nullptr);
        EXPECT_TRUE(block[0] == 7 && block[4 * MiB - 1] == 7) << "the block is as it was";
        unsigned char flags[8 * MiB / 4096];
        EXPECT_NE(mincore(target, 8 * MiB, flags), 0) << "nothing is mapped at the target";
        EXPECT_TRUE(hz_os_unmap(block, 4 * MiB));
    }
    errno = EILSEQ;
}

TEST_F(Os, RemapShrinksInPlace) {
    char *block = static_cast<char *>(hz_os_map(2 * MiB, page(), false));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(hz_os_remap(block, 2 * MiB, MiB, nullptr), block);
    EXPECT_TRUE(writable(block + MiB - 1));
    EXPECT_FALSE(readable(block + MiB));
    EXPECT_TRUE(hz_os_unmap(block, MiB));
    errno = EILSEQ;
}

TEST_F(Os, RemapInPlaceIsRefusedWhenBlocked) {
    auto *space = static_cast<char *>(hz_os_map(2 * page(), page(), false));
    support::fill(space, 2 * page(), 3);
    EXPECT_EQ(hz_os_remap(space, page(), 2 * page(), nullptr), nullptr) << "the next page is in use";
    EXPECT_TRUE(support::holds(space, 2 * page(), 3));
    EXPECT_TRUE(hz_os_unmap(space, 2 * page()));
}

TEST(OsRenew, LeavesTheMemoryIfItIsRefused) {
    children::expect_good_end(children::start([] {
        size_t bytes = 4 * hz_os_page_bytes();
        auto *space = static_cast<char *>(hz_os_map(bytes, hz_os_page_bytes(), false));
        require(space != nullptr, "memory can be mapped");
        support::fill(space, bytes, 5);
        struct rlimit before = {};
        getrlimit(RLIMIT_AS, &before);
        const struct rlimit nothing = {hz_os_page_bytes(), before.rlim_max};
        require(setrlimit(RLIMIT_AS, &nothing) == 0, "the limit can be set");
        void *more = hz_os_map(bytes, hz_os_page_bytes(), false);
        bool is_renewed = hz_os_renew(space, bytes);
        require(setrlimit(RLIMIT_AS, &before) == 0, "the limit can be lifted");
        if (more != nullptr) /* an emulator does not heed the limit */
            return 0;
        require(!is_renewed, "a renewal beyond the limit is refused");
        require(support::holds(space, bytes, 5), "the memory is as it was");
        require(hz_os_renew(space, bytes) && support::is_zero(space, bytes), "without the limit it is renewed");
        return 0;
    }));
}

/* The order of kernels before 6.12: what lies at a fixed address is unmapped before the new mapping is refused. */
bool is_older_kernel;
bool refuses_maps;

/* The C library's syscall. */
long real_call(long number, const long *arguments) {
    typedef long function(long, ...);
    static auto *const next = reinterpret_cast<function *>(dlsym(RTLD_NEXT, "syscall"));
    return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

long older_call(long number, const long *arguments) {
    constexpr int fixed = MAP_FIXED;
    const long unmap[6] = {
        number == SYS_mmap ? arguments[0] : arguments[4], number == SYS_mmap ? arguments[1] : arguments[2], 0, 0, 0, 0};
    bool is_map = number == SYS_mmap && refuses_maps && (arguments[2] & PROT_WRITE) != 0;
    bool is_move = number == SYS_mremap && !refuses_maps && (arguments[3] & MREMAP_FIXED) != 0;
    if (!is_map && !is_move)
        return real_call(number, arguments);
    if (is_move || (arguments[3] & fixed) != 0)
        (void)real_call(SYS_munmap, unmap);
    errno = ENOMEM;
    return -1;
}

TEST(OsRenew, LosesNothingUnderAnOlderKernel) {
    if (!HZ_CHECKS || HZ_TSAN)
        GTEST_SKIP() << "no test can stand in for the kernel (base/os/syscall.h)";
    for (bool refuses : {true, false})
        children::expect_good_end(children::start([refuses] {
            size_t bytes = 4 * page();
            auto *space = static_cast<char *>(hz_os_map(bytes, page(), false));
            require(space != nullptr, "memory can be mapped");
            support::fill(space, bytes, 5);
            refuses_maps = refuses;
            is_older_kernel = true;
            bool is_renewed = hz_os_renew(space, bytes);
            is_older_kernel = false;
            require(is_renewed == !refuses, "it is refused if no memory can be had");
            require(readable(space), "there is no hole");
            require(is_renewed ? is_zero(space, bytes) : support::holds(space, bytes, 5),
                    "the memory is new, or as it was");
            return 0;
        }));
}

TEST(OsLimit, IsTheOneOfTheAddressSpace) {
    children::expect_good_end(children::start([] {
        struct rlimit limit = {};
        getrlimit(RLIMIT_AS, &limit);
        if (limit.rlim_cur == RLIM_INFINITY)
            require(hz_os_address_space_limit() == SIZE_MAX, "unlimited is SIZE_MAX");
        limit.rlim_cur = size_t{1} << 45;
        require(setrlimit(RLIMIT_AS, &limit) == 0, "the limit can be set");
        require(hz_os_address_space_limit() == size_t{1} << 45, "the limit is reported");
        return 0;
    }));
}

TEST(OsLimit, OfDataIsTheHardOne) {
    children::expect_good_end(children::start([] {
        struct rlimit limit = {};
        getrlimit(RLIMIT_DATA, &limit);
        if (limit.rlim_max == RLIM_INFINITY)
            require(hz_os_data_limit() == SIZE_MAX, "unlimited is SIZE_MAX");
        limit.rlim_cur = size_t{1} << 44;
        limit.rlim_max = size_t{1} << 45;
        require(setrlimit(RLIMIT_DATA, &limit) == 0, "the limit can be set");
        require(hz_os_data_limit() == size_t{1} << 45, "the hard limit is reported");
        return 0;
    }));
}

TEST_F(Os, ClockIsTheCoarseMonotonicOne) {
    auto now = [] {
        struct timespec time = {};
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
        return static_cast<uint64_t>(time.tv_sec) * 1000 + static_cast<uint64_t>(time.tv_nsec) / 1000000;
    };
    for (int i = 0; i < 1000; i++) {
        uint64_t before = now();
        uint64_t told = hz_os_now_ms();
        ASSERT_LE(before, told);
        ASSERT_LE(told, now());
    }
}

TEST_F(Os, WaitReturnsImmediatelyWhenTheWordHasChanged) {
    uint32_t word = 1;
    hz_os_wait(&word, 0); /* would hang if it did not compare */
    hz_os_wake(&word, 1); /* nobody sleeps */
}

TEST(OsWait, WakeReachesASleeper) {
    std::atomic<uint32_t> word{0};
    std::thread sleeper([&] {
        while (word.load() == 0)
            hz_os_wait(&word, 0);
    });
    word.store(1);
    hz_os_wake(&word, 1);
    sleeper.join();
}

TEST(OsWrite, WritesAllEvenWhenThePipeIsShort) {
    std::string text;
    for (int i = 0; text.size() < 4 * MiB; i++)
        text += std::to_string(i);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    std::string got;
    std::thread reader([&] {
        char part[4096];
        for (ssize_t count; (count = read(ends[0], part, sizeof part)) > 0;)
            got.append(part, static_cast<size_t>(count));
    });
    errno = EILSEQ;
    EXPECT_EQ(hz_os_write(ends[1], text.data(), text.size()), 0);
    EXPECT_EQ(errno, EILSEQ);
    close(ends[1]);
    reader.join();
    close(ends[0]);
    EXPECT_TRUE(got == text);
}

TEST_F(Os, WriteReturnsTheError) {
    EXPECT_EQ(hz_os_write(-1, "x", 1), EBADF);
    EXPECT_EQ(hz_os_write(-1, "", 0), 0) << "nothing to write is no error";
}

TEST_F(Os, CpuIsTheOneThatRunsUs) {
    for (int cpu : unit::cpus()) {
        unit::OnCpu there(cpu);
        EXPECT_EQ(hz_os_cpu(), static_cast<uint32_t>(cpu));
    }
}

TEST_F(Os, AffinityIsTheKernels) {
    uint64_t mask[16];
    std::vector<int> allowed = unit::cpus();
    ASSERT_EQ(hz_os_affinity(0, mask, 16), allowed.size());
    for (int cpu : allowed) {
        EXPECT_TRUE(mask[cpu / 64] >> cpu % 64 & 1) << cpu;
        unit::OnCpu there(cpu);
        uint64_t own[16];
        ASSERT_EQ(hz_os_affinity(0, own, 16), 1u);
        EXPECT_TRUE(own[cpu / 64] >> cpu % 64 & 1) << cpu;
        uint32_t id = hz_os_thread_id();
        std::thread([&] { EXPECT_EQ(hz_os_affinity(id, own, 16), 1u) << "another thread's"; }).join();
    }
    EXPECT_EQ(hz_os_affinity(UINT32_MAX >> 1, mask, 16), 0u) << "there is no such thread";
    EXPECT_EQ(mask[0], 0u);
    EXPECT_EQ(hz_os_affinity(0, mask, 0), 0u) << "no room";
    errno = EILSEQ;
}

TEST_F(Os, TheDateIsTheSystems) {
    auto date = [] {
        struct timespec now = {};
        clock_gettime(CLOCK_REALTIME, &now);
        return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
    };
    uint64_t before = date();
    uint64_t now = hz_os_date_ns();
    EXPECT_LE(before, now);
    EXPECT_LE(now, date());
}

TEST(OsGetenv, ReadsTheEnvironment) {
    ASSERT_EQ(setenv("HZ_UNIT_TEST", "value", 1), 0);
    EXPECT_STREQ(hz_os_getenv("HZ_UNIT_TEST"), "value");
    ASSERT_EQ(unsetenv("HZ_UNIT_TEST"), 0);
    EXPECT_EQ(hz_os_getenv("HZ_UNIT_TEST"), nullptr);
}

TEST_F(Os, CloseGivesBackAndCommitOpensAgain) {
    auto *space = static_cast<char *>(hz_os_reserve(4 * MiB, MiB));
    ASSERT_TRUE(hz_os_commit(space, 3 * MiB));
    memset(space, 1, 3 * MiB);
    ASSERT_TRUE(hz_os_close(space + MiB, MiB));
    errno = EILSEQ;
    EXPECT_FALSE(readable(space + MiB));
    EXPECT_EQ(space[MiB - 1], 1);
    EXPECT_EQ(space[2 * MiB], 1);
    ASSERT_TRUE(hz_os_commit(space + MiB, MiB));
    EXPECT_TRUE(is_zero(space + MiB, MiB));
    errno = EILSEQ;
    EXPECT_TRUE(hz_os_unmap(space, 4 * MiB));
}

TEST_F(Os, FillTakesAHoleAndNothingElse) {
    auto *space = static_cast<char *>(hz_os_map(3 * MiB, MiB, true));
    memset(space, 1, 3 * MiB);
    EXPECT_FALSE(hz_os_fill(space + MiB, MiB)) << "something is there";
    EXPECT_EQ(space[MiB], 1);
    ASSERT_TRUE(hz_os_unmap(space + MiB, MiB));
    ASSERT_TRUE(hz_os_fill(space + MiB, MiB));
    EXPECT_TRUE(is_zero(space + MiB, MiB));
    space[MiB] = 1;
    EXPECT_TRUE(hz_os_unmap(space, 3 * MiB));
}

/* Memory can be had, closed and filled with other calls than before. */
TEST_F(Os, AConfinedProcessHasMemory) {
    children::expect_good_end(children::start([] {
        hz_os_confine();
        char *space = static_cast<char *>(hz_os_reserve(4 * MiB, 4 * MiB));
        require(space != nullptr && !readable(space), "space is reserved");
        require(hz_os_commit(space, 2 * MiB) && is_zero(space, 2 * MiB), "it is committed");
        memset(space, 5, 2 * MiB);
        require(hz_os_close(space + MiB, MiB) && !readable(space + MiB), "a part is closed");
        require(hz_os_commit(space + MiB, MiB), "and can be committed again");
        require(resident_pages(space, 2 * MiB) == MiB / page(), "it has given its memory back");
        require(is_zero(space + MiB, MiB), "and reads as zero");
        require(hz_os_purge(space, MiB) && is_zero(space, MiB), "a part is purged");
        require(hz_os_remap(space, 4 * MiB, 2 * MiB, nullptr) == space, "a mapping shrinks");
        require(!readable(space + 2 * MiB), "which unmaps its end");
        require(hz_os_remap(space, 2 * MiB, 3 * MiB, nullptr) == nullptr, "but does not grow");
        require(!hz_os_fill(space + MiB, MiB), "what is mapped is not filled");
        void *target = hz_os_reserve(4 * MiB, page());
        require(hz_os_remap(space, 2 * MiB, 4 * MiB, target) == nullptr && !readable(target), "nothing is moved");
        require(writable(space), "what was to be moved is still there");
        void *table = hz_os_map(MiB, page(), true);
        require(table != nullptr && writable(table), "a table is mapped");
        require(hz_os_collapse(space, 2 * MiB) != 0, "no huge page is asked for");
        return 0;
    }));
    errno = EILSEQ;
}

/* From the C library, but the same number that the kernel gives, in each thread and in a fork's child. */
TEST_F(Os, ThreadsHaveTheKernelsNumbers) {
    auto kernels = [] { return static_cast<uint32_t>(syscall(SYS_gettid)); };
    EXPECT_EQ(hz_os_thread_id(), kernels());
    std::thread([&] {
        EXPECT_EQ(hz_os_thread_id(), kernels());
        EXPECT_FALSE(hz_os_is_first_thread());
        children::expect_good_end(children::start([&] {
            require(hz_os_thread_id() == kernels(), "the number in a fork's child");
            require(hz_os_is_first_thread(), "the thread that has forked is its child's first");
            return 0;
        }));
    }).join();
    EXPECT_TRUE(hz_os_is_first_thread());
    errno = EILSEQ;
}

/* Starts a process that keeps the caller's CPU busy, and ends when the caller does. */
void start_rival() {
    volatile unsigned turns = 0;
    pid_t rival = children::start([&turns] {
        for (;;)
            turns = turns + 1;
        return 0;
    });
    require(rival > 0, "a rival for the CPU");
}

TEST_F(Os, AThreadLearnsWhatItUsedOfACpuAndHowOftenItSlept) {
    children::expect_good_end(children::start([] {
        struct hz_os_usage first;
        struct hz_os_usage last;
        require(!hz_os_usage_get(&first), "no call is made before it is known that there is no filter");
        hz_startup_look();
        if (!hz_os_is_unfiltered())
            return 0;
        require(!hz_os_usage_get(&first), "a filter may come unseen");
        hz_os_usage_begin();
        unit::OnCpu on_one_cpu;
        start_rival();
        uint64_t begin = hz_os_now_us();
        bool has_lost = false; /* lost 3 ms or more to the rival, without a sleep */
        bool has_worked = false;
        while (!(has_lost && has_worked) && hz_os_now_us() < begin + 20 * 1000 * 1000) {
            require(hz_os_usage_get(&first), "the kernel counts");
            uint64_t from = hz_os_now_us();
            while (hz_os_now_us() < from + 20000) {
            }
            uint64_t took = hz_os_now_us() - from;
            require(hz_os_usage_get(&last) && last.cpu_us >= first.cpu_us, "the kernel counts");
            has_lost |= last.sleeps == first.sleeps && last.cpu_us - first.cpu_us + 3000 < took;
            has_worked |= last.cpu_us > first.cpu_us + 1000;
        }
        require(has_lost, "a thread that waits for a CPU neither uses it nor sleeps");
        require(has_worked, "a thread that works uses a CPU");
        const uint32_t word = 0;
        hz_os_wait_ms(&word, 0, 1);
        require(hz_os_usage_get(&first) && first.sleeps > last.sleeps, "a wait counts as a sleep");
        hz_os_usage_end();
        require(!hz_os_usage_get(&first), "a filter may follow");
        hz_os_usage_begin();
        require(!hz_os_usage_get(&first), "who began late does not know of it");
        return 0;
    }));
    errno = EILSEQ;
}

TEST_F(Os, AConfinedProcessKnowsLess) {
    children::expect_good_end(children::start([] {
        struct rlimit before;
        require(getrlimit(RLIMIT_AS, &before) == 0, "the limit is known");
        const struct rlimit bounds = {size_t{1} << 46, before.rlim_max};
        require(setrlimit(RLIMIT_AS, &bounds) == 0, "a limit can be set");
        char text[64];
        hz_os_unfiltered();
        bool can_barrier = hz_os_barrier_prepare(false);
        hz_os_read_file("/proc/self/comm", text, sizeof text);
        require(text[0] != '\0' && hz_os_address_space_limit() != SIZE_MAX, "before, everything is known");
        require(hz_os_barrier() == can_barrier, "before, the barrier works");
        hz_os_usage_begin();
        struct hz_os_usage usage;
        require(hz_os_usage_get(&usage), "before, a thread knows what it used");
        hz_os_confine();
        require(!hz_os_usage_get(&usage), "nothing is known of what a thread used");
        hz_os_read_file("/proc/self/comm", text, sizeof text);
        require(text[0] == '\0', "no file is read");
        require(hz_os_address_space_limit() == SIZE_MAX, "no limit is known");
        require(hz_os_data_limit() == SIZE_MAX && hz_os_stack_limit() == SIZE_MAX, "nor is another");
        require(hz_os_has_address(UINT64_C(1) << 62), "nor where the address space ends");
        uint64_t mask[16];
        require(hz_os_affinity(0, mask, 16) == 0, "no CPUs are known");
        require(setrlimit(RLIMIT_AS, &before) == 0, "ThreadSanitizer needs more for new pages");
        bool has_other_way = hz_os_barrier_prepare(true);
        require(hz_os_barrier() == has_other_way, "membarrier is not called, even on request");
        require(!hz_os_is_unfiltered(), "not every call may be made");
        return 0;
    }));
    errno = EILSEQ;
}

} // namespace

/* Instead of the C library's: builds with assertions call the kernel by it (base/os/syscall.h). */
extern "C" long syscall(long number, ...) {
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (long &argument : arguments)
        argument = va_arg(list, long);
    va_end(list);
    return is_older_kernel ? older_call(number, arguments) : real_call(number, arguments);
}
