/*
 * limit.h - what happens when the heap holds more than the program allows it.
 */
#ifndef HZ_HEAP_BACK_LIMIT_H
#define HZ_HEAP_BACK_LIMIT_H

#include "base/os/compiler.h"

/* Sets both limits, in bytes of used and resting memory; 0: none. Any thread. */
void hz_heap_limit_set(size_t soft_bytes, size_t hard_bytes);

/* Registers the callback; NULL removes it. It is called once when the heap still holds more than the soft limit after a
   purge, and again only after the heap has been 1/16 below the limit. It runs in the thread that noticed, which holds
   no lock; it may allocate and free. */
void hz_heap_limit_notify(void (*callback)(size_t held_bytes, void *context), void *context);

/* For the reports: `told` is called whenever the callback would be, before it. It may not allocate. Once, before other
   threads exist. */
void hz_heap_limit_watch(void (*told)(void));

/* Takes the soft limit from the process's control group, unless the program has set limits, or the files of the group
   cannot be read: memory.high, or 7/8 of memory.max if that is less, minus the private memory that the process holds
   beside the heap; but at least an eighth of that. `groups` is /proc/self/cgroup, `root` is /sys/fs/cgroup, and `statm`
   is /proc/self/statm, or files and a folder of the same form. A thread that may read files (surroundings.h). */
void hz_heap_limit_default(const char *groups, const char *root, const char *statm);

/* Looks again at what is beside the heap, if the heap has grown by 1/32 of the limit, and by 1 MiB, since the last
   look. The limits are those of hz_heap_limit_default; before it, and if the program has set limits, nothing happens. A
   thread that may read files. */
void hz_heap_limit_look(const char *statm);

/* When nobody will look again. Any thread. */
void hz_heap_limit_forget_beside(void);

/* The soft limit in bytes, 0: none; and whether it comes from the control group. Any thread. */
size_t hz_heap_limit_soft(bool *is_default);

/* For slow paths that may obtain memory: whether the heap holds more than the soft limit. If so, the caller purges if
   it can claim the purge, reports that as done, and then calls hz_heap_limit_tell. That calls the callback if the heap
   still holds more than the limit; the caller must hold no lock. Any thread. */
bool hz_heap_limit_is_exceeded(void);
void hz_heap_limit_tell(void);

/* True for one thread when a purge is due. The pause after a purge is 16 times as long as the purge took, but 20 ms to
   1 s: so purges take at most about a sixteenth of the time. Growth by 1/32, of the limit at least, ends the pause
   once it is as long as the purge was: a control group can be full within milliseconds. */
bool hz_heap_limit_purge_claim(uint64_t now_ms);
void hz_heap_limit_purge_done(uint64_t claimed_ms, uint64_t now_ms);

/* Waits for a purge that another thread is doing if the heap has grown by as much since it began, but not longer than
   0.1 s: otherwise the other threads could take more meanwhile than the purge gives back. Holding no lock. */
void hz_heap_limit_purge_wait(void);

/* In a fork's child. */
void hz_heap_limit_after_fork(void);

#endif
