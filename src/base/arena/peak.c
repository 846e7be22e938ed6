/*
 * peak.c - see peak.h.
 */
#include "base/arena/peak.h"

#include "base/arena/arena.h"
#include "base/os/anatomy.h"

static _Atomic(size_t) peak_bytes; /* counter: only grows between two resets */

HZ_ANATOMY(peak, HZ_ANATOMY_OBJECT(peak_bytes, peak_bytes));

void hz_peak_note(void) {
    size_t held = hz_arena_held_bytes();
    size_t seen = hz_load_rlx(&peak_bytes); /* relaxed, both: counter */
    while (held > seen && !hz_cas_rlx_rlx(&peak_bytes, &seen, held)) {
    }
}

void hz_peak_reset(void) {
    hz_store_rlx(&peak_bytes, hz_arena_held_bytes()); /* relaxed: counter */
}

size_t hz_peak_bytes(void) {
    return hz_load_rlx(&peak_bytes); /* relaxed: counter */
}
