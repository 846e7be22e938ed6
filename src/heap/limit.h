/*
 * limit.h - what happens when the heap holds more than the program allows it.
 */
#ifndef HZ_HEAP_LIMIT_H
#define HZ_HEAP_LIMIT_H

#include "base/compiler.h"

/* Sets both limits, in bytes of used and resting memory; 0: none. Any thread. */
void hz_heap_limit_set(size_t soft_bytes, size_t hard_bytes);

/* Called when the heap still holds more than the soft limit after a purge: once, and again after the heap has held less
   meanwhile. In the thread that noticed, holding no lock; may allocate and free. NULL: nothing is called. */
void hz_heap_limit_notify(void (*callback)(size_t held_bytes, void *context), void *context);

/* Takes the soft limit from the process's control group, unless the program has set limits. Looks only once. Any
 * thread.
 */
void hz_heap_limit_default(void);

/* For slow paths that may have obtained memory: whether the heap holds more than the soft limit. Then, if a purge is
   due, which is at most once a second, the caller purges. After that it lets the callback know, unless the purge has
   helped; it must hold no lock. Any thread. */
bool hz_heap_limit_is_exceeded(void);
bool hz_heap_limit_purge_is_due(void);
void hz_heap_limit_tell(void);

/* In a fork's child. */
void hz_heap_limit_after_fork(void);

#endif
