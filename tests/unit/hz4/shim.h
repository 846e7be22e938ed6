/*
 * shim.h - what hz4 has beyond core, as C++ can see it; see unit/base/shim.h for the manner.
 */
#ifndef HZ_TESTS_UNIT_HZ4_SHIM_H
#define HZ_TESTS_UNIT_HZ4_SHIM_H

#include "unit/heap/shim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The counters of hz4, by their names in hz_counters. */
struct unit_hz4_counters {
#define COUNTER(group, field, name, kind, text) uint64_t field;
#include "engine_counters.def"
#undef COUNTER
};
struct unit_hz4_counters unit_hz4_counters_of(struct hz_thread_block *thread);

#ifdef __cplusplus
}
#endif

#endif
