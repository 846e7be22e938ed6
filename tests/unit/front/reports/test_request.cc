/* What HAKOZUNA_STATS asks for: words, their values, and what is refused. */
#include "unit/library.h"

#include <csignal>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace {

std::vector<std::string> refused;

void refuse(const char *word, size_t length, const char *allowed) {
    EXPECT_GT(strlen(allowed), 10U);
    refused.emplace_back(word, length);
}

struct hz_request read(const char *words, enum hz_request_of of = HZ_REQUEST_STATS) {
    struct hz_request request = {};
    refused.clear();
    hz_request_read(of, words, &request, refuse);
    return request;
}

TEST(Request, NothingIsAsked) {
    for (const char *words : {"", "0"}) {
        EXPECT_FALSE(hz_request_is_any(&static_cast<const struct hz_request &>(read(words)))) << words;
        EXPECT_TRUE(refused.empty());
    }
}

TEST(Request, AtExitUnlessAnotherTimeIsNamed) {
    for (const char *words :
         {"1", "text", "exit", "json", "verbose,children", "file=x", "exit,every=3", "1,signal=USR1"})
        EXPECT_TRUE(read(words).at_exit) << words;
    for (const char *words : {"every=3", "signal=USR1", "json,every=3,signal=USR1,file=x"})
        EXPECT_FALSE(read(words).at_exit) << words;
    EXPECT_TRUE(refused.empty());
}

TEST(Request, WordsAndTheirValues) {
    struct hz_request request = read("json,signal=SIGUSR2,every=86400,file=/a b/%e.%p.%%,children");
    EXPECT_EQ(request.format, HZ_STATS_JSON);
    EXPECT_EQ(request.signal, SIGUSR2);
    EXPECT_EQ(request.every_s, 86400U);
    EXPECT_STREQ(request.file, "/a b/%e.%p.%%");
    EXPECT_TRUE(request.in_children);
    EXPECT_FALSE(request.at_exit);
    EXPECT_TRUE(refused.empty());
    EXPECT_EQ(read("text,verbose").format, HZ_STATS_VERBOSE) << "the last one counts";
    EXPECT_EQ(read("signal=WINCH").signal, SIGWINCH);
    EXPECT_EQ(read(("signal=" + std::to_string(SIGRTMIN + 3)).c_str()).signal, SIGRTMIN + 3);
    EXPECT_TRUE(refused.empty());
}

TEST(Request, LeaksHaveAStatus) {
    struct hz_request request = read("status=23,every=5,file=x.%p,children", HZ_REQUEST_LEAKS);
    EXPECT_EQ(request.status, 23);
    EXPECT_TRUE(request.every_s == 5 && request.in_children && !request.at_exit);
    EXPECT_TRUE(read("status=255", HZ_REQUEST_LEAKS).at_exit);
    EXPECT_TRUE(refused.empty());
    for (const char *word : {"status=0", "status=256", "status=x", "listen", "json", "rate=1", "leak"}) {
        EXPECT_FALSE(hz_request_is_any(&static_cast<const struct hz_request &>(read(word, HZ_REQUEST_LEAKS)))) << word;
        EXPECT_EQ(refused.size(), 1U) << word;
    }
    (void)read("status=3");
    EXPECT_EQ(refused, std::vector<std::string>{"status=3"}) << "no word of statistics";
}

TEST(Request, ListeningIsATime) {
    for (enum hz_request_of of : {HZ_REQUEST_STATS, HZ_REQUEST_PROFILE}) {
        struct hz_request request = read("listen,children", of);
        EXPECT_TRUE(request.listens && request.in_children && hz_request_is_any(&request));
        EXPECT_FALSE(request.at_exit);
        EXPECT_TRUE(read("listen,exit", of).at_exit);
        EXPECT_FALSE(read("exit", of).listens);
        EXPECT_TRUE(refused.empty());
        EXPECT_FALSE(read("listen=1", of).listens);
        EXPECT_EQ(refused.size(), 1U);
    }
}

TEST(Request, WaitingIsListening) {
    struct hz_request request = read("wait,rate=1000", HZ_REQUEST_PROFILE);
    EXPECT_TRUE(request.waits && request.listens && !request.at_exit && request.rate == 1000);
    EXPECT_TRUE(read("wait,exit", HZ_REQUEST_PROFILE).at_exit);
    EXPECT_TRUE(refused.empty());
    EXPECT_FALSE(read("wait").waits) << "a word of profiles only";
    EXPECT_EQ(refused, std::vector<std::string>({"wait"}));
}

