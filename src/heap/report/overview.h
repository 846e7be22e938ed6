/*
 * overview.h - the report that people read: the situation (situation.h), where the memory is; then by size, by class
 * and by thread. Allocates nothing, and holds no lock while it writes. Any thread, holding no lock.
 */
#ifndef HZ_HEAP_REPORT_OVERVIEW_H
#define HZ_HEAP_REPORT_OVERVIEW_H

#include "base/os/compiler.h"

/* Writes to a file descriptor. `verbose`: all classes and threads, the counters and the configuration too. Returns 0 or
   an errno value. */
int hz_overview_print(int fd, bool verbose);

/* One line that says which library is in which process: version, program, lane, CPUs, keeper. `whole`: the
   configuration and the situation too. */
void hz_overview_introduce(int fd, bool whole);

#endif
