/*
 * on_cpu.h - chooses the CPU that a test runs on.
 */
#ifndef HZ_TESTS_UNIT_ON_CPU_H
#define HZ_TESTS_UNIT_ON_CPU_H

#include <gtest/gtest.h>
#include <sched.h>
#include <vector>

namespace unit {

/* Keeps the calling thread, and threads that it starts, on one CPU as long as the object lives. */
class OnCpu {
  public:
    explicit OnCpu(int cpu = sched_getcpu()) {
        sched_getaffinity(0, sizeof(before_), &before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    }
    ~OnCpu() {
        sched_setaffinity(0, sizeof(before_), &before_);
    }
    OnCpu(const OnCpu &) = delete;
    OnCpu &operator=(const OnCpu &) = delete;

  private:
    cpu_set_t before_{};
};

inline std::vector<int> cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    std::vector<int> found;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            found.push_back(cpu);
    return found;
}

} // namespace unit

#endif
