/*
 * thread.c - see thread.h. Called by the slow paths of malloc and free, by purge.c, and when the library is loaded.
 */
#include "heap/thread.h"

#include "base/hooks.h"
#include "heap/cache/flush.h"
#include "heap/fork.h"
#include "heap/init.h"
#include "heap/pages/drain.h"
#include "heap/pages/shard.h"

static HZ_TLS bool thread_ending;

static void thread_exit(void *value) {
    if (value == hz_self)
        hz_thread_detach(hz_self);
    thread_ending = true;
}

bool hz_thread_is_ending(void) {
    return thread_ending;
}

void hz_thread_arm(struct hz_thread_block *self) {
    if (self->exit_armed || thread_ending)
        return;
    hz_hooks_install(thread_exit, hz_heap_after_fork);
    self->exit_armed = hz_hooks_arm_exit(self);
}

struct hz_thread_block *hz_thread_attach(void) {
    if (!hz_init())
        return NULL;
    struct hz_registered *recycled = hz_registry_claim();
    struct hz_thread_block *thread = recycled != NULL ? hz_thread_block_from(recycled) : hz_thread_block_make();
    if (thread == NULL)
        return NULL;
    thread->shard = hz_shard_claim();
    if (thread->shard == NULL) {
        hz_registry_release(&thread->registered);
        return NULL;
    }
    thread->owner = (uint8_t)thread->shard->index;
    hz_self = thread; /* from here on the thread can allocate, as the next calls may */
    thread->exit_armed = false;
    hz_thread_arm(thread);
    return thread;
}

void hz_thread_detach(struct hz_thread_block *thread) {
    hz_thread_flush(thread);
    hz_shard_leave(thread, thread->shard);
    hz_self = &hz_thread_none;
    hz_registry_release(&thread->registered);
}

void hz_thread_start(void) {
    if (!hz_is_attached(hz_self))
        hz_thread_attach(); /* without memory the first allocation tries again */
}
