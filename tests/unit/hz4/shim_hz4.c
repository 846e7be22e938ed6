/*
 * shim_hz4.c - see shim.h. Nothing here decides anything.
 */
#include "unit/hz4/shim.h"

#include "heap/pages/shard.h"

struct unit_hz4_counters unit_hz4_counters_of(struct hz_thread_block *thread) {
    struct hz_counters *counters = &thread->counters;
#define COUNTER(group, field, name, kind, text) .field = hz_load_rlx(&counters->field),
    return (struct unit_hz4_counters){
#include "engine_counters.def"
    };
#undef COUNTER
}

const bool unit_mail_is_of_pages = !HZ_REMOTE_INBOX;
