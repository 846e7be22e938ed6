/*
 * resize.h - changes a block's size without copying its contents.
 */
#ifndef HZ_HEAP_RESIZE_H
#define HZ_HEAP_RESIZE_H

#include "base/os/compiler.h"

/* The block, or, with `may_move`, its new address if its pages were remapped; NULL, with the block untouched, when only
   a copy can resize it. size > 0. For the block's holder. `function`: one of HZ_IN_*. */
void *hz_resize(void *block, size_t size, bool may_move, const char *function);

#endif
