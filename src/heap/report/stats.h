/*
 * stats.h - reports of the heap's figures that programs read (JSON), and the counters. overview.h writes the report
 * that people read. Any thread, holding no lock; figures of running threads change meanwhile. No lock is held while a
 * report is written.
 */
#ifndef HZ_HEAP_REPORT_STATS_H
#define HZ_HEAP_REPORT_STATS_H

struct hz_figures;
struct hz_report;
struct hz_stats;

void hz_heap_stats(struct hz_stats *stats);

/* Adds the group `process`. */
void hz_heap_report_process(struct hz_report *report, const struct hz_figures *figures);

/* Adds the groups of counters, and the group `rest`. */
void hz_heap_report_counters(struct hz_report *report, const struct hz_figures *figures);

/* Adds the counters, and rows for the ranges of sizes, for each size class in use and for each thread. */
void hz_heap_report(struct hz_report *report, const struct hz_figures *figures);

#endif
