/*
 * thread_none.c - the thread block of a thread that has none: every bin is empty for malloc and full for free, so both
 * fall into their slow paths without asking. Never written.
 */
#include "core/types.h"

static void *no_slot;

static const struct hz_pagetag untagged;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" /* a range of initialisers: the number of classes is a knob */
struct hz_thread_block hz_thread_none = {
    .tags = &untagged,
    .tag_mask = 0,
    .bins = {[0 ... HZ_BINS - 1] = {.newest = NULL, .top = &no_slot}},
    .ends = {[0 ... HZ_BINS - 1] = {.limit = &no_slot}},
};
#pragma GCC diagnostic pop

HZ_TLS struct hz_thread_block *hz_self = &hz_thread_none;
