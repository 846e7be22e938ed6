/*
 * glibc's own functions that inspect and tune malloc. They have no hz_ names; under LD_PRELOAD they must act on our
 * heap, not on glibc's unused one. The tests of reports allocate something and expect to find it in the report.
 */
#include "api.h"
#include "report.h"
#include "stress/children.h"
#include "support.h"

#include <atomic>
#include <cerrno>
#include <climits>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <thread>

namespace {

using namespace support;
using children::require;

class Introspection : public testing::Test {
  protected:
    void SetUp() override {
        T_ONLY_SYSTEM_NAMES();
        if (sanitized)
            GTEST_SKIP() << "sanitizers replace these functions with empty ones";
    }
};

/* Live blocks of one size, freed by the destructor. */
class Blocks {
  public:
    explicit Blocks(size_t count, size_t size) : blocks_(count) {
        for (void *&block : blocks_) {
            block = t_malloc(size);
            memset(block, 1, size);
        }
    }
    ~Blocks() {
        for (void *block : blocks_)
            t_free(block);
    }
    Blocks(const Blocks &) = delete;
    Blocks &operator=(const Blocks &) = delete;

  private:
    std::vector<void *> blocks_;
};

/* The bytes in 20,000 blocks of 1000 bytes, a size that no allocator gives a mapping of its own. */
constexpr size_t small_bytes = 20000U * 1000U;

/* Runs a reporter with stderr redirected to a memory file and returns the text it wrote. */
template <typename Reporter> std::string stderr_of(Reporter report) {
    int file = memfd_create("stderr", MFD_CLOEXEC);
    int saved = dup(STDERR_FILENO);
    EXPECT_GE(file, 0);
    EXPECT_GE(saved, 0);
    dup2(file, STDERR_FILENO);
    report();
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    std::string text(static_cast<size_t>(lseek(file, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    close(file);
    return text;
}

/* The largest number in a text. */
size_t largest_number(const std::string &text) {
    size_t largest = 0;
    for (size_t at = 0; at < text.size();) {
        if (isdigit(static_cast<unsigned char>(text[at])) == 0) {
            at++;
            continue;
        }
        char *end = nullptr;
        largest = std::max<size_t>(largest, strtoull(text.c_str() + at, &end, 10));
        at = static_cast<size_t>(end - text.c_str());
    }
    return largest;
}

TEST_F(Introspection, Mallinfo2CountsWhatIsInUse) {
    struct mallinfo2 before = mallinfo2();
    size_t in_use;
    {
        Blocks blocks(20000, 1000);
        struct mallinfo2 full = mallinfo2();
        in_use = full.uordblks;
        EXPECT_GE(full.uordblks, before.uordblks + small_bytes);
        EXPECT_LE(full.uordblks, before.uordblks + small_bytes * 3 / 2);
        EXPECT_GE(full.arena, full.uordblks) << "the arena includes the blocks in use";
    }
    struct mallinfo2 after = mallinfo2();
    EXPECT_LE(after.uordblks + small_bytes, in_use + 64 * KiB);
    EXPECT_GE(after.uordblks + 64 * KiB, before.uordblks);
}

/* Blocks that every allocator maps alone. They are in no other field. */
TEST_F(Introspection, Mallinfo2CountsMappings) {
    struct mallinfo2 before = mallinfo2();
    {
        std::vector<void *> blocks;
        for (int i = 0; i < 3; i++)
            blocks.push_back(t_malloc(100 * MiB));
        struct mallinfo2 full = mallinfo2();
        EXPECT_EQ(full.hblks, before.hblks + 3);
        EXPECT_GE(full.hblkhd, before.hblkhd + 300 * MiB);
        EXPECT_LE(full.uordblks, before.uordblks + MiB);
        for (void *block : blocks)
            t_free(block);
    }
    EXPECT_EQ(mallinfo2().hblks, before.hblks);
    EXPECT_LE(mallinfo2().hblkhd, before.hblkhd);
}

TEST_F(Introspection, Mallinfo2CountsFreeBlocks) {
    T_ONLY_OURS();
    (void)t_table.purge_fn(); /* bins and depot are empty */
    struct mallinfo2 before = mallinfo2();
    std::vector<void *> blocks(1000);
    for (void *&block : blocks)
        block = t_malloc(700);
    struct mallinfo2 full = mallinfo2();
    for (size_t i = 0; i < blocks.size(); i += 2) /* no page becomes empty */
        t_free(blocks[i]);
    struct mallinfo2 half = mallinfo2();
    EXPECT_EQ(half.ordblks + half.smblks, full.ordblks + full.smblks + 500);
    EXPECT_EQ(half.fordblks, full.fordblks + 500 * t_usable_size(blocks[1]));
    EXPECT_EQ(full.uordblks - half.uordblks, 500 * t_usable_size(blocks[1]));
    for (size_t i = 1; i < blocks.size(); i += 2)
        t_free(blocks[i]);
    EXPECT_LE(mallinfo2().uordblks, before.uordblks + 64 * KiB);
}

/* What malloc_info writes. */
std::string info() {
    char *text = nullptr;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    EXPECT_EQ(malloc_info(0, out), 0);
    fclose(out);
    std::string xml(text, length);
    free(text);
    return xml;
}

/* The value of an attribute behind a place in a text. */
size_t attribute(const std::string &xml, size_t from, const std::string &name) {
    size_t at = xml.find(" " + name + "=\"", from);
    return at == std::string::npos ? 0 : strtoull(xml.c_str() + at + name.size() + 3, nullptr, 10);
}

/* The free blocks of all lines of sizes are those of the totals. */
TEST_F(Introspection, MallocInfoHasFreeBlocksBySize) {
    T_ONLY_OURS();
    void *blocks[300];
    for (void *&block : blocks)
        block = t_malloc(700);
    for (size_t i = 0; i < 300; i += 2)
        t_free(blocks[i]);
    std::string xml = info();
    size_t count = 0;
    size_t bytes = 0;
    size_t of_704 = 0;
    for (size_t at = 0; (at = xml.find("<size ", at)) != std::string::npos; at++) {
        EXPECT_LT(attribute(xml, at, "from"), attribute(xml, at, "to"));
        EXPECT_EQ(attribute(xml, at, "total"), attribute(xml, at, "count") * attribute(xml, at, "to"));
        count += attribute(xml, at, "count");
        bytes += attribute(xml, at, "total");
        if (attribute(xml, at, "to") == 704)
            of_704 = attribute(xml, at, "count");
    }
    if (size_t unsorted = xml.find("<unsorted "); unsorted != std::string::npos) {
        count += attribute(xml, unsorted, "count");
        bytes += attribute(xml, unsorted, "total");
    }
    EXPECT_GE(of_704, 150U);
    size_t fast = xml.find("type=\"fast\"");
    size_t rest = xml.find("type=\"rest\"");
    EXPECT_EQ(count, attribute(xml, fast, "count") + attribute(xml, rest, "count")) << xml;
    EXPECT_EQ(bytes, attribute(xml, fast, "size") + attribute(xml, rest, "size")) << xml;
    for (size_t i = 1; i < 300; i += 2)
        t_free(blocks[i]);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST_F(Introspection, MallinfoCountsWhatIsInUse) {
    struct mallinfo before = mallinfo();
    Blocks blocks(20000, 1000);
    struct mallinfo full = mallinfo();
    EXPECT_GE(full.uordblks, before.uordblks + static_cast<int>(small_bytes));
    EXPECT_LE(full.uordblks, before.uordblks + static_cast<int>(small_bytes * 3 / 2));
}
#pragma GCC diagnostic pop

TEST_F(Introspection, MallocInfoWritesXmlOfOurHeap) {
    Blocks blocks(20000, 1000);
    std::string xml = info();
    EXPECT_EQ(xml.rfind("<malloc version=", 0), 0U) << xml.substr(0, 100);
    EXPECT_NE(xml.find("</malloc>"), std::string::npos);
    EXPECT_EQ(std::count(xml.begin(), xml.end(), '<'), std::count(xml.begin(), xml.end(), '>'));
    EXPECT_GE(largest_number(xml), small_bytes) << "the blocks are not in the report: " << xml;
}

/* glibc returns the error number and leaves errno alone, unlike its manual, which promises -1 and errno. */
TEST_F(Introspection, MallocInfoRefusesUnknownOptions) {
    FILE *out = fopen("/dev/null", "w");
    ASSERT_NE(out, nullptr);
    for (int options : {1, -1, INT_MAX, INT_MIN}) {
        errno = EILSEQ;
        EXPECT_EQ(malloc_info(options, out), EINVAL) << options;
        EXPECT_EQ(malloc_info(options, nullptr), EINVAL) << options;
        EXPECT_EQ(errno, EILSEQ) << options;
    }
    EXPECT_EQ(ftell(out), 0) << "nothing is written";
    fclose(out);
}

TEST_F(Introspection, MallocInfoLeavesErrorsToTheStream) {
    FILE *out = fopen("/dev/null", "r");
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(malloc_info(0, out), 0);
    EXPECT_NE(ferror(out), 0);
    fclose(out);
}

TEST_F(Introspection, MallocStatsWritesToStderr) {
    Blocks blocks(20000, 1000);
    std::string text = stderr_of([] { malloc_stats(); });
    size_t live = text.find("\nlive ");
    size_t shown = live == std::string::npos /* in glibc's report */
                       ? largest_number(text)
                       : static_cast<size_t>(strtod(text.c_str() + live + 6, nullptr) * static_cast<double>(MiB));
    EXPECT_GE(shown, small_bytes) << "the blocks are not in the report: " << text;
    EXPECT_LT(largest_number(text), size_t{100} << 40) << "a figure fell below zero: " << text;
}

TEST_F(Introspection, MallocTrimSaysWhetherItGaveSomethingBack) {
    { Blocks blocks(200000, 1000); }
    size_t before = resident_bytes();
    { Blocks blocks(1, 1000); }
    int gave = malloc_trim(0);
    EXPECT_TRUE(gave == 0 || gave == 1) << gave;
    size_t after = resident_bytes();
    EXPECT_LT(after, 100 * MiB) << "200 MB of freed blocks are still resident after malloc_trim; before: " << before;
    if (before > after + 10 * MiB) {
        EXPECT_EQ(gave, 1);
    }
}

/* In a child process, so that no other test gets the settings. */
TEST_F(Introspection, MalloptAcceptsGlibcsParameters) {
    children::expect_good_end(children::start([] {
        struct Option {
            const char *name;
            int parameter, value;
        };
        for (Option option :
             {Option{"M_MMAP_THRESHOLD", M_MMAP_THRESHOLD, 128 * 1024}, Option{"M_MMAP_MAX", M_MMAP_MAX, 65536},
              Option{"M_TRIM_THRESHOLD", M_TRIM_THRESHOLD, 128 * 1024}, Option{"M_TOP_PAD", M_TOP_PAD, 128 * 1024},
              Option{"M_CHECK_ACTION", M_CHECK_ACTION, 3}, Option{"M_PERTURB", M_PERTURB, 0},
              Option{"M_ARENA_TEST", M_ARENA_TEST, 8}, Option{"M_ARENA_MAX", M_ARENA_MAX, 8},
              Option{"M_MXFAST", M_MXFAST, 64}}) {
            require(mallopt(option.parameter, option.value) == 1, option.name);
            void *block = t_malloc(1000);
            require(block != nullptr, option.name);
            t_free(block);
        }
        return 0;
    }));
}

/* mallopt(3) lets it return 0 for an error. glibc does so only for M_MXFAST, and accepts everything else, so programs
   that check the result were never refused anything else. In a child process, as above. */
TEST_F(Introspection, MalloptReturnsWhatGlibcReturns) {
    children::expect_good_end(children::start([] {
        const int values[] = {INT_MIN, -2, -1, 0, 1, 160, 161, 1024 * 1024, 256 << 20, 512 << 20, INT_MAX - 1, INT_MAX};
        errno = EILSEQ;
        for (int value : values) {
            require(mallopt(M_MXFAST, value) == (value >= 0 && value <= 160), "80 * sizeof(size_t) / 4 is the most");
            for (int parameter :
                 {M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX, M_TOP_PAD, M_MMAP_MAX, M_CHECK_ACTION, M_PERTURB,
                  M_ARENA_TEST, 0, 2, 3, 4, -9, -100, 4711, INT_MAX, INT_MIN})
                require(mallopt(parameter, value) == 1, "all else is accepted");
        }
        require(errno == EILSEQ, "errno stays");
        void *block = t_malloc(1000);
        require(block != nullptr, "malloc works");
        t_free(block);
        return 0;
    }));
}

/* What mallopt(3) names, each in a child process, which gets none of the settings of another test. */
class Mallopt : public Introspection {
  protected:
    void SetUp() override {
        Introspection::SetUp();
        T_ONLY_OURS();
    }
    template <typename Body> static void in_child(Body body) {
        children::expect_good_end(children::start([&] {
            body();
            return 0;
        }));
    }
    static struct hz_stats stats() {
        struct hz_stats got = {};
        require(t_stats_get(&got) == 0, "statistics are there");
        return got;
    }
    /* Frees 6 MiB in blocks that are used; nothing rested before. */
    static void free_six_megabytes() {
        void *blocks[12];
        for (void *&block : blocks) {
            block = t_malloc(512 * KiB);
            memset(block, 1, 512 * KiB);
        }
        for (void *block : blocks)
            t_free(block);
    }
    static bool is_mapped(void *address) {
        unsigned char resident;
        auto page = reinterpret_cast<uintptr_t>(address) & ~uintptr_t{4095};
        return mincore(reinterpret_cast<void *>(page), 1, &resident) == 0;
    }
};

TEST_F(Mallopt, TrimThresholdActsAtOnceAndLater) {
    in_child([] {
        (void)t_table.purge_fn();
        free_six_megabytes();
        struct hz_stats before = stats();
        require(before.free_bytes + before.cached_bytes >= 4 * MiB, "by default 4 MiB may rest");
        require(mallopt(M_TRIM_THRESHOLD, 64 * 1024 * 1024) == 1, "64 MiB is a threshold");
        require(stats().purged_bytes == before.purged_bytes, "a higher one purges nothing");
        require(mallopt(M_TRIM_THRESHOLD, 1024 * 1024) == 1, "1 MiB is a threshold");
        struct hz_stats after = stats();
        require(after.purged_bytes - before.purged_bytes >= before.free_bytes - 2 * MiB,
                "what exceeds it goes at once");
        require(after.free_bytes <= 2 * MiB, "little rests");
        free_six_megabytes();
        require(stats().free_bytes <= 2 * MiB, "later frees keep to it too");
    });
}

TEST_F(Mallopt, WithoutATrimThresholdEverythingRests) {
    for (int threshold : {-1, -2, INT_MIN})
        in_child([threshold] {
            (void)t_table.purge_fn();
            require(mallopt(M_TRIM_THRESHOLD, threshold) == 1, "-1, like all below, is the value for it");
            size_t purged = stats().purged_bytes;
            static void *blocks[100];
            for (void *&block : blocks)
                block = t_malloc(MiB);
            for (void *block : blocks)
                t_free(block);
            require(stats().purged_bytes == purged, "nothing is purged");
            require(stats().free_bytes + stats().cached_bytes >= 100 * MiB, "all of it rests");
        });
}

TEST_F(Mallopt, MmapThresholdGivesBlocksMappingsOfTheirOwn) {
    in_child([] {
        void *block = t_malloc(5 * MiB);
        t_free(block);
        require(is_mapped(block), "by default the block's memory rests");
        require(mallopt(M_MMAP_THRESHOLD, 5 * 1024 * 1024) == 1, "5 MiB is a threshold");
        block = t_malloc(5 * MiB);
        t_free(block);
        require(!is_mapped(block), "a block of that size is unmapped when it is freed");
        block = t_malloc(5 * MiB - 4096);
        t_free(block);
        require(is_mapped(block), "a smaller one rests");
        block = t_malloc(4 * MiB);
        support::fill(block, 4 * MiB, 7);
        block = t_realloc(block, 6 * MiB);
        require(support::holds(block, 4 * MiB, 7), "a block that grows keeps its contents");
        t_free(block);
        require(!is_mapped(block), "and is unmapped when it is freed");
        require(mallopt(M_MMAP_THRESHOLD, 0) == 1, "0 is a threshold");
        block = t_malloc(2 * MiB + 1);
        t_free(block);
        require(!is_mapped(block), "it stands for 2 MiB");
    });
    for (int threshold : {-1, INT_MIN, 64 * 1024 * 1024 + 1, INT_MAX})
        in_child([threshold] {
            require(mallopt(M_MMAP_THRESHOLD, 5 * 1024 * 1024) == 1, "5 MiB is a threshold");
            require(mallopt(M_MMAP_THRESHOLD, threshold) == 1, "-1 and what exceeds 64 MiB are accepted");
            void *block = t_malloc(64 * MiB);
            t_free(block);
            require(is_mapped(block), "and stand for the default, which is above 64 MiB");
        });
}

/* The shards that exist after threads that ran at the same time. */
double shards_after_threads(unsigned count) {
    std::atomic<unsigned> arrived{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; i++)
        threads.emplace_back([&] {
            t_free(t_malloc(100));
            arrived++;
            while (arrived.load() < count)
                std::this_thread::yield();
        });
    for (std::thread &thread : threads)
        thread.join();
    return report::counters_of_json(report::printed(HZ_STATS_JSON))["counters.shards"];
}

TEST_F(Mallopt, ArenaMaxBoundsTheShards) {
    in_child([] {
        require(mallopt(M_ARENA_MAX, 1) == 1, "1 is a limit");
        require(shards_after_threads(4) == 1, "all threads share one shard");
        require(mallopt(M_ARENA_MAX, -1) == 1, "-1 is accepted");
        require(shards_after_threads(4) == 1, "and changes nothing");
        require(mallopt(M_ARENA_MAX, 0) == 1, "0 is no limit but the usual one");
        double shards = shards_after_threads(4);
        require(shards > 1 || std::thread::hardware_concurrency() == 1, "there is a shard for each CPU");
    });
}

/* cfree is no longer declared, but old binaries still call it. */
TEST_F(Introspection, CfreeFrees) {
    T_ONLY_OURS();
    auto cfree_fn = reinterpret_cast<void (*)(void *)>(dlsym(RTLD_DEFAULT, "cfree"));
    ASSERT_NE(cfree_fn, nullptr);
    size_t before = live_bytes();
    for (int i = 0; i < 1000; i++)
        cfree_fn(t_malloc(10000));
    cfree_fn(nullptr);
    EXPECT_LT(live_bytes(), before + MiB);
}

} // namespace
