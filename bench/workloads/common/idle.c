/*
 * idle.c - see idle.h.
 */
#define _GNU_SOURCE
#include "idle.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <time.h>

#include "machine.h"

void idle_sleep_ms(uint64_t milliseconds) {
    const struct timespec idle = {(time_t)(milliseconds / 1000), (long)(milliseconds % 1000) * 1000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &idle, NULL);
}

void idle_measure(uint64_t seconds) {
    printf("end_rss_kb=%" PRIu64 "\n", machine_status_kb("VmRSS:"));
    idle_sleep_ms(seconds > 0 ? 1000 : 0);
    printf("after1_rss_kb=%" PRIu64 "\n", machine_status_kb("VmRSS:"));
    idle_sleep_ms(seconds > 1 ? (seconds - 1) * 1000 : 0);
    printf("after5_rss_kb=%" PRIu64 "\n", machine_status_kb("VmRSS:"));
    malloc_trim(0);
    printf("trimmed_rss_kb=%" PRIu64 "\n", machine_status_kb("VmRSS:"));
}
