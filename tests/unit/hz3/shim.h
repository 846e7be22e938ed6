/*
 * shim.h - what hz3 has beyond core, as C++ can see it; see unit/base/shim.h for the manner.
 */
#ifndef HZ_TESTS_UNIT_HZ3_SHIM_H
#define HZ_TESTS_UNIT_HZ3_SHIM_H

#include "unit/heap/shim.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "shadow.h"
#include "transfer_check.h"

/* The counters of hz3, by their names in hz_counters. */
struct unit_hz3_counters {
#define COUNTER(group, field, name, kind, text) uint64_t field;
#include "engine_counters.def"
#undef COUNTER
};
struct unit_hz3_counters unit_hz3_counters_of(struct hz_thread_block *thread);

/* ---- transfer, central: each implementation, whichever the lane uses ---- */
struct unit_transfer {
    const char *name;
    bool (*send)(struct hz_mailbox *mail, const struct hz_list *list);
    hz_list_word (*take)(struct hz_mailbox *mail);
};
struct unit_central {
    const char *name;
    bool (*send)(struct hz_mailbox *mail, const struct hz_list *list, uint32_t cap);
    hz_list_word (*take)(struct hz_mailbox *mail);
};
extern const struct unit_transfer unit_transfers[2];
extern const struct unit_central unit_centrals[2];
extern const unsigned unit_transfer_slots;
uint32_t unit_transfer_count(struct hz_mailbox *mail);
uint32_t unit_central_count(struct hz_mailbox *mail);

/* ---- shadow.c ---- */
extern const bool unit_central_is_shadowed;

/* What waits in the stash alone. */
uint32_t unit_stash_count(struct hz_mailbox *mail);

#ifdef __cplusplus
}
#endif

#endif
