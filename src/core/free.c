/*
 * free.c - the slow paths of free: full bins, large blocks, classes that go home, foreign pointers, threads that are
 * not attached. Also what can be asked about a block.
 */
#include "base/check.h"
#include "base/large.h"
#include "core/engine.h"

/* Frees of a thread that has never allocated go straight into their pages until there have been this many: a thread's
   very last frees (glibc's, of its own bookkeeping) would attach it too late for its exit hook. */
enum { FREES_BEFORE_ATTACH = 16 };

static HZ_TLS uint32_t unattached_frees; /* owner */

/* Says what a pointer is that is no live block, and ends the program. */
static HZ_NORETURN HZ_COLD void fail_no_block(const void *block) {
    const void *start = hz_engine_block_start(block);
    if (start != NULL)
        hz_fail_pointer(HZ_TEXT_INTERIOR, block);
    hz_fail_pointer(hz_segment_find(block) != NULL ? HZ_TEXT_DOUBLE_FREE : HZ_TEXT_FOREIGN, block);
}

/* The class of a block that must be ours. In the small-table mode different addresses share a tag: the directory
   decides. */
static unsigned class_of_block(const void *block) {
    unsigned size_class = hz_pagetag_class(block);
    if (HZ_UNLIKELY(size_class == HZ_CLASS_NONE || (!hz_pagetags.flat && hz_segment_find(block) == NULL)))
        fail_no_block(block);
    return size_class;
}

static void free_small(struct hz_thread_block *self, void *block, unsigned size_class) {
    size_t offset = hz_bin_offset(size_class);
    bool is_remote = hz_goes_home(self, hz_pagetag_of(block), offset);
    if (is_remote)
        offset = hz_bin_offset(HZ_REMOTE_BIN);
    struct hz_bin *bin = hz_bin_at(self, offset);
    if (hz_load_rlx(&bin->top) == bin->limit) { /* relaxed: owner */
        hz_tick(self);
        if (is_remote) {
            hz_count(&self->counters.remote_full, 1);
            hz_remote_flush(self);
        } else {
            hz_room_visit(self, size_class);
            if (hz_load_rlx(&bin->top) == bin->limit) /* relaxed: owner */
                hz_bin_flush(self, size_class, hz_bin_room(self, size_class) / 2);
        }
    }
    hz_bin_push(self, bin, hz_load_rlx(&bin->top), block); /* relaxed: owner */
}

void hz_free_slow(void *block) {
    if (block == NULL)
        return;
    unsigned size_class = class_of_block(block);
    struct hz_thread_block *self = hz_self;
    if (size_class == HZ_CLASS_LARGE) {
        if (HZ_UNLIKELY((uintptr_t)block % HZ_PAGE_BYTES != 0))
            hz_fail_pointer(HZ_TEXT_INTERIOR, block);
        if (hz_is_attached(self)) {
            hz_count(&self->counters.large_free, 1);
            hz_count(&self->counters.large_rel, hz_large_usable(block));
        }
        hz_large_free(block);
        return;
    }
    if (!hz_is_attached(self) && !hz_thread_is_ending() && ++unattached_frees > FREES_BEFORE_ATTACH) {
        hz_thread_attach(); /* fails without memory: then the block goes home directly */
        self = hz_self;
    }
    if (hz_is_attached(self))
        free_small(self, block, size_class);
    else /* a thread at its end, or no memory for its thread block */
        hz_block_put_home(self, block);
}

size_t hz_engine_usable(const void *block) {
    unsigned size_class = class_of_block(block);
    return size_class == HZ_CLASS_LARGE ? hz_large_usable(block) : hz_class_bytes(size_class);
}

void *hz_engine_resize(void *block, size_t size) {
    if (class_of_block(block) != HZ_CLASS_LARGE)
        return NULL;
    size_t before = hz_large_usable(block);
    void *resized = hz_large_resize(block, size);
    struct hz_thread_block *self = hz_self;
    if (resized != NULL && hz_is_attached(self)) {
        size_t after = hz_large_usable(resized);
        hz_count(&self->counters.large_acq, after > before ? after - before : 0);
        hz_count(&self->counters.large_rel, before > after ? before - after : 0);
    }
    return resized;
}

const void *hz_engine_block_start(const void *address) {
    struct hz_segment *segment = hz_segment_find(address);
    if (segment == NULL)
        return NULL;
    unsigned page_number = hz_segment_page(address);
    unsigned first = segment->run_first[page_number];
    const void *run = hz_segment_page_address(segment, first);
    if (hz_load_rlx(&segment->kind) == HZ_SEGMENT_DIRECT) /* relaxed: acquired by hz_segment_find */
        return hz_segment_page_address(segment, 0);
    if (page_number >= first + segment->run_pages[first])
        return NULL; /* of a run that is gone */
    if (hz_pagetag_class(run) == HZ_CLASS_LARGE)
        return run;
    if (hz_pagetag_class(run) == HZ_CLASS_NONE)
        return NULL;
    const struct hz_page *page = hz_page_of(address);
    size_t offset = (size_t)((const char *)address - page->start);
    return offset / page->block_bytes < page->capacity ? page->start + offset - offset % page->block_bytes : NULL;
}
