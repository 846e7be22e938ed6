/*
 * shim.c - see shim.h. Nothing here decides anything.
 */
#include "unit/base/shim.h"

#include "base/arena.h"
#include "base/lock.h"
#include "base/mpsc.h"
#include "base/pagetag.h"
#include "base/registry.h"

#include <stdlib.h>

static void *make(size_t bytes) {
    void *object = calloc(1, bytes);
    if (object == NULL)
        abort();
    return object;
}

void unit_delete(void *object) {
    free(object);
}

/* ---- mpsc.h ---- */

struct hz_mpsc *unit_mpsc_new(void) {
    return make(sizeof(struct hz_mpsc));
}

bool unit_mpsc_send(struct hz_mpsc *queue, const struct hz_list *list, uint32_t cap) {
    return hz_mpsc_send(queue, list, cap);
}

hz_list_word unit_mpsc_take(struct hz_mpsc *queue) {
    return hz_mpsc_take(queue);
}

uint32_t unit_mpsc_count(struct hz_mpsc *queue) {
    return hz_mpsc_count(queue);
}

/* ---- lock.h ---- */

const unsigned unit_rank_leaf = HZ_RANK_LEAF;
const unsigned unit_rank_init = HZ_RANK_INIT;
const unsigned unit_rank_shard = HZ_RANK_OUTER;
const unsigned unit_rank_arena = HZ_RANK_ARENA;
const unsigned unit_rank_meta = HZ_RANK_META;

struct hz_lock *unit_lock_new(unsigned rank) {
    struct hz_lock *lock = make(sizeof(*lock));
    hz_lock_init(lock, (enum hz_lock_rank)rank);
    return lock;
}

uint32_t unit_lock_word(struct hz_lock *lock) {
    return hz_load_rlx(&lock->word);
}

/* ---- pagetag.h ---- */

struct unit_pagetag unit_pagetag_of(const void *address) {
    struct hz_pagetag *tag = hz_pagetag_of(address);
    return (struct unit_pagetag){
        .bin = hz_load_rlx(&tag->bin),
        .size_class = hz_pagetag_class(address),
        .owner = hz_pagetag_owner(address),
    };
}

bool unit_pagetags_flat(void) {
    return hz_pagetags.flat;
}

uintptr_t unit_pagetags_mask(void) {
    return hz_pagetags.mask;
}

/* ---- arena.h ---- */

const size_t unit_page_bytes = HZ_PAGE_BYTES;
const size_t unit_segment_bytes = HZ_SEGMENT_BYTES;
const unsigned unit_segment_pages = HZ_SEGMENT_PAGES;
const unsigned unit_run_pages_max = HZ_RUN_PAGES_MAX;

bool unit_base_init(void) {
    return (hz_pagetags.mask != 0 || hz_pagetag_init()) && hz_arena_init();
}

bool unit_run_alloc(unsigned pages, unsigned align_pages, struct unit_run *run) {
    struct hz_run got;
    if (!hz_arena_run_alloc(pages, align_pages, &got))
        return false;
    *run = (struct unit_run){got.segment, got.first, got.pages, got.dirty_mask};
    return true;
}

unsigned unit_run_pages(const struct hz_segment *segment, unsigned first) {
    return segment->run_pages[first];
}

unsigned unit_run_first(const struct hz_segment *segment, unsigned page) {
    return segment->run_first[page];
}

uint32_t unit_segment_index(const struct hz_segment *segment) {
    return segment->index;
}

size_t unit_segment_direct_bytes(struct hz_segment *segment) {
    return hz_load_acq(&segment->kind) == HZ_SEGMENT_DIRECT ? hz_load_rlx(&segment->direct_bytes) : 0;
}

char *unit_page_address(struct hz_segment *segment, unsigned page) {
    return hz_segment_page_address(segment, page);
}

unsigned unit_page_number(const void *address) {
    return hz_segment_page(address);
}

void unit_arena_figures_get(struct unit_arena_figures *figures) {
    struct hz_arena_figures got;
    hz_arena_figures_get(&got);
    *figures = (struct unit_arena_figures){
        .mapped_bytes = got.mapped_bytes,
        .dirty_bytes = got.dirty_bytes,
        .free_dirty_bytes = got.free_dirty_bytes,
        .used_bytes = got.used_bytes,
        .direct_bytes = got.direct_bytes,
        .direct_count = got.direct_count,
        .purged_bytes = got.purged_bytes,
        .segment_count = got.segment_count,
    };
}

/* ---- thread.h ---- */

_Static_assert((int)UNIT_THREAD_FREE == (int)HZ_THREAD_FREE && (int)UNIT_THREAD_USED == (int)HZ_THREAD_USED &&
                   (int)UNIT_THREAD_ORPHAN == (int)HZ_THREAD_ORPHAN,
               "the states have the same numbers");

struct hz_registered *unit_thread_new(void) {
    return make(sizeof(struct hz_registered));
}

enum unit_thread_state unit_thread_state_of(struct hz_registered *thread) {
    return (enum unit_thread_state)hz_load_acq(&thread->state);
}

uint32_t unit_thread_number(const struct hz_registered *thread) {
    return thread->number;
}

struct hz_registered *unit_thread_next(const struct hz_registered *thread) {
    return thread->next;
}
