/*
 * page_purge.h - gives back the memory of those parts of a page in which all blocks are free. A page stays as long as
 * one of its blocks is out, but only the system pages that such blocks lie on have to.
 */
#ifndef HZ_HEAP_PAGES_PAGE_PURGE_H
#define HZ_HEAP_PAGES_PAGE_PURGE_H

#include "heap/threads/thread_block.h"

enum hz_page_purge_mode {
    HZ_PURGE_AGED,   /* pages that no walk has found changed since the walk before */
    HZ_PURGE_RECENT, /* pages that have changed since a walk last purged them */
    HZ_PURGE_FILLED, /* parts that were purged, and hold memory again */
    HZ_PURGE_ZONES,  /* as HZ_PURGE_AGED, but only pages of zones */
    HZ_PURGE_MODES,
};

/* Looks at the pages of one arena segment after the other, from *next on, until `calls` calls of the OS were made (the
   last page can add a few) or `segments` segments were seen. Retires pages whose blocks are all home. *next becomes the
   segment at which the next call goes on. True when the walk has reached the end; *next is 0 then. Any thread, holding
   no lock. */
bool hz_pages_purge(struct hz_thread_block *self, enum hz_page_purge_mode mode, uint32_t *next, uint32_t segments,
                    uint32_t calls);

/* Looks at every page once, as HZ_PURGE_RECENT does. `anew`: maps what it purges anew, and also what was purged before
   without that. */
void hz_pages_purge_all(struct hz_thread_block *self, bool anew);

/* Looks at every page once, for parts that the kernel has filled again after they were purged. True if there were any.
   A system call for each segment; none in a process that may be filtered. */
bool hz_pages_purge_filled(struct hz_thread_block *self);

#endif
