/*
 * stats.h - figures about the heap, summed on demand. Any thread, holding no lock; figures of running threads change
 * meanwhile.
 */
#ifndef HZ_HEAP_STATS_H
#define HZ_HEAP_STATS_H

struct hz_report;
struct hz_stats;

void hz_heap_stats(struct hz_stats *stats);

/* Adds the counters, a row for each size class in use, and a row for each thread. */
void hz_heap_report(struct hz_report *report);

#endif
