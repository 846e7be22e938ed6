/*
 * situation.h - what people have to know of a process before its figures: whether the keeper runs, and under which soft
 * limit the heap is. Both depend on where the process runs, and a lack of either is easily overlooked.
 */
#ifndef HZ_HEAP_REPORT_SITUATION_H
#define HZ_HEAP_REPORT_SITUATION_H

#include "base/os/compiler.h"
#include "heap/back/keeper.h"

struct hz_situation {
    struct hz_keeper_words keeper;
    size_t soft_limit_bytes;  /* 0: none */
    const char *limit_source; /* where it comes from, or why there is none */
};

/* Any thread. */
struct hz_situation hz_situation_get(void);

#endif
