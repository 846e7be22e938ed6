/*
 * cpus.h - how many CPUs the process can use at the same time: its affinity, and the CPU quota of its control group.
 *
 * Both can change: by taskset, cpusets or an orchestrator. The affinity comes from startup.h; where any system call may
 * be made, hz_cpus_look then asks the kernel for it at most once a second. The quota comes from files. Only a caller
 * whose descriptors nobody can take away may read them (heap/back/surroundings.h). Counting the CPUs on which threads
 * were seen always works.
 */
#ifndef HZ_BASE_PROCESS_CPUS_H
#define HZ_BASE_PROCESS_CPUS_H

#include "base/os/compiler.h"

enum { HZ_CPUS = 1024, HZ_CPU_WORDS = HZ_CPUS / 64 }; /* higher CPU numbers wrap around */

/* Notes the CPU that the calling thread runs on. Cheap (hz_os_cpu). */
void hz_cpus_note(void);

/* Number of CPUs, at least 1: the CPUs that the process's first thread may run on, or those on which threads were seen
   in the last seconds if these are more; in any case at most the quota. Before the first look: CPUs seen. Any thread.
 */
uint32_t hz_cpus_count(void);

/* The CPUs that the process may run on. True if they have changed. Any thread. */
bool hz_cpus_allow(const uint64_t cpus[HZ_CPU_WORDS]);

/* Forgets where threads were seen long ago. With `asks`, also asks the kernel for the affinity of the process's first
   thread, if any system call may be made. Each at most once a second. True if the set of CPUs that the process may run
   on has changed. Any thread. */
bool hz_cpus_look(bool asks);

/* Reads the quota, and which CPUs exist: `online` is in the form of /sys/devices/system/cpu/online, `groups` in that of
   /proc/self/cgroup, `root` in that of /sys/fs/cgroup. Any thread. */
void hz_cpus_look_at(const char *online, const char *groups, const char *root);

/* Forgets as hz_cpus_look does, without waiting for a second to pass. For tests. Any thread. */
void hz_cpus_forget_seen(void);

/* Divides the CPUs that the process may run on, as last seen, into at most `most` (1..256) groups of neighbours, and
   writes the group of each to group[cpu % HZ_CPUS]. Other CPUs get some group too. Returns the number of groups. */
uint32_t hz_cpus_groups(uint8_t group[HZ_CPUS], uint32_t most);

/* In a fork's child. */
void hz_cpus_after_fork(void);

#endif
