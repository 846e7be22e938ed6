/* What a failing program prints before it aborts: one line, exactly. */
#include "stress/children.h"
#include "unit/library.h"

#include <csignal>
#include <functional>
#include <gtest/gtest.h>
#include <string>

namespace {

struct End {
    std::string text;
    int status;
};

End end_of(const std::function<void()> &body) {
    int ends[2];
    if (pipe(ends) != 0)
        abort();
    pid_t child = children::start([&] {
        dup2(ends[1], STDERR_FILENO);
        body();
        return 0;
    });
    close(ends[1]);
    End end = {};
    char part[512];
    for (ssize_t count; (count = read(ends[0], part, sizeof part)) > 0;)
        end.text.append(part, static_cast<size_t>(count));
    close(ends[0]);
    end.status = children::wait_for(child);
    return end;
}

void expect_abort(const End &end, const std::string &text) {
    EXPECT_EQ(end.text, text);
    EXPECT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT) << children::describe(end.status);
}

TEST(Check, PointerFailuresSayWhichAndWhere) {
    for (const char *text : {HZ_TEXT_FOREIGN, HZ_TEXT_DOUBLE_FREE, HZ_TEXT_INTERIOR, HZ_TEXT_SIZE, HZ_TEXT_LIST})
        expect_abort(end_of([=] { hz_fail_pointer(text, reinterpret_cast<void *>(uintptr_t{0x7f001234abc0}), "why"); }),
                     std::string("hakozuna: ") + text + " 0x7f001234abc0 (why)\n");
    expect_abort(end_of([] { hz_fail_pointer("text", nullptr, nullptr); }), "hakozuna: text 0x0\n");
    expect_abort(end_of([] { hz_fail_pointer("text", reinterpret_cast<void *>(UINTPTR_MAX), nullptr); }),
                 "hakozuna: text 0xffffffffffffffff\n");
}

TEST(Check, ALongLineIsCut) {
    const std::string words(1000, 'w');
    const End end = end_of([&] { hz_fail_pointer("text", nullptr, words.c_str()); });
    EXPECT_EQ(end.text.substr(0, 30), "hakozuna: text 0x0 (" + words.substr(0, 10));
    EXPECT_EQ(end.text.size(), sizeof(hz_line::text));
    EXPECT_EQ(end.text.back(), '\n');
}

TEST(Check, TheThreadGivesUpWhatItHoldsBeforeItAborts) {
    expect_abort(end_of([] {
                     hz_fail_before_abort([] { (void)!write(STDERR_FILENO, "released\n", 9); });
                     hz_fail_pointer("text", nullptr, nullptr);
                 }),
                 "hakozuna: text 0x0\nreleased\n");
}

TEST(Check, TextsAreStable) {
    EXPECT_STREQ(HZ_TEXT_FOREIGN, "free of a pointer that is not from this allocator:");
    EXPECT_STREQ(HZ_TEXT_DOUBLE_FREE, "double free of block:");
    EXPECT_STREQ(HZ_TEXT_INTERIOR, "free of a pointer into the middle of a block:");
    EXPECT_STREQ(HZ_TEXT_SIZE, "sized free with a size that the block cannot have:");
    EXPECT_STREQ(HZ_TEXT_LIST, "corrupt list of free blocks at:");
}

TEST(Check, InternalErrorsSayWhere) {
    expect_abort(end_of([] { hz_fail_assert("a < b", "file.c", 1234567); }),
                 "hakozuna: internal error: a < b (file.c:1234567)\n");
    expect_abort(end_of([] { hz_fail_assert("x", "f", 0); }), "hakozuna: internal error: x (f:0)\n");
}

TEST(Check, LongTextsAreCutOff) {
    std::string condition(1000, 'x');
    End end = end_of([&] { hz_fail_assert(condition.c_str(), "file.c", 1); });
    EXPECT_EQ(end.text.find("hakozuna: internal error: xxx"), 0U);
    EXPECT_LE(end.text.size(), 320U);
    EXPECT_GE(end.text.size(), 300U);
    EXPECT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT);
}

TEST(Check, AssertionsAreInTheCheckBuildOnly) {
    int evaluated = 0;
    hz_assert(++evaluated == 1);
    EXPECT_EQ(evaluated, HZ_CONFIG_CHECKS);
    End end = end_of([] { hz_assert(1 == 2); });
    if (HZ_CONFIG_CHECKS) {
        EXPECT_EQ(end.text.find("hakozuna: internal error: 1 == 2 (test_check.cc:"), 0U) << end.text;
        EXPECT_TRUE(WIFSIGNALED(end.status));
    } else {
        EXPECT_EQ(end.text, "");
        EXPECT_EQ(end.status, 0);
    }
}

} // namespace
