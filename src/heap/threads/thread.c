/*
 * thread.c - see thread.h.
 */
#include "heap/threads/thread.h"

#include "base/os/hooks.h"
#include "base/os/os.h"
#include "cpu_bins.h"
#include "heap/back/keeper.h"
#include "heap/back/pressure.h"
#include "heap/cache/age.h"
#include "heap/cache/flush.h"
#include "heap/cache/room.h"
#include "heap/cache/sampler.h"
#include "heap/pages/shard.h"
#include "heap/threads/fork.h"
#include "heap/threads/init.h"
#include "heap/threads/park.h"
#include "sent.h"

static HZ_TLS bool thread_ending; /* owner */

static void thread_exit(void *value) {
    hz_keeper_thread_ends();
    if (value == hz_thread_mine) {
        hz_thread_detach(hz_thread_enter());
        hz_hooks_leave();
    }
    thread_ending = true;
}

bool hz_thread_is_ending(void) {
    return thread_ending;
}

static void hook(void) {
    hz_hooks_install(thread_exit, hz_heap_after_fork, hz_heap_settle_fork);
}

void hz_thread_arm(struct hz_thread_block *self) {
    if (self->exit_armed || thread_ending)
        return;
    hook();
    self->exit_armed = hz_hooks_arm_exit(self);
}

/* `id`: the kernel's number of the thread, 0 if it is not known: no call of the OS is made only for that. */
static void label_set(struct hz_thread_block *self, uint32_t id) {
    uint64_t label = hz_thread_label_make(self->shard->index, id);
    hz_store_rlx(&hz_thread_registered(self)->label, label); /* relaxed: figure */
}

static struct hz_thread_block *attach(void) {
    static _Atomic(bool) was_called; /* hint: a process with one thread needs no look at the CPUs */
    /* Before any lock is taken: a thread that has never allocated can fork meanwhile. pthread_atfork waits for its
       fork, and a later fork's child is repaired. */
    hook();
    if (hz_thread_mine != NULL) { /* hook has allocated */
        hz_thread_arm(hz_thread_mine);
        return hz_thread_mine;
    }
    if (!hz_init())
        return NULL;
    if (hz_load_rlx(&was_called))   /* relaxed, all: hint */
        hz_init_follow_cpus(false); /* a filter may have come unseen */
    if (!thread_ending && hz_load_rlx(&was_called)) {
        hz_os_note_threads(); /* this thread may have started unseen */
        if (!hz_keeper_runs())
            hz_store_rlx(&hz_keeper_is_wanted, true);
    }
    if (!thread_ending)
        hz_store_rlx(&was_called, true);
    struct hz_registered *recycled = hz_registry_claim();
    struct hz_thread_block *thread = recycled != NULL ? hz_thread_block_get(recycled) : hz_thread_block_make();
    if (thread == NULL)
        return NULL;
    thread->is_keeper = false;
    thread->is_new = false;
    if (recycled != NULL)
        hz_park_reset(thread);
    thread->shard = hz_shard_claim();
    if (thread->shard == NULL) {
        hz_registry_release(hz_thread_registered(thread));
        return NULL;
    }
    thread->owner = (uint8_t)thread->shard->index;
    thread->owner_expected = thread->owner;
    label_set(thread, 0);
    hz_sampler_settle(thread);
    hz_pressure_join();
    hz_thread_mine = thread;
    hz_store_rlx(&hz_self_word,
                 thread); /* from here on the thread can allocate, as the next calls may. relaxed: owner */
    thread->exit_armed = false;
    hz_thread_arm(thread);
    return thread;
}

struct hz_thread_block *hz_thread_attach(void) {
    hz_hooks_enter(); /* fork: a child must know the thread's thread block and shard */
    struct hz_thread_block *thread = attach();
    hz_hooks_leave();
    return thread;
}

void hz_thread_detach(struct hz_thread_block *thread) {
    hz_cpu_bins_leave(thread);
    hz_age_surplus_leave(thread);
    hz_thread_flush(thread); /* last: it returns the empty batches of the above too */
    hz_room_shrink_all(thread);
    hz_sent_leave(thread, thread->shard);
    hz_shard_release(thread->shard);
    hz_pressure_leave();
    hz_park_close(thread);
    hz_thread_mine = NULL;
    hz_store_rlx(&hz_self_word, &hz_thread_none); /* relaxed, both: owner */
    hz_store_rlx(&thread->busy, 0);
    hz_store_rlx(&thread->popping, 0);
    hz_registry_release(hz_thread_registered(thread));
}

void hz_thread_start(void) {
    hz_life_load();                           /* a library's constructor may start threads before ours has run */
    bool is_new = hz_thread_mine == NULL;     /* other constructors may have allocated already */
    if (is_new && hz_thread_attach() == NULL) /* without memory the first allocation tries again */
        return;
    struct hz_thread_block *self = hz_thread_enter();
    if (self->exit_armed) {
        hz_park_open(self);
        label_set(self, hz_os_thread_id());
    }
    if (is_new && self->exit_armed) {
        hz_thread_flush(self); /* if the thread block was an orphan, its blocks go home */
        hz_park_begin(self);
    }
    hz_thread_leave(self);
}

void hz_thread_start_early(void) {
    thread_ending = true;
    hz_store_rlx(&hz_self_word, &hz_thread_none); /* relaxed: owner */
}
