/* Limits of memory of the control group: version 1 and 2, the group and those above it. */
#include "unit/base/fixture.h"
#include "unit/folder.h"

namespace {

class Cgroup : public unit::Folder {
  protected:
    void expect(size_t wanted_high, size_t wanted_max) {
        size_t high = 0;
        size_t max = 0;
        hz_cgroup_memory((folder_ / "groups").c_str(), folder_.c_str(), &high, &max);
        EXPECT_EQ(high, wanted_high);
        EXPECT_EQ(max, wanted_max);
    }
};

TEST_F(Cgroup, TheLowestLimitOfTheGroupAndThoseAboveIt) {
    expect(SIZE_MAX, SIZE_MAX);
    write("groups", "0::/a/b\n");
    expect(SIZE_MAX, SIZE_MAX);
    write("a/b/memory.high", "max\n");
    write("a/b/memory.max", "300\n");
    expect(SIZE_MAX, 300);
    write("a/memory.high", "250\n");
    write("a/memory.max", "400\n");
    expect(250, 300);
    write("memory.max", "200\n");
    expect(250, 200);
}

TEST_F(Cgroup, VersionOne) {
    write("groups", "5:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n");
    expect(SIZE_MAX, SIZE_MAX);
    write("memory/memory.limit_in_bytes", "9223372036854771712\n"); /* no limit, in pages of 4 KiB ... */
    expect(SIZE_MAX, SIZE_MAX);
    write("memory/memory.limit_in_bytes", "9223372036854710272\n"); /* ... and of 64 KiB */
    expect(SIZE_MAX, SIZE_MAX);
    write("memory/a/memory.limit_in_bytes", "300\n");
    expect(SIZE_MAX, 300);
    write("memory/a/b/memory.limit_in_bytes", "500\n");
    expect(SIZE_MAX, 300);
    write("memory.max", "100\n");
    expect(SIZE_MAX, 100);
}

/* In a container the file names a path of the host, which the container does not see. */
TEST_F(Cgroup, AContainersOwnGroupIsTheRootThatItSees) {
    write("groups", "4:memory:/docker/0123\n");
    write("memory/memory.limit_in_bytes", "700\n");
    expect(SIZE_MAX, 700);
}

/* Under Kubernetes each of a dozen lines has a path of some 170 bytes. */
TEST_F(Cgroup, ALineFarBehindInTheFile) {
    const std::string path = "/kubepods/burstable/pod" + std::string(40, 'p') + "/" + std::string(64, 'c');
    std::string lines;
    for (int number = 20; number > 1; number--)
        lines += std::to_string(number) + ":other" + std::to_string(number) + ":" + path + "\n";
    write("groups", lines + "1:memory:" + path + "\n");
    write("memory/memory.limit_in_bytes", "700\n");
    expect(SIZE_MAX, 700);
    write("memory" + path + "/memory.limit_in_bytes", "300\n");
    expect(SIZE_MAX, 300);
}

/* A path that is too long to be read is cut at a group above, and the next line is found. */
TEST_F(Cgroup, ALongPath) {
    std::string path;
    while (path.size() < 2000)
        path += "/" + std::string(98, 'a');
    write("groups", "0::" + path + "\n");
    write(path.substr(1, 494) + "/a/memory.max", "300\n"); /* another group's */
    expect(SIZE_MAX, SIZE_MAX);
    write(path.substr(1, 494) + "/memory.max", "200\n");
    expect(SIZE_MAX, 200);
    write("groups", "0::" + path + "\n1:memory:/b\n");
    write("memory/b/memory.limit_in_bytes", "100\n");
    expect(SIZE_MAX, 100);
}

} // namespace
