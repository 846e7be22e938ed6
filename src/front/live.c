/*
 * live.c - see live.h. Chooses the message for a pointer that is no live block.
 */
#include "front/live.h"

#include "heap/query.h"

void hz_live_remove(const void *block) {
    if (block == NULL || hz_guard_has(block) || hz_profile_has(block))
        return;
    switch (hz_livemap_remove(block)) {
    case HZ_LIVEMAP_OK:
        return;
    case HZ_LIVEMAP_FOREIGN:
        hz_misuse(HZ_TEXT_FOREIGN, block, HZ_IN_FREE);
    case HZ_LIVEMAP_NOT_LIVE:
        break;
    }
    hz_misuse(hz_query_is_inside(block) ? HZ_TEXT_INTERIOR : HZ_TEXT_DOUBLE_FREE, block, HZ_IN_FREE);
}
