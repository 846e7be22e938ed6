/*
 * cgroup.h - the memory limit of the control group that the process is in (cgroup v2, Linux's cgroup-v2.rst).
 */
#ifndef HZ_BASE_CGROUP_H
#define HZ_BASE_CGROUP_H

#include "base/compiler.h"

/* The lowest memory.high of the process's group and the groups above it, and the lowest memory.max; SIZE_MAX where
   there is none. Opens files under /proc and /sys. Any thread. */
void hz_cgroup_memory(size_t *high, size_t *max);

#endif
