/*
 * guard.h - the sampling guard as the layer above sees it: blocks from the pool (guard_pool.h), and a report that ends
 * the program when one is misused (guard_report.h).
 */
#ifndef HZ_BASE_WATCH_GUARD_H
#define HZ_BASE_WATCH_GUARD_H

#include "base/watch/guard_pool.h"

/* Makes the pool, and takes over SIGSEGV. Once, when the library is loaded. Can allocate. False when there is no memory
   for the pool. If SIGSEGV cannot be taken over, only misuse of free is reported. */
bool hz_guard_start(uint32_t rate);

/* Frees a block of the pool. Ends the program when the address is not the start of a live block, or when the memory
   around the block was written to. */
HZ_COLD void hz_guard_free(const void *block);

/* The size that the program requested. Ends the program unless the address is the start of a live block. */
HZ_COLD size_t hz_guard_usable(const void *block);

#endif
