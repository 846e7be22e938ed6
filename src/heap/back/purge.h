/*
 * purge.h - gives memory back on demand.
 */
#ifndef HZ_HEAP_BACK_PURGE_H
#define HZ_HEAP_BACK_PURGE_H

#include "base/os/compiler.h"

/* Empties the bins of all threads (as far as park.h allows), the depot and all mailboxes: what each holds when its turn
   comes goes home. Then retires the pages whose blocks are all home, purges the parts of other pages in which all
   blocks are free, and purges free pages until `keep` bytes rest. Maps what it purges anew (base/map/altered.h).
   Returns the bytes given back. Any thread, holding no lock. */
size_t hz_heap_trim(size_t keep);

/* As hz_heap_trim(0), but maps nothing anew: for an allocation that finds no memory, and above a limit. */
size_t hz_heap_purge(void);

/* For an allocation of `size` bytes that was refused: purges if that can help; the caller tries again if true. If that
   try fails too, the caller says that the purge was in vain. Then for a while no request that is as large, and 64 MiB
   or more, causes a purge: otherwise each refusal would take as long as a purge. Holding no lock. */
bool hz_heap_purge_for(size_t size);
void hz_heap_purge_was_vain(size_t size);

/* Sends home what the calling thread keeps in its bins and its remote buffer. Holding no lock. */
void hz_heap_thread_idle(void);

/* For slow paths that may have obtained memory: if the heap holds more than the soft limit, purges, with pauses
   (hz_heap_limit_purge_claim), and lets the program know (limit.h). Holding no lock. */
void hz_heap_limit_tick(void);

#endif
