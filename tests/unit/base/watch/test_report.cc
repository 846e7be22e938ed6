/* Reports: the exact text and the exact JSON. */
#include "unit/library.h"

#include "contract/json.h"

#include <cerrno>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace {

/* The report that `body` makes, read back from a file in memory. */
std::string report(bool json, const std::function<void(struct hz_report *)> &body) {
    int fd = memfd_create("report", 0);
    EXPECT_GE(fd, 0);
    struct hz_report report;
    hz_report_begin(&report, fd, json);
    body(&report);
    EXPECT_EQ(hz_report_end(&report), 0);
    std::string text(static_cast<size_t>(lseek(fd, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    close(fd);
    return text;
}

void everything(struct hz_report *report) {
    hz_report_string(report, "version", "0.1.0");
    hz_report_group_open(report, "heap");
    hz_report_number(report, "live", 0);
    hz_report_group_open(report, "inner");
    hz_report_number(report, "largest", UINT64_MAX);
    hz_report_string(report, "name", "a b");
    hz_report_group_close(report);
    hz_report_number(report, "after", 10);
    hz_report_group_close(report);
    hz_report_rows_open(report, "classes");
    for (uint64_t row = 1; row <= 2; row++) {
        hz_report_row_open(report);
        hz_report_number(report, "bytes", row * 16);
        hz_report_string(report, "kind", "small");
        hz_report_row_close(report);
    }
    hz_report_rows_close(report);
    hz_report_number(report, "last", 7);
}

TEST(Report, TextIsExact) {
    EXPECT_EQ(report(false, everything), "version:                0.1.0\n"
                                         "heap\n"
                                         "  inner\n"
                                         "    largest:                18446744073709551615\n"
                                         "    name:                   a b\n"
                                         "  after:                  10\n"
                                         "classes: bytes=16 kind=small\n"
                                         "classes: bytes=32 kind=small\n"
                                         "last:                   7\n");
}

TEST(Report, TextLeavesOutZerosAndEmptyGroups) {
    auto zeros = [](struct hz_report *r) {
        hz_report_group_open(r, "group");
        hz_report_number(r, "zero", 0);
        hz_report_group_close(r);
        hz_report_number(r, "zero", 0);
    };
    EXPECT_EQ(report(false, zeros), "");
    EXPECT_EQ(report(true, zeros), "{\"group\":{\"zero\":0},\"zero\":0}\n");
}

TEST(Report, FormattedLinesAreInTextOnly) {
    auto lines = [](struct hz_report *r) {
        hz_report_text(r, "%zu of %s\n", size_t{3}, "them");
        hz_report_text(r, "%s", std::string(5000, 'x').c_str()); /* cut: no line of ours is that long */
    };
    EXPECT_EQ(report(false, lines), "3 of them\n" + std::string(511, 'x'));
    EXPECT_EQ(report(true, lines), "{}\n");
}

TEST(Report, JsonIsExact) {
    EXPECT_EQ(report(true, everything),
              "{\"version\":\"0.1.0\",\"heap\":{\"live\":0,\"inner\":{\"largest\":18446744073709551615,"
              "\"name\":\"a b\"},\"after\":10},\"classes\":[{\"bytes\":16,\"kind\":\"small\"},"
              "{\"bytes\":32,\"kind\":\"small\"}],\"last\":7}\n");
}

TEST(Report, EmptyReportsAreWellFormed) {
    EXPECT_EQ(report(false, [](struct hz_report *) {}), "");
    EXPECT_EQ(report(true, [](struct hz_report *) {}), "{}\n");
    auto empty = [](struct hz_report *r) {
        hz_report_group_open(r, "group");
        hz_report_group_close(r);
        hz_report_rows_open(r, "rows");
        hz_report_rows_close(r);
    };
    EXPECT_EQ(report(false, empty), "");
    EXPECT_EQ(report(true, empty), "{\"group\":{},\"rows\":[]}\n");
}

TEST(Report, JsonStringsAreEscaped) {
    auto quoted = [](struct hz_report *r) { hz_report_string(r, "path", "C:\\dir \"x\""); };
    EXPECT_EQ(report(true, quoted), "{\"path\":\"C:\\\\dir \\\"x\\\"\"}\n");
    EXPECT_EQ(report(false, quoted), "path:                   C:\\dir \"x\"\n");
    auto odd = [](struct hz_report *r) { hz_report_string(r, "name", "a\tb\n\x01\xff\xc3\xa9\x7f"); };
    EXPECT_EQ(report(true, odd), "{\"name\":\"a\\u0009b\\u000a\\u0001????\"}\n")
        << "what need not be UTF-8 is replaced";
}

TEST(Report, NumbersOfEveryLength) {
    std::string expected;
    auto body = [](struct hz_report *r) {
        for (uint64_t value = 1; value < UINT64_MAX / 10; value *= 10) {
            hz_report_number(r, "n", value);
            hz_report_number(r, "n", value + 1);
        }
    };
    for (uint64_t value = 1; value < UINT64_MAX / 10; value *= 10)
        for (uint64_t number : {value, value + 1})
            expected += "n:                      " + std::to_string(number) + "\n";
    EXPECT_EQ(report(false, body), expected);
}

/* Reports longer than the buffer, made of words whose lengths are around the buffer's. */
TEST(Report, LongReportsKeepEveryByte) {
    std::vector<size_t> lengths = {1, 100, 1000, 3000};
    for (size_t length = 1010; length <= 1030; length++) /* the buffer ends within each part of a line */
        lengths.push_back(length);
    for (size_t length : lengths) {
        std::string word(length, 'x');
        word.back() = 'e';
        std::string expected;
        for (int i = 0; i < 5; i++)
            expected += "key:                    " + word + "\n";
        auto body = [&](struct hz_report *r) {
            for (int i = 0; i < 5; i++)
                hz_report_string(r, "key", word.c_str());
        };
        ASSERT_EQ(report(false, body), expected) << "words of " << length;
        ASSERT_TRUE(JsonReader::valid(report(true, body)));
    }
}

TEST(Report, FirstErrorStays) {
    struct hz_report report;
    hz_report_begin(&report, -1, false);
    std::string word(2000, 'x');
    errno = EILSEQ;
    hz_report_string(&report, "key", word.c_str()); /* does not fit into the buffer, so it is written now and refused */
    hz_report_number(&report, "n", 1);
    EXPECT_EQ(hz_report_end(&report), EBADF);
    EXPECT_EQ(errno, EILSEQ);
    int full = open("/dev/full", O_WRONLY);
    ASSERT_GE(full, 0);
    hz_report_begin(&report, full, true);
    hz_report_number(&report, "n", 1);
    EXPECT_EQ(hz_report_end(&report), ENOSPC) << "the last write failed";
    close(full);
}

TEST(ReportDeathTest, NestingIsBounded) {
    if (!HZ_CONFIG_CHECKS)
        GTEST_SKIP() << "internal assertions are in the check build";
    struct hz_report report;
    hz_report_begin(&report, STDOUT_FILENO, true);
    for (int i = 0; i < HZ_REPORT_DEPTH_MAX; i++)
        hz_report_group_open(&report, "g");
    EXPECT_DEATH(hz_report_group_open(&report, "g"), "internal error: .*depth");
    EXPECT_DEATH(hz_report_end(&report), "internal error: .*depth") << "a group is still open";
}

} // namespace
