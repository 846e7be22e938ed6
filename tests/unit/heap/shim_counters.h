/*
 * shim_counters.h - the counters as C++ can see them: their list, and all of them set back. See unit/base/shim.h for
 * the manner.
 */
#ifndef HZ_TESTS_UNIT_CORE_SHIM_COUNTERS_H
#define HZ_TESTS_UNIT_CORE_SHIM_COUNTERS_H

#include "unit/base/shim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One line of the counters' .def files. */
struct unit_counter {
    const char *group;
    const char *name;
    bool is_hot;
};
extern const struct unit_counter unit_counter_list[];
extern const size_t unit_counter_count;

/* Sets every counter of every thread to 0, and puts the next look at the clock (hz_tick) off as far as it goes. No
   other thread may be running. */
void unit_counters_clear(void);

/* False when a thread may have looked at the clock since then: what it did then depends on time. */
bool unit_clock_was_left_alone(void);

#ifdef __cplusplus
}
#endif

#endif
