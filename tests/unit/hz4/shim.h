/*
 * shim.h - what hz4 has beyond core, as C++ can see it; see unit/base/shim.h for the manner.
 */
#ifndef HZ_TESTS_UNIT_HZ4_SHIM_H
#define HZ_TESTS_UNIT_HZ4_SHIM_H

#include "unit/core/shim.h"

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

/* The queue of pages in a mailbox. */
struct hz_pageq *unit_mailbox_pages(struct hz_mailbox *mail);

/* For the tests of repair: gives a queue another head, and returns the one it had. */
struct hz_page *unit_pageq_head_set(struct hz_pageq *queue, struct hz_page *page);

#ifdef __cplusplus
}
#endif

#endif
