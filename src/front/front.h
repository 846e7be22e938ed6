/*
 * front.h - the malloc family's semantics over an engine. api.c gives them the hz_ names, override.c the standard ones.
 *
 * Argument checks, errno and realloc's rules are made here; where blocks come from is the engine's business. In the
 * check build every block passes the live map.
 */
#ifndef HZ_FRONT_FRONT_H
#define HZ_FRONT_FRONT_H

#include "base/check.h"
#include "base/compiler.h"
#include "base/livemap.h"
#include "core/engine.h"

/* ---- family.c ---- */

void *hz_front_calloc(size_t count, size_t size);
void *hz_front_realloc(void *block, size_t size);
void *hz_front_reallocarray(void *block, size_t count, size_t size);
void *hz_front_aligned_alloc(size_t alignment, size_t size);
int hz_front_posix_memalign(void **out, size_t alignment, size_t size);
void *hz_front_memalign(size_t alignment, size_t size);
void *hz_front_valloc(size_t size);
void *hz_front_pvalloc(size_t size);
void hz_front_free_sized(void *block, size_t size);
void hz_front_free_aligned_sized(void *block, size_t alignment, size_t size);
size_t hz_front_usable_size(const void *block);

/* Check build: ends the program unless `block` is live; it is not any more. NULL passes. */
void hz_front_live_remove(const void *block);

/* ---- newdel.c ---- */

/* operator new after a failed allocation: calls the new_handler as long as there is one and tries again; then throws
   bad_alloc, or returns NULL if `nothrow`. */
HZ_COLD void *hz_front_new_slow(size_t size, size_t alignment, bool nothrow);

/* ---- the two that must be short ---- */

HZ_INLINE void *hz_front_malloc(size_t size) {
    void *block = hz_engine_malloc(size);
    if (HZ_CONFIG_CHECKS && block != NULL)
        hz_livemap_add(block);
    return block;
}

HZ_INLINE void hz_front_free(void *block) {
    if (HZ_CONFIG_CHECKS)
        hz_front_live_remove(block);
    hz_engine_free(block);
}

#endif
