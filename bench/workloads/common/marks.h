/*
 * marks.h - where callgrind starts and stops counting. Where valgrind's headers are not installed, nothing can be
 * counted, and the marks are empty.
 */
#ifndef WORKLOADS_MARKS_H
#define WORKLOADS_MARKS_H

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS
#endif

#endif /* WORKLOADS_MARKS_H */
