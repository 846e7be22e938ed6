/*
 * registry.c - see registry.h. Never on a fast path.
 */
#include "base/lists/registry.h"

#include "base/os/anatomy.h"
static _Atomic(struct hz_registered *) newest; /* sync: thread-publish */
static _Atomic(uint32_t) made_count;           /* counter */
static _Atomic(uint32_t) unused_count;         /* hint: thread blocks whose state is free */
static _Atomic(uint32_t) orphan_count;         /* hint: orphans */

HZ_ANATOMY(registry, HZ_ANATOMY_OBJECT(newest_thread, newest), HZ_ANATOMY_FIELD(hz_registered, state),
           HZ_ANATOMY_FIELD(hz_registered, number), HZ_ANATOMY_FIELD(hz_registered, next),
           HZ_ANATOMY_FIELD(hz_registered, label), HZ_ANATOMY_FIELD(hz_registered, block),
           HZ_ANATOMY_FIELD(hz_registered, is_hollow), HZ_ANATOMY_NUMBER(HZ_THREAD_FREE),
           HZ_ANATOMY_NUMBER(HZ_THREAD_USED), HZ_ANATOMY_NUMBER(HZ_THREAD_ORPHAN));

struct hz_registered *hz_registry_first(void) {
    return hz_load_acq(&newest); /* sync: thread-publish, partner hz_registry_add */
}

size_t hz_registry_used(void) {
    size_t used = 0;
    for (struct hz_registered *each = hz_registry_first(); each != NULL; each = each->next)
        used += hz_load_rlx(&each->state) == HZ_THREAD_USED; /* relaxed: hint */
    return used;
}

static struct hz_registered *claim_from(uint32_t state, _Atomic(uint32_t) *count) {
    if (hz_load_rlx(count) == 0) /* relaxed: hint; a stale 0 costs at most one more thread block */
        return NULL;
    for (struct hz_registered *thread = hz_registry_first(); thread != NULL; thread = thread->next) {
        uint32_t expected = state;
        if (hz_load_rlx(&thread->state) != state) /* relaxed: hint */
            continue;
        /* sync: thread-claim, partner hz_registry_release */
        if (hz_cas_strong_acq_rlx(&thread->state, &expected, HZ_THREAD_USED)) {
            hz_sub_rlx(count, 1); /* relaxed: hint */
            return thread;
        }
    }
    return NULL;
}

struct hz_registered *hz_registry_claim_orphan(void) {
    return claim_from(HZ_THREAD_ORPHAN, &orphan_count);
}

struct hz_registered *hz_registry_claim(void) {
    struct hz_registered *thread = hz_registry_claim_orphan();
    return thread != NULL ? thread : claim_from(HZ_THREAD_FREE, &unused_count);
}

bool hz_registry_claim_this(struct hz_registered *block) {
    uint32_t expected = HZ_THREAD_FREE;
    /* relaxed: hint. sync: thread-claim, partner hz_registry_release */
    if (hz_load_rlx(&block->state) != HZ_THREAD_FREE ||
        !hz_cas_strong_acq_rlx(&block->state, &expected, HZ_THREAD_USED))
        return false;
    hz_sub_rlx(&unused_count, 1); /* relaxed: hint */
    return true;
}

void hz_registry_add(struct hz_registered *thread) {
    thread->number = hz_add_rlx(&made_count, 1);       /* relaxed: counter */
    hz_store_rlx(&thread->state, HZ_THREAD_USED);      /* relaxed: published by the CAS */
    struct hz_registered *seen = hz_load_rlx(&newest); /* relaxed: cas */
    do {
        thread->next = seen;
    } while (!hz_cas_rel_rlx(&newest, &seen, thread)); /* sync: thread-publish, partner hz_registry_first */
}

void hz_registry_release(struct hz_registered *thread) {
    hz_store_rlx(&thread->label, 0);              /* relaxed: figure */
    hz_store_rel(&thread->state, HZ_THREAD_FREE); /* sync: thread-claim, partner claim_from */
    hz_add_rlx(&unused_count, 1);                 /* relaxed: hint */
}

void hz_registry_orphan(struct hz_registered *thread) {
    hz_store_rlx(&thread->label, 0);                /* relaxed: figure */
    hz_store_rel(&thread->state, HZ_THREAD_ORPHAN); /* sync: thread-claim, partner claim_from */
    hz_add_rlx(&orphan_count, 1);                   /* relaxed: hint */
}

void hz_registry_after_fork(struct hz_registered *self) {
    uint32_t orphans = 0;
    uint32_t unused = 0;
    for (struct hz_registered *thread = hz_registry_first(); thread != NULL; thread = thread->next) {
        uint32_t state = hz_load_rlx(&thread->state); /* relaxed, all: one thread */
        if (thread != self && state == HZ_THREAD_USED) {
            hz_store_rlx(&thread->state, HZ_THREAD_ORPHAN);
            hz_store_rlx(&thread->label, 0);
        }
        orphans += thread != self && state != HZ_THREAD_FREE;
        unused += state == HZ_THREAD_FREE;
    }
    hz_store_rlx(&orphan_count, orphans);
    hz_store_rlx(&unused_count, unused);
}
