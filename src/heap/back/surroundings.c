/*
 * surroundings.c - see surroundings.h.
 */
#include "heap/back/surroundings.h"

#include "base/arena/arena.h"
#include "base/map/huge.h"
#include "base/os/atomic.h"
#include "base/os/os.h"
#include "base/process/cpus.h"
#include "heap/back/limit.h"

enum { FOLLOW_MS = 1000 };

#define STATM "/proc/self/statm"

static _Atomic(bool) are_known; /* cas */

static void cpus_and_limit_look(void) {
    hz_cpus_look_at("/sys/devices/system/cpu/online", "/proc/self/cgroup", "/sys/fs/cgroup");
    hz_heap_limit_default("/proc/self/cgroup", "/sys/fs/cgroup", STATM);
}

void hz_surroundings_read(void) {
    bool expected = false;
    /* relaxed: hint. cas: picks one thread, and publishes nothing */
    if (hz_load_rlx(&are_known) || !hz_cas_strong_acq_rlx(&are_known, &expected, true))
        return;
    cpus_and_limit_look();
    hz_huge_look(HZ_HUGE_FOLDER);
}

bool hz_surroundings_are_known(void) {
    return hz_load_rlx(&are_known); /* relaxed: hint */
}

void hz_surroundings_memory_look(void) {
    hz_heap_limit_look(STATM);
}

void hz_surroundings_follow(void) {
    static uint64_t followed_at_ms; /* owner: the keeper, or the process's only thread */
    uint64_t now = hz_os_now_ms();
    if (now < followed_at_ms + FOLLOW_MS)
        return;
    followed_at_ms = now;
    cpus_and_limit_look();
    if (hz_huge_collapse_is_wanted(hz_arena_runs_bytes()))
        hz_huge_look(HZ_HUGE_FOLDER); /* the kernel collapses even if the setting has become `never` */
}
