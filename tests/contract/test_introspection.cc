/*
 * glibc's own functions that inspect and tune malloc. They have no hz_ names; under LD_PRELOAD they must act on our
 * heap, not on glibc's unused one. The tests of reports allocate something and expect to find it in the report.
 */
#include "api.h"
#include "support.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>

namespace {

using namespace support;

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

TEST_F(Introspection, Mallinfo2CountsMappings) {
    struct mallinfo2 before = mallinfo2();
    {
        Blocks blocks(3, 40 * MiB);
        struct mallinfo2 full = mallinfo2();
        EXPECT_EQ(full.hblks, before.hblks + 3);
        EXPECT_GE(full.hblkhd, before.hblkhd + 120 * MiB);
    }
    EXPECT_EQ(mallinfo2().hblks, before.hblks);
    EXPECT_LE(mallinfo2().hblkhd, before.hblkhd);
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
    char *text = nullptr;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(malloc_info(0, out), 0);
    fclose(out);
    std::string xml(text, length);
    free(text);
    EXPECT_EQ(xml.rfind("<malloc version=", 0), 0U) << xml.substr(0, 100);
    EXPECT_NE(xml.find("</malloc>"), std::string::npos);
    EXPECT_EQ(std::count(xml.begin(), xml.end(), '<'), std::count(xml.begin(), xml.end(), '>'));
    EXPECT_GE(largest_number(xml), small_bytes) << "the blocks are not in the report: " << xml;
}

TEST_F(Introspection, MallocInfoRefusesUnknownOptions) {
    FILE *out = fopen("/dev/null", "w");
    ASSERT_NE(out, nullptr);
    errno = 0;
    int answer = malloc_info(1, out);
    /* glibc returns the error number; its manual promises -1 and errno. */
    EXPECT_TRUE(answer == EINVAL || (answer == -1 && errno == EINVAL)) << answer;
    fclose(out);
}

TEST_F(Introspection, MallocStatsWritesToStderr) {
    Blocks blocks(20000, 1000);
    std::string text = stderr_of([] { malloc_stats(); });
    EXPECT_GE(largest_number(text), small_bytes) << "the blocks are not in the report: " << text;
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

TEST_F(Introspection, MalloptAcceptsGlibcsParameters) {
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
        EXPECT_EQ(mallopt(option.parameter, option.value), 1) << option.name;
        void *block = t_malloc(1000);
        EXPECT_NE(block, nullptr) << "after " << option.name;
        t_free(block);
    }
}

/* Blocks that glibc allocates inside its own functions come from the replaced malloc and go to the replaced free. */
TEST_F(Introspection, BlocksOfLibcFunctionsAreOurs) {
    T_ONLY_OURS();
    char *copy = strdup("a text of some length, longer than the smallest class");
    EXPECT_EQ(t_usable_size(copy), t_good_size(strlen(copy) + 1));
    free(copy);
    char *printed = nullptr;
    ASSERT_GT(asprintf(&printed, "%0*d", 5000, 7), 0);
    EXPECT_GE(t_usable_size(printed), 5001U);
    free(printed);
    char *line = nullptr;
    size_t capacity = 0;
    FILE *in = fopen("/proc/self/maps", "r");
    ASSERT_NE(in, nullptr);
    ASSERT_GT(getline(&line, &capacity, in), 0);
    EXPECT_EQ(t_usable_size(line), t_good_size(capacity));
    free(line);
    fclose(in);
    char *path = realpath("/proc/self/../self/status", nullptr);
    ASSERT_NE(path, nullptr);
    EXPECT_GE(t_usable_size(path), strlen(path) + 1);
    free(path);
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
