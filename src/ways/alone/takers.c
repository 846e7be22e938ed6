/*
 * takers.c - see takers.h.
 */
#include "takers.h"

#include "base/os/check.h"

bool hz_takers_may_share(bool all_made) {
    if (all_made)
        hz_fail_number(HZ_TEXT_SHARDS, HZ_NUM_SHARDS);
    return HZ_EXCLUSIVE_ALWAYS;
}
