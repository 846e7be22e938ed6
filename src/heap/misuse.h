/*
 * misuse.h - ends the program when it has misused a block, and says what is known about the block.
 */
#ifndef HZ_HEAP_MISUSE_H
#define HZ_HEAP_MISUSE_H

#include "base/os/check.h"

/* Where and how the misuse was found. Stable, like the texts in base/os/check.h. */
#define HZ_IN_FREE        "found in " HZ_CALLED("free", "hz_free")
#define HZ_IN_FREE_SIZED  "found in " HZ_CALLED("free_sized", "hz_free_sized")
#define HZ_IN_REALLOC     "found in " HZ_CALLED("realloc", "hz_realloc")
#define HZ_IN_EXPAND      "found in hz_expand"
#define HZ_IN_USABLE_SIZE "found in " HZ_CALLED("malloc_usable_size", "hz_usable_size")
#define HZ_FOUND_IN_BIN   HZ_IN_FREE ": the thread's cache has it"
#define HZ_FOUND_IN_PAGE  HZ_IN_FREE ": its page has it"
#define HZ_FOUND_LATER    "found later, on the way to its page"
/* Of a block that was written to after its free: where it rested. */
#define HZ_FOUND_IN_MALLOC    "found in " HZ_CALLED("malloc", "hz_malloc")
#define HZ_WRITTEN_IN_BIN     "found when it left a thread's bin"
#define HZ_WRITTEN_IN_BUFFER  "found when it left a remote buffer"
#define HZ_WRITTEN_IN_DEPOT   "found when it left the depot"
#define HZ_WRITTEN_IN_LIST    "found when its list was sent or taken"
#define HZ_WRITTEN_ON_THE_WAY "found when it came to its page"
#define HZ_WRITTEN_IN_PAGE    "found when it left its page"

/* Prints "hakozuna: <text> 0x<block> (<bytes> bytes, shard <n>, <found>)" and aborts. Size and shard come from the page
   tag; they are left out if it names none. Any thread; locks may be held. */
HZ_NORETURN HZ_COLD void hz_misuse(const char *text, const void *block, const char *found);

#endif
