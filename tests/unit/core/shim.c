/*
 * shim.c - see shim.h. Nothing here decides anything.
 */
#include "unit/core/shim.h"

#include "core/core.h"

#include <stdlib.h>

/* ---- thread.c ---- */

struct hz_thread_block *unit_self(void) {
    if (!hz_is_attached(hz_self) && hz_thread_attach() == NULL)
        abort();
    return hz_self;
}

bool unit_is_attached(void) {
    return hz_is_attached(hz_self);
}

struct hz_shard *unit_thread_shard(const struct hz_thread_block *thread) {
    return thread->shard;
}

uint32_t unit_thread_remote_count(const struct hz_thread_block *thread) {
    return thread->remote_count;
}

uint32_t unit_bin_count(struct hz_thread_block *thread, unsigned size_class) {
    struct hz_bin *bin = &thread->bins[size_class];
    return (uint32_t)(hz_load_rlx(&bin->top) - hz_bin_base(bin, size_class));
}

struct unit_counters unit_counters_of(struct hz_thread_block *thread) {
    struct hz_counters *counters = &thread->counters;
#define COUNTER(name) .name = hz_load_rlx(&counters->name)
    return (struct unit_counters){
        COUNTER(refill),        COUNTER(refill_depot),   COUNTER(refill_carry), COUNTER(refill_stash),
        COUNTER(refill_page),   COUNTER(refill_central), COUNTER(page_create),  COUNTER(refill_transfer),
        COUNTER(page_retire),   COUNTER(flush),          COUNTER(depot_push),   COUNTER(home_blocks),
        COUNTER(transfer_send), COUNTER(stash_send),     COUNTER(central_send), COUNTER(direct_home),
        COUNTER(remote_free),
    };
#undef COUNTER
}

struct hz_thread *unit_registered(struct hz_thread_block *thread) {
    return &thread->registered;
}

/* ---- shard.c ---- */

uint32_t unit_shard_index(const struct hz_shard *shard) {
    return shard->index;
}

uint32_t unit_shard_threads(struct hz_shard *shard) {
    return hz_load_rlx(&shard->threads);
}

struct hz_lock *unit_shard_exclusive(struct hz_shard *shard) {
    return &shard->exclusive;
}

struct hz_shard_class *unit_shard_class(struct hz_shard *shard, unsigned size_class) {
    return &shard->classes[size_class];
}

uint32_t unit_carry_count(struct hz_shard_class *home) {
    return hz_list_word_count(hz_load_rlx(&home->carry));
}

uint32_t unit_stash_count(struct hz_shard_class *home) {
    return hz_mpsc_count(&home->stash);
}

/* ---- transfer.c, central.c ---- */

const unsigned unit_transfer_slots = HZ3_TRANSFER_SLOTS;

struct hz_shard_class *unit_shard_class_new(void) {
    struct hz_shard_class *made = aligned_alloc(HZ_CACHE_LINE_BYTES, sizeof(*made));
    if (made == NULL)
        abort();
    *made = (struct hz_shard_class){0};
    return made;
}

/* ---- page.c ---- */

struct unit_page unit_page_of(struct hz_page *page) {
    return (struct unit_page){
        .size_class = hz_load_acq(&page->size_class),
        .shard = hz_load_rlx(&page->shard),
        .run_pages = hz_load_rlx(&page->run_pages),
        .listed = page->listed,
        .block_bytes = page->block_bytes,
        .capacity = page->capacity,
        .rotation = page->rotation,
        .free_count = hz_load_rlx(&page->free_count),
        .start = page->start,
        .next = page->next,
    };
}

struct hz_page *unit_partial(struct hz_shard *shard, unsigned size_class) {
    return shard->classes[size_class].partial;
}

void unit_partial_forget(struct hz_shard *shard, unsigned size_class) {
    shard->classes[size_class].partial = NULL;
}

void unit_page_free_count_set(struct hz_page *page, uint32_t count) {
    hz_store_rlx(&page->free_count, count);
}
