/* What is known of the process when the library is loaded: a filter of system calls, and the CPUs that it may use. */
#include "unit/base/fixture.h"
#include "unit/folder.h"

namespace {

class Startup : public unit::Folder {
  protected:
    struct hz_startup look_at(const std::string &text) {
        struct hz_startup seen;
        write("status", text);
        hz_startup_look_at((folder_ / "status").c_str(), &seen);
        return seen;
    }
};

TEST_F(Startup, AFilterIsSeenHoweverLongTheFileIs) {
    std::string groups = "Groups:\t";
    for (int length : {0, 1, 100, 400, 65536}) {
        std::string head = "Name:\tx\nTgid:\t7\n" + groups;
        for (int i = 0; i < length; i++)
            head += std::to_string(1234500000 + i) + " ";
        for (char mode : {'0', '1', '2'}) {
            struct hz_startup seen =
                look_at(head + "\nNoNewPrivs:\t0\nSeccomp:\t" + mode + "\nSeccomp_filters:\t9\nCpus_allowed:\t5\n");
            EXPECT_TRUE(seen.is_known) << length;
            EXPECT_EQ(seen.is_filtered, mode != '0') << length << " groups, mode " << mode;
            EXPECT_TRUE(seen.has_cpus);
            EXPECT_EQ(seen.cpus[0], 5U);
        }
    }
}

TEST_F(Startup, OneThreadIsTold) {
    for (const char *one : {"Threads:\t1\n", "Seccomp:\t2\nThreads:\t1\nCpus_allowed:\t5\n"})
        EXPECT_TRUE(look_at(one).has_one_thread) << one;
    for (const char *other :
         {"", "Threads:\t2\n", "Threads:\t11\n", "Threads:\t10\n", "Threads:\t21\n", "Seccomp:\t1\n"})
        EXPECT_FALSE(look_at(other).has_one_thread) << other;
}

TEST_F(Startup, WhatTheFileDoesNotSayIsUnknown) {
    for (const char *text : {"", "x", "Seccomp:", "Seccomp_filters:\t1\n", "Name:\tSeccomp:\t0\n"})
        EXPECT_FALSE(look_at(text).is_known) << text;
    struct hz_startup seen;
    hz_startup_look_at("/none", &seen);
    EXPECT_FALSE(seen.is_known || seen.has_cpus);
}

} // namespace
