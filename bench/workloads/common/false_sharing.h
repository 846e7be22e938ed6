/*
 * false_sharing.h - the body of cache_scratch and cache_thrash (after Berger, McKinley, Blumofe, Wilson: Hoard,
 * ASPLOS 2000).
 *
 * Each thread allocates a small block, writes to it many times, frees it, and starts again. Active false sharing
 * (thrash): the allocator gives blocks of one cache line to different threads. Passive false sharing (scratch): the
 * main thread first allocates one block for each thread, side by side; the threads free them and may get blocks of the
 * same line back. The figure is the time; less is better. With --placements all is done several times, with blocks at
 * other places, and the spread over them and the number of shared lines are printed.
 */
#ifndef WORKLOADS_FALSE_SHARING_H
#define WORKLOADS_FALSE_SHARING_H

#include <stdbool.h>

int false_sharing_main(int argc, char **argv, bool passive, const char *summary);

#endif /* WORKLOADS_FALSE_SHARING_H */
