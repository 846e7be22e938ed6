/*
 * meta.c - a bump allocator over chunks from the OS.
 *
 * Invariant, at each instant because a fork can happen at any: either [cursor, chunk_end) is unused, zeroed memory, or
 * chunk_end <= cursor. The child repairs chunk_end < cursor.
 */
#include "base/map/meta.h"

#include "base/lists/lock.h"
#include "base/os/anatomy.h"
#include "base/os/os.h"

enum { CHUNK_BYTES = 128 * 1024 };

static struct hz_lock lock = HZ_LOCK_INIT(HZ_RANK_META);
static char *cursor;                 /* lock: lock */
static char *chunk_end;              /* lock: lock */
static _Atomic(size_t) mapped_bytes; /* counter */

HZ_ANATOMY(meta, HZ_ANATOMY_OBJECT(meta_bytes, mapped_bytes));

static void chunk_count(void *chunk, size_t bytes) {
    hz_os_sparse(chunk, bytes);
    hz_os_name(chunk, bytes, HZ_NAME_TABLES);
    hz_add_rlx(&mapped_bytes, bytes); /* relaxed: counter */
}

static void *map_chunk(size_t bytes) {
    size_t alignment = hz_max(hz_os_page_bytes(), HZ_CACHE_LINE_BYTES);
    size_t rounded = hz_round_up(bytes, alignment);
    void *chunk = hz_os_map(rounded, alignment, false);
    if (chunk != NULL)
        chunk_count(chunk, rounded);
    return chunk;
}

static void chunk_use_locked(char *chunk, size_t bytes) {
    chunk_end = NULL; /* fork: keeps chunk_end < cursor between these stores, wherever the new chunk lies */
    hz_signal_fence();
    cursor = chunk;
    hz_signal_fence();
    chunk_end = chunk + bytes;
}

static void *alloc_locked(size_t bytes) {
    if ((uintptr_t)chunk_end - (uintptr_t)cursor < bytes) {
        if (bytes > CHUNK_BYTES / 4)
            return map_chunk(bytes); /* a large piece gets its own mapping, so that little of a chunk is wasted */
        char *chunk = map_chunk(CHUNK_BYTES);
        if (chunk == NULL)
            return NULL;
        chunk_use_locked(chunk, hz_round_up(CHUNK_BYTES, hz_os_page_bytes()));
    }
    void *piece = cursor;
    cursor += bytes;
    return piece;
}

void *hz_meta_alloc(size_t bytes) {
    size_t rounded = hz_round_up(bytes, HZ_CACHE_LINE_BYTES);
    if (rounded < bytes)
        return NULL;
    hz_lock_acquire(&lock);
    void *piece = alloc_locked(rounded);
    hz_lock_release(&lock);
    return piece;
}

void hz_meta_give(void *memory, size_t bytes) {
    chunk_count(memory, bytes);
    hz_lock_acquire(&lock);
    chunk_use_locked(memory, bytes);
    hz_lock_release(&lock);
}

size_t hz_meta_bytes(void) {
    return hz_load_rlx(&mapped_bytes); /* relaxed: counter */
}

void hz_meta_after_fork(void) {
    if (!hz_lock_abandoned(&lock))
        return;
    if ((uintptr_t)chunk_end < (uintptr_t)cursor)
        chunk_end = cursor; /* copied between two stores of alloc_locked: the chunk is lost */
    hz_lock_reset(&lock);
}
