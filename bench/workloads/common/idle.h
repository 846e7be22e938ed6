/*
 * idle.h - the RSS of a program that has ended its work and sleeps.
 */
#ifndef WORKLOADS_IDLE_H
#define WORKLOADS_IDLE_H

#include <stdint.h>

/* Sleeps; a signal can end the sleep early. */
void idle_sleep_ms(uint64_t milliseconds);

/* Prints in KiB: end_rss_kb (now), after1_rss_kb and after5_rss_kb (after 1 s and after `seconds` of sleep), and
   trimmed_rss_kb (after malloc_trim(0)). */
void idle_measure(uint64_t seconds);

#endif /* WORKLOADS_IDLE_H */
