/*
 * family.h - the rest of the malloc family, with glibc's semantics: argument checks, errno and realloc's rules. api.c
 * gives the functions their hz_ names, override.c the standard ones. hakozuna.h says what each does. Any thread.
 */
#ifndef HZ_FRONT_FAMILY_H
#define HZ_FRONT_FAMILY_H

#include "base/os/compiler.h"

void *hz_front_calloc(size_t count, size_t size);
void *hz_front_realloc(void *block, size_t size);
void *hz_front_reallocarray(void *block, size_t count, size_t size);
void *hz_front_aligned_alloc(size_t alignment, size_t size);
void *hz_front_aligned_realloc(void *block, size_t alignment, size_t size);
void *hz_front_rezalloc(void *block, size_t size);
void *hz_front_recalloc(void *block, size_t count, size_t size);
void *hz_front_expand(void *block, size_t size);
int hz_front_posix_memalign(void **out, size_t alignment, size_t size);
void *hz_front_memalign(size_t alignment, size_t size);
void *hz_front_valloc(size_t size);
void *hz_front_pvalloc(size_t size);
void hz_front_free_sized(void *block, size_t size);
void hz_front_free_aligned_sized(void *block, size_t alignment, size_t size);
size_t hz_front_usable_size(const void *block);
void hz_front_free_batch(void *const *blocks, size_t count);

/* Zones (heap/threads/zone.h). EINVAL unless `alignment` is a power of two. */
struct hz_zone;
void *hz_front_zone_alloc(struct hz_zone *zone, size_t alignment, size_t size, bool zeroed);
void *hz_front_zone_malloc(struct hz_zone *zone, size_t size);
void *hz_front_zone_calloc(struct hz_zone *zone, size_t count, size_t size);
struct hz_zone *hz_front_zone_of(const void *block);

#endif
