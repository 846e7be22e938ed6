/* Statistics and configuration: hz_stats_get, hz_stats_print, hz_config_string, hz_version. */
#include "api.h"
#include "json.h"
#include "report.h"
#include "support.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <set>
#include <sys/syscall.h>
#include <thread>
#include <type_traits>

namespace {

using namespace support;

class Stats : public testing::Test {
  protected:
    void SetUp() override {
        if (t_table.stats_get_fn == nullptr)
            GTEST_SKIP() << "hz_stats_get does not exist here";
    }

    static struct hz_stats get() {
        struct hz_stats stats = {};
        EXPECT_EQ(t_stats_get(&stats), 0);
        return stats;
    }

    /* The most that the test framework may allocate between two readings when it uses the same heap. */
    static constexpr size_t slack = t_system ? 256 * KiB : 0;

    static void expect_live(size_t expected, size_t size) {
        size_t live = get().live_bytes;
        EXPECT_GE(live + slack, expected) << "size " << size;
        EXPECT_LE(live, expected + slack) << "size " << size;
    }
};

TEST(JsonReaderSelfTest, AcceptsAndRejects) {
    for (const char *good :
         {"{}", "[]", "1", "-0.5e3", "{\"a\": [1, 2, {\"b\": null}], \"c\": \"x\\\"y\"}", " [true, false] "})
        EXPECT_TRUE(JsonReader::valid(good)) << good;
    for (const char *bad :
         {"", "{", "{]", "[1,]", "{\"a\" 1}", "{\"a\":}", "{} x", "nul", "\"open", "{a: 1}", "01", "[1 2]"})
        EXPECT_FALSE(JsonReader::valid(bad)) << bad;
}

TEST_F(Stats, GetOfNullIsEINVAL) {
    errno = 0;
    EXPECT_EQ(t_stats_get(nullptr), -1);
    EXPECT_EQ(errno, EINVAL);
}

/* Calls `get` with a struct of each size: of an earlier version, and of a later one. Only those bytes are written, the
   known ones as with the whole struct, the others with zeros. Size 0 is refused. */
template <typename Struct, typename Get> void expect_sizes(const char *what, Get get) {
    SCOPED_TRACE(what);
    constexpr size_t room = sizeof(Struct) + 40;
    unsigned char whole[room];
    ASSERT_EQ(get(reinterpret_cast<Struct *>(whole), sizeof(Struct)), 0);
    for (size_t bytes = 1; bytes <= room; bytes++) {
        unsigned char part[room + 8];
        memset(part, 0xab, sizeof(part));
        ASSERT_EQ(get(reinterpret_cast<Struct *>(part), bytes), 0);
        for (size_t i = 0; i < sizeof(part); i++) {
            int expected = i >= bytes ? 0xab : i >= sizeof(Struct) ? 0 : part[i];
            ASSERT_EQ(part[i], expected) << "byte " << i << " of " << bytes;
        }
        if (!t_system && std::has_unique_object_representations_v<Struct>) {
            ASSERT_EQ(memcmp(part, whole, std::min(bytes, sizeof(Struct))), 0) << bytes;
        }
    }
    errno = 0;
    EXPECT_EQ(get(reinterpret_cast<Struct *>(whole), 0), -1);
    EXPECT_EQ(errno, EINVAL);
    errno = 0;
    EXPECT_EQ(get(nullptr, sizeof(Struct)), -1);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(Stats, AStructOfAnotherVersionIsFilledAsFarAsItReaches) {
    t_free(t_malloc(100)); /* the thread has allocated */
    expect_sizes<struct hz_stats>("hz_stats_get", t_table.stats_get_fn);
    expect_sizes<struct hz_limits>("hz_limit_get", t_table.limit_get_fn);
    expect_sizes<struct hz_thread_stats>("hz_thread_stats_get", t_table.thread_stats_get_fn);
    struct hz_zone *zone = t_table.zone_create_fn();
    ASSERT_NE(zone, nullptr);
    expect_sizes<struct hz_zone_stats>("hz_zone_stats_get", [zone](struct hz_zone_stats *out, size_t bytes) {
        return t_table.zone_stats_get_fn(zone, out, bytes);
    });
    t_table.zone_destroy_fn(zone);
}

TEST_F(Stats, AnArrayOfStructsOfAnotherVersion) {
    t_free(t_malloc(100));
    struct Longer {
        struct hz_thread_stats known;
        size_t later;
    };
    std::vector<struct hz_thread_stats> rows(100);
    std::vector<unsigned> shorter(101, ~0U);
    std::vector<Longer> longer(101);
    for (Longer &row : longer)
        row.later = 7;
    size_t count = t_table.threads_stats_get_fn(rows.data(), 100, sizeof(rows[0]));
    ASSERT_GE(count, 1U);
    ASSERT_LT(count, 100U);
    auto *first = reinterpret_cast<struct hz_thread_stats *>(shorter.data());
    EXPECT_EQ(t_table.threads_stats_get_fn(first, 100, sizeof(shorter[0])), count) << "of each only the first member";
    EXPECT_EQ(t_table.threads_stats_get_fn(&longer[0].known, 100, sizeof(longer[0])), count);
    errno = 0;
    EXPECT_EQ(t_table.threads_stats_get_fn(rows.data(), 100, 0), 0U) << "a struct without a size";
    EXPECT_EQ(errno, EINVAL);
    errno = 0;
    EXPECT_EQ(t_table.threads_stats_get_fn(nullptr, 1, sizeof(rows[0])), 0U);
    EXPECT_EQ(errno, EINVAL);
    for (size_t i = 0; i < count; i++) {
        EXPECT_EQ(shorter[i], rows[i].thread_id);
        EXPECT_EQ(longer[i].known.thread_id, rows[i].thread_id);
        EXPECT_EQ(longer[i].later, 0U);
    }
    EXPECT_EQ(shorter[count], ~0U);
    EXPECT_EQ(longer[count].later, 7U);
}

TEST_F(Stats, LiveGrowsByTheUsableSizesAndReturns) {
    for (size_t size : sample_sizes()) {
        std::vector<void *> blocks(std::min<size_t>(2000, 2 + 8 * MiB / size));
        size_t start = get().live_bytes;
        size_t sum = 0;
        for (void *&block : blocks) {
            block = t_malloc(size);
            ASSERT_NE(block, nullptr);
            sum += taken_by(block);
        }
        expect_live(start + sum, size);
        for (void *block : blocks)
            t_free(block);
        expect_live(start, size);
    }
}

TEST_F(Stats, LiveFollowsReallocAndAlignedBlocks) {
    size_t start = get().live_bytes;
    void *block = t_malloc(100);
    for (size_t size : {size_t{5000}, 100 * KiB, 3 * MiB, 50 * MiB, 200 * KiB, size_t{30}}) {
        bool has_grown = size > t_usable_size(block);
        block = t_realloc(block, size);
        ASSERT_NE(block, nullptr);
        expect_live(start + taken_by(block, has_grown && size > 64 * KiB), size);
    }
    t_free(block);
    for (size_t alignment : {size_t{64}, size_t{4096}, 1 * MiB, 16 * MiB}) {
        block = t_aligned_alloc(alignment, 1000);
        ASSERT_NE(block, nullptr);
        expect_live(start + t_usable_size(block), 1000);
        t_free(block);
        expect_live(start, 1000);
    }
}

TEST_F(Stats, LiveCountsBlocksFreedByAnotherThread) {
    size_t start = get().live_bytes;
    for (size_t size : {size_t{64}, size_t{3000}, 100 * KiB, 4 * MiB}) {
        std::vector<void *> blocks(20);
        for (void *&block : blocks)
            block = t_malloc(size);
        std::thread other([&] {
            for (void *block : blocks)
                t_free(block);
        });
        other.join();
        expect_live(start, size);
    }
}

TEST_F(Stats, FreedBlocksAreCachedFreeOrPurged) {
    std::vector<void *> blocks(20000);
    for (void *&block : blocks) {
        block = t_malloc(1000);
        memset(block, 1, 1000);
    }
    struct hz_stats full = get();
    EXPECT_GE(full.resident_bytes, full.live_bytes);
    EXPECT_GE(full.mapped_bytes, full.resident_bytes);
    for (void *block : blocks)
        t_free(block);
    struct hz_stats empty = get();
    size_t gone = full.live_bytes - empty.live_bytes;
    EXPECT_GE(gone, 20000U * 1000U);
    size_t rests = empty.cached_bytes + empty.free_bytes + (empty.purged_bytes - full.purged_bytes);
    EXPECT_GE(rests + slack, gone) << "some freed bytes are missing from the statistics";
    EXPECT_GE(empty.purged_bytes, full.purged_bytes) << "purged_bytes is cumulative";
}

TEST_F(Stats, ResidentCoversLiveCachedAndFreeBytes) {
    std::vector<void *> blocks;
    for (size_t size : sample_sizes()) {
        blocks.push_back(t_malloc(size));
        t_free(t_malloc(size));
    }
    struct hz_stats stats = get();
    EXPECT_GE(stats.resident_bytes, stats.live_bytes + stats.cached_bytes + stats.free_bytes);
    EXPECT_GE(stats.mapped_bytes, stats.resident_bytes);
    for (void *block : blocks)
        t_free(block);
}

TEST_F(Stats, MappingsAreCounted) {
    t_give_back(); /* memory that rests is mapped already */
    struct hz_stats before = get();
    std::vector<void *> blocks(5);
    for (void *&block : blocks) {
        block = t_malloc(40 * MiB);
        ASSERT_NE(block, nullptr);
    }
    EXPECT_EQ(get().mapping_count, before.mapping_count + 5);
    EXPECT_GE(get().mapped_bytes, before.mapped_bytes + 200 * MiB);
    for (void *block : blocks)
        t_free(block);
    EXPECT_EQ(get().mapping_count, before.mapping_count);
}

TEST_F(Stats, ThePeakStays) {
    struct hz_stats before = get();
    EXPECT_GE(before.peak_bytes, before.resident_bytes);
    std::vector<void *> blocks(1 + before.peak_bytes / (10 * MiB));
    size_t usable = 0;
    for (void *&block : blocks) {
        block = t_malloc(10 * MiB);
        usable += t_usable_size(block);
    }
    for (void *block : blocks)
        t_free(block);
    t_give_back();
    struct hz_stats after = get();
    EXPECT_LT(after.resident_bytes, usable);
    EXPECT_GE(after.peak_bytes, usable) << "noted while the blocks were live";
    EXPECT_LE(after.peak_bytes, usable + before.resident_bytes + MiB);
    EXPECT_EQ(get().peak_bytes, after.peak_bytes);
}

TEST_F(Stats, PurgeCountsTheBytesItReturns) {
    std::vector<void *> blocks(2000);
    for (void *&block : blocks) {
        block = t_malloc(30000);
        memset(block, 1, 30000);
    }
    for (void *block : blocks)
        t_free(block);
    size_t before = get().purged_bytes;
    size_t returned = t_table.purge_fn();
    EXPECT_GE(get().purged_bytes, before + returned);
    EXPECT_GT(returned, 0U);
}

TEST_F(Stats, JsonIsWellFormedAndAgreesWithGet) {
    void *block = t_malloc(33 * MiB);
    struct hz_stats stats = get();
    std::string text = report::printed(HZ_STATS_JSON);
    t_free(block);
    std::map<std::string, double> numbers;
    ASSERT_TRUE(JsonReader::numbers(text, numbers)) << text;
    for (const char *key : {"live_bytes", "cached_bytes", "free_bytes", "resident_bytes", "mapped_bytes",
                            "purged_bytes", "mapping_count", "peak_bytes"})
        EXPECT_EQ(numbers.count(std::string("heap.") + key), 1U) << "no " << key << " in the group heap of " << text;
    EXPECT_NEAR(numbers["heap.live_bytes"], static_cast<double>(stats.live_bytes), static_cast<double>(slack));
    EXPECT_GE(numbers["heap.live_bytes"], 33e6);
}

std::vector<std::string> lines_of(const std::string &text) {
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size();) {
        size_t end = std::min(text.find('\n', at), text.size());
        lines.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return lines;
}

/* The number behind a word, in bytes, as a report for people has it: in MiB. */
double mib_after(const std::string &text, const std::string &word) {
    size_t at = text.find(word);
    EXPECT_NE(at, std::string::npos) << "no '" << word << "' in " << text;
    return at == std::string::npos ? -1 : strtod(text.c_str() + at + word.size(), nullptr) * static_cast<double>(MiB);
}

/* The first five lines are the answer to "where is the memory?". */
TEST_F(Stats, TextBeginsWithWhereTheMemoryIs) {
    void *large = t_malloc(33 * MiB);
    void *medium = t_malloc(50 * KiB);
    memset(large, 1, 33 * MiB);
    struct hz_stats stats = get();
    std::string text = report::printed(HZ_STATS_TEXT);
    t_free(large);
    t_free(medium);
    std::vector<std::string> lines = lines_of(text);
    ASSERT_GT(lines.size(), 5U);
    EXPECT_EQ(lines[0].rfind("hakozuna " + std::string(t_table.version_fn()), 0), 0U) << lines[0];
    EXPECT_NE(lines[0].find(std::string(program_invocation_short_name) + ", pid " + std::to_string(getpid()) + ", up "),
              std::string::npos)
        << lines[0];
    EXPECT_EQ(lines[1].rfind("keeper: ", 0), 0U) << lines[1];
    EXPECT_EQ(lines[2].rfind("soft limit: ", 0), 0U) << lines[2];
    double rounding = 0.01 * static_cast<double>(MiB) + static_cast<double>(slack);
    EXPECT_NEAR(mib_after(lines[3], "live "), static_cast<double>(stats.live_bytes), rounding);
    EXPECT_GE(mib_after(lines[3], "mapped "), 33.0 * MiB - rounding);
    EXPECT_GE(mib_after(lines[3], "medium "), 50.0 * KiB - rounding);
    EXPECT_NEAR(mib_after(lines[4], "cached"), static_cast<double>(stats.cached_bytes), rounding);
    EXPECT_NEAR(mib_after(lines[5], "free "), static_cast<double>(stats.free_bytes), rounding);
    EXPECT_NEAR(mib_after(lines[6], "held "), static_cast<double>(stats.resident_bytes), rounding);
    EXPECT_NEAR(mib_after(lines[6], "peak "), static_cast<double>(stats.peak_bytes), rounding);
    EXPECT_GE(mib_after(lines[6], "of it heap "), 33.0 * MiB - rounding);
    EXPECT_GE(mib_after(lines[6], "process RSS "), mib_after(lines[6], "of it heap "));
    EXPECT_FALSE(JsonReader::valid(text));
    EXPECT_EQ(text.back(), '\n');
    EXPECT_LT(lines.size(), 50U) << "counters, and more than ten classes and threads, are for those who ask";
    EXPECT_GT(lines_of(report::printed(HZ_STATS_VERBOSE)).size(), lines.size() + 15);
}

/* Every live byte is in a range of sizes, and in a row of a class or of large blocks. */
TEST_F(Stats, AllLiveBytesAreExplained) {
    std::vector<void *> blocks;
    for (int i = 0; i < 10; i++) {
        for (size_t size : {size_t{100}, size_t{2000}, size_t{30000}, 100 * KiB, MiB, 2 * MiB, 5 * MiB, 70 * MiB})
            blocks.push_back(t_malloc(size));
        for (size_t size : {100 * KiB, MiB, 2 * MiB})
            blocks.push_back(t_realloc(t_malloc(1), size)); /* these have no class */
    }
    std::map<std::string, double> numbers;
    ASSERT_TRUE(JsonReader::numbers(report::printed(HZ_STATS_JSON), numbers));
    for (void *block : blocks)
        t_free(block);
    std::map<std::string, double> sums;
    for (const auto &[name, value] : numbers)
        sums[name.substr(0, name.find('.')) + "." + name.substr(name.rfind('.') + 1)] += value;
    double live_in_classes = 0;
    for (size_t row = 0; numbers.count("classes." + std::to_string(row) + ".live") == 1; row++)
        live_in_classes += numbers["classes." + std::to_string(row) + ".live"] *
                           numbers["classes." + std::to_string(row) + ".block_bytes"];
    double live = numbers["heap.live_bytes"];
    EXPECT_GE(live, 760e6);
    EXPECT_EQ(sums["ranges.live_bytes"], live);
    if (numbers["ranges.4.live_bytes"] == 0) { /* guarded blocks have no class */
        EXPECT_EQ(live_in_classes + sums["large.live_bytes"], live);
    }
    EXPECT_EQ(sums["ranges.resting_bytes"], numbers["heap.cached_bytes"]);
    EXPECT_EQ(sums["ranges.free_bytes"], numbers["heap.free_bytes"]);
    EXPECT_EQ(sums["ranges.held_bytes"], numbers["heap.resident_bytes"]);
    EXPECT_EQ(live + numbers["heap.cached_bytes"] + numbers["heap.free_bytes"], numbers["heap.resident_bytes"]);
    EXPECT_GE(numbers["heap.alone_count"], 10) << "of 70 MiB";
    EXPECT_GE(numbers["ranges.1.live_blocks"], 20) << "of 30000 bytes and 100 KiB";
    EXPECT_GE(numbers["ranges.2.live_blocks"], 30) << "of 100 KiB, 1 MiB and 2 MiB, grown";
    EXPECT_GE(numbers["ranges.1.live_blocks"] + numbers["ranges.2.live_blocks"], 70) << "all above 2 KiB up to 2 MiB";
    EXPECT_GE(numbers["ranges.3.live_blocks"], 20) << "of 5 MiB and 70 MiB";
}

TEST_F(Stats, TheProcessIsNamed) {
    std::map<std::string, double> numbers;
    std::string text = report::printed(HZ_STATS_JSON);
    ASSERT_TRUE(JsonReader::numbers(text, numbers));
    EXPECT_EQ(numbers["process.pid"], getpid());
    EXPECT_NE(text.find("\"program\":\"" + std::string(program_invocation_short_name) + "\""), std::string::npos);
    EXPECT_GE(numbers["process.threads"], 1);
    EXPECT_GE(numbers["process.rss_bytes"], numbers["process.heap_rss_bytes"]);
    double first = numbers["process.uptime_ms"];
    EXPECT_LT(first, 3600e3) << "of this process, not of the machine";
    ASSERT_TRUE(JsonReader::numbers(report::printed(HZ_STATS_JSON), numbers));
    EXPECT_GE(numbers["process.uptime_ms"], first);
}

/* Memory counts as resident when it is touched, and no longer when it was given back. */
TEST_F(Stats, ResidentMemoryIsThatOfTheKernel) {
    auto resident = [] {
        std::map<std::string, double> numbers;
        EXPECT_TRUE(JsonReader::numbers(report::printed(HZ_STATS_JSON), numbers));
        return numbers["process.heap_rss_bytes"];
    };
    t_give_back();
    double before = resident();
    void *block = t_malloc(100 * MiB);
    EXPECT_LT(resident(), before + 2.0 * MiB) << "never touched";
    memset(block, 1, 50 * MiB);
    EXPECT_GE(resident(), before + 49.0 * MiB);
    EXPECT_LT(resident(), before + 52.0 * MiB);
    t_free(block);
    t_give_back();
    EXPECT_LT(resident(), before + 2.0 * MiB);
}

TEST_F(Stats, PrintRefusesAnUnknownFormat) {
    volatile int unknown = 77; /* a C caller can pass any int; volatile hides the value from the C++ compiler */
    errno = 0;
    EXPECT_EQ(t_stats_print(STDOUT_FILENO, static_cast<enum hz_stats_format>(unknown)), -1);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(Stats, PrintReportsWriteErrors) {
    errno = 0;
    EXPECT_EQ(t_stats_print(-1, HZ_STATS_JSON), -1);
    EXPECT_EQ(errno, EBADF);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ASSERT_GE(full, 0);
    errno = 0;
    EXPECT_EQ(t_stats_print(full, HZ_STATS_TEXT), -1);
    EXPECT_EQ(errno, ENOSPC);
    close(full);
}

TEST_F(Stats, SuccessKeepsErrno) {
    errno = EILSEQ;
    struct hz_stats stats;
    EXPECT_EQ(t_stats_get(&stats), 0);
    EXPECT_EQ(errno, EILSEQ);
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    errno = EILSEQ;
    EXPECT_EQ(t_stats_print(fd, HZ_STATS_TEXT), 0);
    EXPECT_EQ(errno, EILSEQ);
    close(fd);
    void *block = t_malloc(8);
    errno = EILSEQ;
    (void)t_usable_size(block);
    (void)t_good_size(8);
    (void)t_table.purge_fn();
    EXPECT_EQ(errno, EILSEQ);
    t_free(block);
}

/* A report that allocated would change the figures it reports and could not be printed from inside an allocation. */
TEST_F(Stats, ReportsAllocateNothing) {
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    size_t live = get().live_bytes;
    for (int i = 0; i < 50; i++) {
        EXPECT_EQ(t_stats_print(fd, HZ_STATS_JSON), 0);
        EXPECT_EQ(t_stats_print(fd, HZ_STATS_TEXT), 0);
        EXPECT_EQ(t_stats_print(fd, HZ_STATS_VERBOSE), 0);
        (void)t_good_size(static_cast<size_t>(i) * 1000);
    }
    EXPECT_EQ(get().live_bytes, live);
    close(fd);
}

/* The values of one figure in the rows of threads. */
std::set<double> of_threads(const char *figure) {
    report::Values numbers;
    std::set<double> values;
    EXPECT_TRUE(JsonReader::numbers(report::printed(HZ_STATS_JSON), numbers));
    for (const auto &[name, value] : numbers)
        if (name.rfind("threads.", 0) == 0 && name.size() > 9 && name.substr(name.rfind('.') + 1) == figure)
            values.insert(value);
    return values;
}

TEST_F(Stats, EachThreadHasARow) {
    constexpr unsigned count = 3;
    std::atomic<unsigned> here{0};
    std::atomic<bool> stop{false};
    std::vector<double> ids(count);
    std::vector<std::thread> threads;
    t_free(t_malloc(100));
    size_t before = of_threads("number").size();
    EXPECT_GE(before, 1U);
    for (unsigned i = 0; i < count; i++)
        threads.emplace_back([&, i] {
            void *block = nullptr;
            while (block == nullptr) /* where one call of the OS fails, the second attempt succeeds */
                block = t_malloc(100);
            t_free(block);
            ids[i] = static_cast<double>(syscall(SYS_gettid));
            here++;
            while (!stop.load())
                std::this_thread::yield();
        });
    while (here.load() < count)
        std::this_thread::yield();
    EXPECT_EQ(of_threads("number").size(), before + count);
    std::set<double> named = of_threads("thread_id");
    stop.store(true);
    for (std::thread &thread : threads)
        thread.join();
    /* this thread has its number if nothing allocated before the library was initialised */
    named.erase(static_cast<double>(getpid()));
    named.erase(0);
    EXPECT_EQ(named, t_system ? std::set<double>(ids.begin(), ids.end()) : std::set<double>())
        << "the shared library knows the kernel's numbers of threads that pthread_create started";
    EXPECT_EQ(of_threads("number").size(), before) << "threads that have ended have no row";
}

TEST_F(Stats, CanBeReadWhileOthersAllocate) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (uint64_t seed = 0; seed < 2; seed++)
        threads.emplace_back([&stop, seed] {
            Random random(seed);
            while (!stop.load(std::memory_order_relaxed))
                t_free(t_malloc(random.between(1, 100 * KiB)));
        });
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (int i = 0; i < 200; i++) {
        struct hz_stats stats = get();
        EXPECT_GE(stats.mapped_bytes, stats.live_bytes);
        EXPECT_GE(stats.peak_bytes, stats.resident_bytes);
        EXPECT_LT(stats.live_bytes, 1024 * MiB) << "a figure fell below zero";
        EXPECT_EQ(t_stats_print(fd, i % 2 == 0 ? HZ_STATS_JSON : HZ_STATS_VERBOSE), 0);
    }
    stop.store(true, std::memory_order_relaxed);
    for (std::thread &thread : threads)
        thread.join();
    close(fd);
}

TEST(Config, IsOneLineOfKeyValueWords) {
    T_ONLY_OURS();
    std::string text = t_table.config_fn();
    EXPECT_EQ(text.find('\n'), std::string::npos);
    for (const char *key : {"engine=", "lane=", "version=", "checks=", "stats=", "shards=", "build="})
        EXPECT_NE(text.find(key), std::string::npos) << "no " << key << " in: " << text;
    size_t at = 0;
    while (at < text.size()) {
        size_t end = std::min(text.find(' ', at), text.size());
        std::string word = text.substr(at, end - at);
        size_t equals = word.find('=');
        EXPECT_TRUE(equals != std::string::npos && equals > 0) << "not key=value: '" << word << "' in: " << text;
        at = end + 1;
    }
    EXPECT_EQ(t_table.config_fn(), t_table.config_fn()) << "the string is constant";
}

TEST(Config, VersionIsThatOfTheHeader) {
    T_ONLY_OURS();
    std::string wanted = std::to_string(HZ_VERSION_MAJOR) + "." + std::to_string(HZ_VERSION_MINOR) + "." +
                         std::to_string(HZ_VERSION_PATCH);
    EXPECT_EQ(std::string(t_table.version_fn()), wanted);
    EXPECT_TRUE(t_config_has(("version=" + wanted).c_str())) << t_table.config_fn();
}

} // namespace
