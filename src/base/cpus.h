/*
 * cpus.h - how many CPUs the process can use at a time: its affinity, and the CPU quota of its control group.
 *
 * Both come from files, and are read again now and then, because they change: taskset, cpusets, an orchestrator.
 * Opening files is what each dynamically linked program does as it starts, so a filter of system calls that was there
 * before allows it; a process that restricts itself later reads no file any more (hz_os_confine). What always works is
 * to count the CPUs on which threads were seen.
 */
#ifndef HZ_BASE_CPUS_H
#define HZ_BASE_CPUS_H

#include "base/compiler.h"

enum { HZ_CPUS = 1024 }; /* higher CPU numbers wrap around */

/* Notes the CPU that the calling thread runs on. Cheap (hz_os_cpu). */
void hz_cpus_note(void);

/* Number of CPUs, at least 1: those that the process's first thread may run on, or those on which threads were seen in
   the last seconds if they are more, but no more than the quota allows. Before the first look: those seen. Any thread.
 */
uint32_t hz_cpus_count(void);

/* Looks again if the last look was a second ago or more. The first look makes other threads wait until it is done. True
   if the CPUs have changed that the process may run on. Any thread. */
bool hz_cpus_look(void);

/* From now on no look reads files. */
void hz_cpus_look_never(void);

/* Divides the CPUs that the process may run on, as last seen, into at most `most` (1..256) groups of neighbours, and
   writes the group of each to group[cpu % HZ_CPUS]. Other CPUs get some group too. Returns the number of groups. */
uint32_t hz_cpus_groups(uint8_t group[HZ_CPUS], uint32_t most);

/* The same look at other files, for tests: `status` is in the form of /proc/self/status, `online` in that of
   /sys/devices/system/cpu/online, `groups` in that of /proc/self/cgroup, `root` in that of /sys/fs/cgroup. Not rate
   limited. */
bool hz_cpus_look_at(const char *status, const char *online, const char *groups, const char *root);

/* In a fork's child. */
void hz_cpus_after_fork(void);

#endif
