/*
 * cgroup.h - the limits of the control group that the process is in (Linux's cgroup-v2.rst; cgroup-v1/memory.rst and
 * sched-bwc.rst for v1).
 */
#ifndef HZ_BASE_PROCESS_CGROUP_H
#define HZ_BASE_PROCESS_CGROUP_H

#include "base/os/compiler.h"

/* In both functions: `groups` is /proc/self/cgroup and `root` is /sys/fs/cgroup, or a file and a folder of the same
   form. Groups are looked at from the process's own up to the root that the process sees. Any thread. */

/* The lowest memory.high, and the lowest memory.max or memory.limit_in_bytes (v1); SIZE_MAX where there is none. False
   if none of these files can be read. */
bool hz_cgroup_memory(const char *groups, const char *root, size_t *high, size_t *max);

/* The lowest CPU quota in whole CPUs, rounded up: v2's cpu.max or v1's cpu.cfs_quota_us. UINT32_MAX where there is
 * none. */
uint32_t hz_cgroup_cpus(const char *groups, const char *root);

#endif
