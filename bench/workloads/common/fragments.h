/*
 * fragments.h - breaks the machine's free memory into pieces, as weeks of work on it would.
 *
 * A child process touches free memory in pages of 4 KiB, all but 512 MiB of it at most, gives back all but every 64th
 * page, and keeps those until it is told to end. So hardly a piece of 2 MiB is free outside of the 512 MiB: the kernel
 * has to move pages to make a huge page. The child holds a 64th of the memory. It is the process that the kernel ends
 * first when memory runs out; then the workload fails.
 */
#ifndef WORKLOADS_FRAGMENTS_H
#define WORKLOADS_FRAGMENTS_H

#include <stdint.h>
#include <sys/types.h>

struct fragments {
    uint64_t broken_mib, held_mib; /* free memory that was touched; what the child keeps of it */
    pid_t child;
    int end_fd; /* closing it ends the child */
};

/* Breaks `most_mib` of free memory, or what there is. Call it before the process has threads. Ends the program when it
   fails. */
void fragments_open(struct fragments *fragments, uint64_t most_mib);
void fragments_close(struct fragments *fragments);

#endif /* WORKLOADS_FRAGMENTS_H */
