/* How many CPUs the process can use: affinity, quota of the control group, CPUs on which threads were seen. */
#include "stress/children.h"
#include "unit/base/fixture.h"
#include "unit/folder.h"
#include "unit/on_cpu.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

namespace {

using children::require;
namespace fs = std::filesystem;

/* A child looks at the files, so that nothing is known beforehand. */
class Cpus : public unit::Folder {
  protected:
    void SetUp() override {
        unit::Folder::SetUp();
        write("status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n");
        write("groups", "0::/\n");
    }
    void allow(const std::string &mask) {
        write("status", "Name:\tx\nCpus_allowed:\t" + mask + "\nCpus_allowed_list:\t?\n");
    }
    /* As when the library is loaded, and a second later. */
    void look() {
        struct hz_startup seen;
        hz_startup_look_at((folder_ / "status").c_str(), &seen);
        if (seen.has_cpus)
            hz_cpus_allow(seen.cpus);
        hz_cpus_look_at((folder_ / "online").c_str(), (folder_ / "groups").c_str(), folder_.c_str());
        hz_cpus_forget_seen();
    }
    uint32_t count() {
        look();
        return hz_cpus_count();
    }
    template <typename Body> void in_child(Body body) {
        children::expect_good_end(children::start([&] {
            body();
            return testing::Test::HasFailure() ? 1 : 0;
        }));
    }
};

TEST_F(Cpus, OnlyThoseThatAreOnlineCount) {
    const std::pair<const char *, uint32_t> cases[] = {{"0\n", 1},         {"0-3\n", 4},      {"0-1,4,6-7\n", 5},
                                                       {"2,64-127\n", 65}, {"0-5000\n", 128}, {"", 128}};
    in_child([&] {
        allow("ffffffff,ffffffff,ffffffff,ffffffff");
        for (const auto &[list, expected] : cases) {
            write("online", list);
            EXPECT_EQ(count(), expected) << list;
        }
    });
}

TEST_F(Cpus, BeforeALookOnlyThoseThatWereSeenCount) {
    in_child([] {
        EXPECT_EQ(hz_cpus_count(), 1U);
        for (int cpu : unit::cpus()) {
            unit::OnCpu there(cpu);
            hz_cpus_note();
            hz_cpus_note();
        }
        EXPECT_EQ(hz_cpus_count(), unit::cpus().size());
    });
}

TEST_F(Cpus, TheMaskOfTheFirstThreadCounts) {
    struct {
        const char *mask;
        uint32_t count;
    } const cases[] = {
        {"1", 1}, {"3", 2}, {"ff", 8}, {"f,00000000", 4}, {"80000000,00000000,00000001", 2}, {"00000001,0000000f", 5}};
    in_child([&] {
        for (const auto &each : cases) {
            allow(each.mask);
            EXPECT_EQ(count(), each.count) << each.mask;
        }
        std::string all = "ffffffff";
        for (int i = 1; i < 32; i++)
            all += ",ffffffff";
        allow(all);
        EXPECT_EQ(count(), 1024U);
        allow("1," + all);
        EXPECT_EQ(count(), 1024U) << "CPU 1024 counts as CPU 0";
    });
}

TEST_F(Cpus, WhatCannotBeReadIsUnknown) {
    in_child([&] {
        for (const char *text : {"Name:\tx\n", "Name:\tx\nCpus_allowed:\t\n", "Cpus_allowed_list:\t0-7\n", "x", ""}) {
            write("status", text);
            EXPECT_EQ(count(), 1U) << text;
        }
        allow("f");
        EXPECT_EQ(count(), 4U);
        fs::remove(folder_ / "status");
        EXPECT_EQ(count(), 4U) << "what was known before stays";
    });
}

TEST_F(Cpus, ThreadsBeyondTheMaskCountAsLongAsTheyAreSeen) {
    const std::vector<int> all = unit::cpus();
    if (all.size() < 2)
        GTEST_SKIP() << "there is only one CPU";
    in_child([&] {
        allow("1");
        for (int cpu : all) {
            unit::OnCpu there(cpu);
            hz_cpus_note();
        }
        EXPECT_EQ(hz_cpus_count(), all.size());
        EXPECT_EQ(count(), all.size()) << "they were seen before the look";
        EXPECT_EQ(count(), 1U) << "and not since";
    });
}

TEST_F(Cpus, TheQuotaOfCgroupV2IsRoundedUp) {
    struct {
        const char *text;
        uint32_t count;
    } const cases[] = {{"max 100000\n", 8},      {"200000 100000\n", 2},
                       {"200001 100000\n", 3},   {"50000 100000\n", 1},
                       {"10000000 100000\n", 8}, {"", 8},
                       {"200000\n", 8},          {"x 100000\n", 8},
                       {"200000 0\n", 8},        {"99999999999999999999 1\n", 8}};
    write("groups", "0::/a/b\n");
    in_child([&] {
        EXPECT_EQ(count(), 8U) << "no file";
        for (const auto &each : cases) {
            write("a/b/cpu.max", each.text);
            EXPECT_EQ(count(), each.count) << each.text;
        }
        write("a/b/cpu.max", "600000 100000\n");
        write("a/cpu.max", "250000 50000\n");
        EXPECT_EQ(count(), 5U) << "the lowest of the group and those above it";
        write("cpu.max", "300000 100000\n");
        EXPECT_EQ(count(), 3U) << "in a container the root may be the group itself";
        fs::remove(folder_ / "cpu.max");
        fs::remove(folder_ / "a/cpu.max");
        EXPECT_EQ(count(), 6U) << "quotas change";
    });
}

TEST_F(Cpus, TheQuotaOfCgroupV1Counts) {
    in_child([&] {
        for (const char *line : {"4:cpu,cpuacct:/a/b\n", "4:cpuacct,cpu:/a/b\n", "9:memory:/x\n4:cpu:/a/b\n0::/\n"}) {
            write("groups", line);
            write("cpu/a/b/cpu.cfs_quota_us", "-1\n");
            write("cpu/a/b/cpu.cfs_period_us", "100000\n");
            EXPECT_EQ(count(), 8U) << line;
            write("cpu/a/b/cpu.cfs_quota_us", "150000\n");
            EXPECT_EQ(count(), 2U) << line;
            write("cpu/cpu.cfs_quota_us", "10000\n");
            write("cpu/cpu.cfs_period_us", "10000\n");
            EXPECT_EQ(count(), 1U) << line;
            fs::remove(folder_ / "cpu/cpu.cfs_quota_us");
        }
        write("groups", "4:cpuset:/a/b\n5:cpuacct:/a/b\n");
        EXPECT_EQ(count(), 8U) << "other controllers";
        write("groups", "4:cpu\n:\n0:\n\n4:cpu:a\n");
        EXPECT_EQ(count(), 8U) << "lines of another form";
    });
}

TEST_F(Cpus, AreDividedIntoGroupsOfNeighbours) {
    struct {
        const char *mask;
        std::vector<unsigned> cpus;
    } const cases[] = {{"1", {0}}, {"3", {0, 1}}, {"f0", {4, 5, 6, 7}}, {"1,0000010f", {0, 1, 2, 3, 8, 32}}};
    in_child([&] {
        std::vector<uint8_t> group(HZ_CPUS);
        EXPECT_EQ(hz_cpus_groups(group.data(), 16), 1U) << "before a look";
        for (const auto &each : cases)
            for (uint32_t most : {1U, 2U, 3U, 16U, 256U}) {
                allow(each.mask);
                look();
                std::fill(group.begin(), group.end(), uint8_t{255});
                uint32_t groups = hz_cpus_groups(group.data(), most);
                EXPECT_EQ(groups, std::min<size_t>(each.cpus.size(), most));
                EXPECT_LT(*std::max_element(group.begin(), group.end()), groups) << "every CPU has a group";
                std::vector<size_t> members(groups);
                for (size_t i = 0; i < each.cpus.size(); i++) {
                    uint8_t mine = group[each.cpus[i]];
                    members[mine]++;
                    EXPECT_TRUE(i == 0 || mine == group[each.cpus[i - 1]] || mine == group[each.cpus[i - 1]] + 1);
                }
                auto [fewest, most_members] = std::minmax_element(members.begin(), members.end());
                EXPECT_LE(*most_members - *fewest, 1U);
            }
    });
}

/* What the kernel says of this process. */
TEST_F(Cpus, ALookFollowsTheAffinityOfTheFirstThread) {
    in_child([] {
        hz_startup_look();
        uint64_t mask[HZ_CPU_WORDS];
        auto look_here = [&] {
            if (hz_os_affinity(hz_os_process_id(), mask, HZ_CPU_WORDS) != 0)
                hz_cpus_allow(mask);
            hz_cpus_forget_seen();
        };
        EXPECT_FALSE(hz_cpus_look(false));
        EXPECT_EQ(hz_cpus_look(true), hz_os_is_unfiltered()) << "a look without asking does not put off the other";
        EXPECT_FALSE(hz_cpus_look(true)) << "nothing has changed";
        look_here();
        EXPECT_EQ(hz_cpus_count(), unit::cpus().size());
        {
            unit::OnCpu here;
            look_here();
            EXPECT_EQ(hz_cpus_count(), 1U);
            std::thread(look_here).join();
            EXPECT_EQ(hz_cpus_count(), 1U);
        }
        look_here();
        EXPECT_EQ(hz_cpus_count(), unit::cpus().size());
        std::thread([&] {
            unit::OnCpu there;
            look_here();
        }).join();
        EXPECT_EQ(hz_cpus_count(), unit::cpus().size()) << "another thread's affinity is not the process's";
    });
}

} // namespace
