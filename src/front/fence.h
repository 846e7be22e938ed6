/*
 * fence.h - the guard build: each block lies between fences, and a freed block waits in the quarantine.
 *
 * A fence is at least 32 bytes on each side of what the program asked for; its bytes depend on a secret and the
 * address. The front fence holds the size. A block above 64 KiB ends at a page that cannot be accessed, and another
 * such page lies in front. malloc(0) returns an address that cannot be accessed at all. free checks that the address is
 * a live block's and that its fences are intact, fills the block with zeros (a long one becomes inaccessible) and puts
 * it into the quarantine; when it leaves, it must still be zero. A block that the program gets is zero.
 *
 * A write that hits neither a fence nor a closed page nor a freed block is not noticed; nor is a read. Nothing here is
 * used by other builds. Any thread.
 */
#ifndef HZ_FRONT_FENCE_H
#define HZ_FRONT_FENCE_H

#include "base/os/compiler.h"

/* `size` bytes at a multiple of `alignment`, a power of two. NULL and ENOMEM when there is no memory. */
void *hz_fence_alloc(size_t alignment, size_t size);

/* Ends the program if the block or its fences are not as they should be. `function`: one of HZ_IN_*. */
void hz_fence_free(void *block, const char *function);

/* The size that the program asked for. Ends the program as above. */
size_t hz_fence_size(const void *block, const char *function);

/* Empties the quarantine. */
void hz_fence_drain(void);

#endif
