/*
 * thread_none.c - the thread block of a thread that has none: all bins are zeros, that is empty for malloc and full
 * for free, so both fall into their slow paths without asking. Never written.
 */
#include "core/types.h"

static const struct hz_pagetag untagged;

struct hz_thread_block hz_thread_none = {
    .tags = &untagged,
    .tag_mask = 0,
};

HZ_TLS struct hz_thread_block *hz_self = &hz_thread_none;