TEST(Request, BadWordsAreRefusedOneByOne) {
    struct hz_request request = read("json,jsn,every=0,,signal=KILL,signal=,exit ");
    EXPECT_EQ(refused, std::vector<std::string>({"jsn", "every=0", "", "signal=KILL", "signal=", "exit "}));
    EXPECT_EQ(request.format, HZ_STATS_JSON);
    EXPECT_TRUE(request.at_exit) << "the good word is obeyed";
    for (const char *words : {"JSON",        "yes",         "2",
                              "every",       "every=",      "every=86401",
                              "every=1s",    "every=-1",    "every=99999999999999999999",
                              "signal=9",    "signal=SEGV", "signal=TERM",
                              "signal=usr1", "signal=65",   "signal=32",
                              "file",        "file=",       "file=%",
                              "file=%x",     "text=1",      ","}) {
        EXPECT_FALSE(hz_request_is_any(&static_cast<const struct hz_request &>(read(words)))) << words;
        EXPECT_GE(refused.size(), 1U) << words;
    }
}

TEST(Request, Profiles) {
    struct hz_request request = read("rate=64K,signal=USR1,children", HZ_REQUEST_PROFILE);
    EXPECT_EQ(request.rate, 65536U);
    EXPECT_EQ(request.signal, SIGUSR1);
    EXPECT_TRUE(request.in_children);
    EXPECT_FALSE(request.at_exit);
    EXPECT_STREQ(request.file, "%e.%p.heap");
    EXPECT_EQ(read("1", HZ_REQUEST_PROFILE).rate, 512U << 10);
    EXPECT_EQ(read("rate=1", HZ_REQUEST_PROFILE).rate, 1U);
    EXPECT_EQ(read("rate=1024M", HZ_REQUEST_PROFILE).rate, uint64_t{1} << 30);
    EXPECT_TRUE(read("rate=3,file=x", HZ_REQUEST_PROFILE).at_exit);
    EXPECT_FALSE(read("rate=3", HZ_REQUEST_PROFILE).by_frames);
    EXPECT_TRUE(read("unwind=frame-pointer", HZ_REQUEST_PROFILE).by_frames);
    EXPECT_FALSE(read("unwind=frame-pointer,unwind=tables", HZ_REQUEST_PROFILE).by_frames);
    EXPECT_TRUE(refused.empty());
    EXPECT_FALSE(read("leak", HZ_REQUEST_PROFILE).at_exit) << "only the list of leaks is asked for";
    EXPECT_TRUE(read("leak,exit", HZ_REQUEST_PROFILE).at_exit);
    request = read("peak,limit", HZ_REQUEST_PROFILE);
    EXPECT_TRUE(request.at_peak && request.at_limit && !request.at_exit && hz_request_is_meanwhile(&request));
    EXPECT_TRUE(refused.empty());
    EXPECT_FALSE(read("peak").at_peak) << "statistics have no such word";
    for (const char *words :
         {"rate", "rate=", "rate=0", "rate=K", "rate=1025M", "rate=1073741825", "rate=1k", "rate=-1",
          "rate=4294967295K", "unwind=", "unwind=frames", "unwind=tables2", "json", "text", "leaks"}) {
        EXPECT_FALSE(hz_request_is_any(&static_cast<const struct hz_request &>(read(words, HZ_REQUEST_PROFILE))))
            << words;
        EXPECT_EQ(refused.size(), 1U) << words;
    }
    EXPECT_FALSE(hz_request_is_any(&static_cast<const struct hz_request &>(read("rate=5"))));
}

TEST(Request, PatternsHaveTheirLimit) {
    std::string longest(HZ_REQUEST_ROOM - 1, 'x');
    EXPECT_EQ(read(("file=" + longest).c_str()).file, longest);
    EXPECT_TRUE(refused.empty());
    EXPECT_STREQ(read(("file=" + longest + "x").c_str()).file, "");
    EXPECT_EQ(refused.size(), 1U);
}

std::string path(const char *pattern, size_t room = 100) {
    char text[100] = "";
    return hz_request_path(pattern, "prog", 4711, text, room) ? text : "(too long)";
}

TEST(Request, PathsOfPatterns) {
    EXPECT_EQ(path("a"), "a");
    EXPECT_EQ(path("/tmp/%e.%p"), "/tmp/prog.4711");
    EXPECT_EQ(path("%p%p%%e%%"), "47114711%e%");
    EXPECT_EQ(path("%e", 5), "prog");
    EXPECT_EQ(path("%e", 4), "(too long)");
    EXPECT_EQ(path("abc%p", 7), "(too long)");
}

} // namespace
