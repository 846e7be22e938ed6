/*
 * init.c - see init.h.
 */
#include "heap/threads/init.h"

#include "base/arena/arena.h"
#include "base/lists/lock.h"
#include "base/map/pagetag.h"
#include "base/os/check.h"
#include "base/process/cpus.h"
#include "base/process/startup.h"
#include "heap/cache/batches.h"
#include "heap/class_policy.h"
#include "heap/pages/page.h"
#include "heap/threads/thread_block.h"

enum init_state { INIT_NONE, INIT_DONE };

static _Atomic(uint32_t) init_state; /* sync: init */
static struct hz_lock init_lock = HZ_LOCK_INIT(HZ_RANK_INIT);

static void startup_look(void) {
    hz_startup_look();
    if (hz_startup_get()->has_cpus && hz_cpus_allow(hz_startup_get()->cpus))
        hz_parts_divide();
}

bool hz_init(void) {
    if (hz_load_acq(&init_state) == INIT_DONE) /* sync: init, partner the release store in this function */
        return true;
    hz_lock_acquire(&init_lock);
    bool done = hz_load_rlx(&init_state) == INIT_DONE; /* relaxed: lock */
    if (!done)
        startup_look();
    if (!done && (hz_pagetags.mask != 0 || hz_pagetag_init()) && hz_arena_init()) {
        hz_class_shapes_init();
        hz_pages_init();
        hz_thread_blocks_init();
        hz_fail_before_abort(hz_lock_release_all);
        hz_store_rel(&init_state, INIT_DONE); /* sync: init, partner the acquire load in this function */
        done = true;
    }
    hz_lock_release(&init_lock);
    return done;
}

void hz_init_follow_cpus(bool asks) {
    if (hz_cpus_look(asks))
        hz_parts_divide();
}

void hz_init_after_fork(void) {
    hz_cpus_after_fork();
    hz_lock_settle(&init_lock); /* each step of hz_init can be repeated */
}
