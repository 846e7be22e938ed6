/*
 * purge.h - gives memory back on demand.
 */
#ifndef HZ_HEAP_PURGE_H
#define HZ_HEAP_PURGE_H

#include "base/compiler.h"

/* Sends home what the calling thread's bins, the depot and all mailboxes hold, retires all pages whose blocks are home,
   and purges all free pages. Bins of other running threads stay as they are. Returns the bytes given back. Any thread,
   holding no lock. */
size_t hz_heap_purge(void);

#endif
