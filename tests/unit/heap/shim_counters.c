/*
 * shim_counters.c - see shim_counters.h.
 */
#include "unit/heap/shim_counters.h"

#include "heap/pages/shard.h"
#include "unit/heap/shim.h"

enum { IS_SUM = false, IS_MAX = false, IS_HOT = true };

#define COUNTER(group, field, name, kind, text) {group, name, IS_##kind},
const struct unit_counter unit_counter_list[] = {
#include "heap/counters.def"
#include "engine_counters.def"
};
#undef COUNTER

const size_t unit_counter_count = HZ_ARRAY_LENGTH(unit_counter_list);

/* tick.c looks at every 32nd visit of a slow path. */
enum { VISITS_FIRST = 1, VISITS_LAST = 31 };

void unit_counters_clear(void) {
    for (struct hz_registered *thread = hz_registry_first(); thread != NULL; thread = thread->next) {
        struct hz_thread_block *block = hz_thread_block_from(thread);
        _Atomic(uint64_t) *counters = (_Atomic(uint64_t) *)&block->counters;
        for (size_t i = 0; i < sizeof(block->counters) / sizeof(counters[0]); i++)
            hz_store_rlx(&counters[i], 0);
        for (unsigned size_class = HZ_MID_CLASS_FIRST; size_class < HZ_CLASS_COUNT; size_class++)
            /* what bins hold now was not freed since */
            hz_count(&block->counters.mid_moved, -(uint64_t)unit_bin_count(block, size_class));
        block->slow_count = VISITS_FIRST;
    }
}

bool unit_clock_was_left_alone(void) {
    bool left_alone = true;
    for (struct hz_registered *thread = hz_registry_first(); thread != NULL; thread = thread->next)
        left_alone = left_alone && hz_thread_block_from(thread)->slow_count <= VISITS_LAST;
    return left_alone;
}
