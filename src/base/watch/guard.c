/*
 * guard.c - see guard.h.
 */
#include "base/watch/guard.h"

#include "base/os/check.h"
#include "base/os/hooks.h"
#include "base/watch/guard_report.h"

bool hz_guard_start(uint32_t rate) {
    hz_callstack_prime();
    if (!hz_guard_pool_make(rate))
        return false;
    (void)hz_guard_report_install(); /* as the header says */
    return true;
}

static void answer(enum hz_guard_answer given, const void *block, const struct hz_guard_slot *slot,
                   const char *text_if_freed) {
    switch (given) {
    case HZ_GUARD_OK:
        return;
    case HZ_GUARD_TWICE:
        hz_guard_fail(text_if_freed, block, slot);
    case HZ_GUARD_INSIDE:
        hz_guard_fail(HZ_TEXT_INTERIOR, block, slot);
    case HZ_GUARD_NO_BLOCK:
        hz_guard_fail(HZ_TEXT_FOREIGN, block, NULL);
    case HZ_GUARD_OVERWRITE:
        hz_guard_fail(HZ_TEXT_GUARD_OVERWRITE, block, slot);
    case HZ_GUARD_UNDERWRITE:
        hz_guard_fail(HZ_TEXT_GUARD_UNDERWRITE, block, slot);
    }
}

void hz_guard_free(const void *block) {
    struct hz_guard_slot slot;
    hz_hooks_enter(); /* in a fork's child a vanished thread may hold the pool's lock */
    answer(hz_guard_pool_free(block, &slot), block, &slot, HZ_TEXT_DOUBLE_FREE);
    hz_hooks_leave();
}

size_t hz_guard_usable(const void *block) {
    struct hz_guard_slot slot;
    hz_hooks_enter(); /* as in hz_guard_free */
    answer(hz_guard_pool_look(block, &slot), block, &slot, HZ_TEXT_GUARD_FREED);
    hz_hooks_leave();
    return slot.size;
}
