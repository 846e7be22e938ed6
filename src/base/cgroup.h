/*
 * cgroup.h - the limits of the control group that the process is in (Linux's cgroup-v2.rst; sched-bwc.rst for v1).
 */
#ifndef HZ_BASE_CGROUP_H
#define HZ_BASE_CGROUP_H

#include "base/compiler.h"

/* The lowest memory.high of the process's group and the groups above it, and the lowest memory.max; SIZE_MAX where
   there is none (cgroup v2). Opens files under /proc and /sys. Any thread. */
void hz_cgroup_memory(size_t *high, size_t *max);

/* The lowest CPU quota of the group and the groups above it, in whole CPUs, rounded up: v2's cpu.max or v1's
   cpu.cfs_quota_us. UINT32_MAX where there is none. `groups` and `root`: /proc/self/cgroup and /sys/fs/cgroup, or files
   with the same format. Any thread. */
uint32_t hz_cgroup_cpus(const char *groups, const char *root);

#endif
