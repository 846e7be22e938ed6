/*
 * cpus.h - how many CPUs the process can use at the same time: its affinity, and the CPU quota of its control group.
 *
 * Both come from files. They are read again now and then, because taskset, cpusets or an orchestrator can change them.
 * Every dynamically linked program opens files as it starts, so a filter of system calls that was there before allows
 * this; a process that restricts itself later reads no more files (hz_os_confine). Counting the CPUs on which threads
 * were seen always works.
 */
#ifndef HZ_BASE_CPUS_H
#define HZ_BASE_CPUS_H

#include "base/compiler.h"

enum { HZ_CPUS = 1024 }; /* higher CPU numbers wrap around */

/* Notes the CPU that the calling thread runs on. Cheap (hz_os_cpu). */
void hz_cpus_note(void);

/* Number of CPUs, at least 1: the CPUs that the process's first thread may run on, or those on which threads were seen
   in the last seconds if these are more; in any case at most the quota. Before the first look: CPUs seen. Any thread.
 */
uint32_t hz_cpus_count(void);

/* Looks again if the last look was a second ago or more. During the first look other threads wait. True if the set of
   CPUs that the process may run on has changed. Any thread. */
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
