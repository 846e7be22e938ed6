/*
 * shard.c - the table of shards, their locks and their marks.
 */
#include "heap/pages/shard.h"

#include "base/map/meta.h"
#include "base/os/anatomy.h"
#include "base/process/cpus.h"
#include "takers.h"

enum { STUCK_MS = 1000 }; /* a lock is held for microseconds, or for some ms if the holder waits for a CPU */

/* sync: shard-publish */
static _Atomic(struct hz_shard *) shards[HZ_NUM_SHARDS];

HZ_ANATOMY(shard, HZ_ANATOMY_OBJECT(shards, shards), HZ_ANATOMY_FIELD(hz_shard, exclusive),
           HZ_ANATOMY_FIELD(hz_shard, free_bytes), HZ_ANATOMY_FIELD(hz_shard, purged_bytes),
           HZ_ANATOMY_FIELD(hz_shard, classes), HZ_ANATOMY_SIZE(hz_shard_class),
           HZ_ANATOMY_FIELD(hz_shard_class, surplus.word));

struct hz_shard *hz_shard_get(unsigned index) {
    return index < HZ_NUM_SHARDS ? hz_load_acq(&shards[index]) : NULL; /* sync: shard-publish, partner shard_make */
}

static struct hz_shard *shard_make(unsigned index) {
    struct hz_shard *made = hz_meta_alloc(sizeof(*made));
    if (made == NULL)
        return NULL;
    hz_lock_init(&made->exclusive, HZ_RANK_OUTER);
    made->index = index;
    struct hz_shard *seen = NULL;
    /* sync: shard-publish, partner hz_shard_get. The loser of a race wastes its shard: address space, hardly touched */
    return hz_cas_strong_ar_acq(&shards[index], &seen, made) ? made : seen;
}

static _Atomic(uint32_t) limit_wanted; /* hint: 0 for no limit but the knobs' */

bool hz_shard_limit_set(uint32_t most) {
    if (HZ_TAKES_UNLOCKED)
        return false;
    hz_store_rlx(&limit_wanted, most); /* relaxed: hint */
    return true;
}

/* Number of shards that the knobs allow for the CPUs that the process can use now. */
static uint32_t limit_of_knobs(void) {
    if (HZ_SHARDS_PER_CPU == 0)
        return HZ_NUM_SHARDS;
    return (uint32_t)hz_min((size_t)HZ_SHARDS_PER_CPU * hz_cpus_count(), HZ_NUM_SHARDS);
}

/* Number of shards that starting threads are spread over. */
static uint32_t shard_limit(void) {
    uint32_t wanted = hz_load_rlx(&limit_wanted); /* relaxed: hint */
    uint32_t most = limit_of_knobs();
    return wanted == 0 ? most : (uint32_t)hz_min(wanted, most);
}

/* The first shard without threads, made if there is none yet at its index. */
static struct hz_shard *claim_unused(uint32_t limit) {
    for (unsigned index = 0; index < limit; index++) {
        struct hz_shard *shard = hz_shard_get(index);
        if (shard == NULL)
            shard = shard_make(index);
        if (shard == NULL)
            return NULL;
        uint32_t expected = 0;
        if (hz_load_rlx(&shard->threads) == 0 &&                  /* relaxed: hint */
            hz_cas_strong_acq_rlx(&shard->threads, &expected, 1)) /* sync: shard-claim, partner hz_shard_release */
            return shard;
    }
    return NULL;
}

struct hz_shard *hz_shard_claim(void) {
    hz_cpus_note();
    uint32_t limit = shard_limit();
    struct hz_shard *best = claim_unused(limit);
    if (best != NULL)
        return best;
    /* if the last shard does not exist, there was no memory for another one */
    if (!hz_takers_may_share(hz_shard_get(HZ_NUM_SHARDS - 1) != NULL))
        return NULL;
    for (unsigned index = 0; index < limit; index++) {
        struct hz_shard *shard = hz_shard_get(index);
        if (shard != NULL &&
            (best == NULL || hz_load_rlx(&shard->threads) < hz_load_rlx(&best->threads))) /* relaxed: hint */
            best = shard;
    }
    /* sync: shard-claim, partner hz_shard_release. All that threads of a shard share is behind `exclusive` */
    if (best != NULL)
        hz_add_ar(&best->threads, 1);
    return best;
}

void hz_shard_release(struct hz_shard *shard) {
    hz_sub_ar(&shard->threads, 1); /* sync: shard-claim, partner claim_unused */
}

static void lock_count(struct hz_thread_block *self, const struct hz_shard *shard, enum hz_lock_purpose purpose,
                       bool waits) {
    struct hz_counters *count = &self->counters;
    bool gets = purpose == HZ_TO_GET;
    if (shard == self->shard)
        hz_count(gets ? &count->ls_acq_self : &count->ls_rel_self, 1);
    else
        hz_count(gets ? &count->ls_acq_steal : &count->ls_rel_steal, 1);
    if (waits)
        hz_count(gets ? &count->ls_acq_miss : &count->ls_rel_miss, 1);
}

void hz_shard_lock(struct hz_thread_block *self, struct hz_shard *shard, enum hz_lock_purpose purpose) {
    bool waits = !hz_lock_try_acquire(&shard->exclusive);
    if (HZ_UNLIKELY(waits))
        hz_lock_acquire(&shard->exclusive);
    if (hz_is_attached(self))
        lock_count(self, shard, purpose, waits);
}

/* Takes the exclusive of the first shard whose exclusive no thread has; makes a shard if there is none. NULL when there
   is no memory, or every shard is locked. */
static HZ_COLD struct hz_shard *any_lock(void) {
    for (unsigned index = 0; index < HZ_NUM_SHARDS; index++) { /* shards are made in order */
        struct hz_shard *shard = hz_shard_get(index);
        if (shard == NULL)
            shard = shard_make(index);
        if (shard == NULL || hz_lock_try_acquire(&shard->exclusive))
            return shard;
    }
    return NULL;
}

struct hz_shard *hz_shard_lock_to_get(struct hz_thread_block *self, unsigned size_class) {
    struct hz_shard *shard = self->shard;
    bool may_be_other = !HZ_TAKES_UNLOCKED && !hz_class_is_home(size_class);
    bool waits = !hz_lock_try_acquire(&shard->exclusive);
    if (HZ_UNLIKELY(waits) && !(may_be_other && hz_lock_acquire_within(&shard->exclusive, STUCK_MS))) {
        struct hz_shard *other = may_be_other ? any_lock() : NULL;
        if (other == NULL)
            hz_lock_acquire(&shard->exclusive);
        shard = other != NULL ? other : shard;
    }
    lock_count(self, shard, HZ_TO_GET, waits);
    return shard;
}

void hz_shard_unlock(struct hz_shard *shard) {
    hz_lock_release(&shard->exclusive);
}
