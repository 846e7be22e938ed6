/*
 * os_faulty.h - the switch by which tests make calls of os.h fail (os_faulty.c).
 *
 * Only in libraries compiled with HZ_OS_FAULTY=1. There the calls that an OS can refuse (reserve, commit, map,
 * map_zero, collapse, purge, renew, unmap, close, fill, remap) are counted, and the chosen ones fail without doing
 * anything. The address space that they map and unmap is counted, too. A test can also set how fast time passes.
 */
#ifndef HZ_BASE_OS_OS_FAULTY_H
#define HZ_BASE_OS_OS_FAULTY_H

#include "base/os/os.h"

/* From now on lets `after` calls through, then fails `count` calls (UINT64_MAX: all). after = UINT64_MAX: none fails.
   Any thread. */
void hz_os_faulty_fail(uint64_t after, uint64_t count);

/* Number of calls since the last hz_os_faulty_fail, and number of those that failed. */
uint64_t hz_os_faulty_calls(void);
uint64_t hz_os_faulty_failures(void);

/* Address space that the calls have mapped and not unmapped since the process started, and the sum of what refused
   unmaps left mapped. */
size_t hz_os_faulty_mapped_bytes(void);
size_t hz_os_faulty_kept_bytes(void);

/* From now on each call of hz_os_now_us adds `wall_us` to the real time, beyond what earlier calls have added, and each
   call of hz_os_usage_get returns `used` more than the call before; NULL: it returns false. wall_us = 0: the clocks are
   the real ones again. Any thread. */
void hz_os_faulty_pace(uint64_t wall_us, const struct hz_os_usage *used);

/* The real functions, which have these names in the faulty build only. */
void *hz_os_linux_reserve(size_t bytes, size_t alignment);
bool hz_os_linux_commit(void *address, size_t bytes);
void *hz_os_linux_map(size_t bytes, size_t alignment, bool lazy);
void *hz_os_linux_map_zero(size_t bytes, size_t alignment);
int hz_os_linux_collapse(void *address, size_t bytes);
bool hz_os_linux_purge(void *address, size_t bytes);
bool hz_os_linux_renew(void *address, size_t bytes);
bool hz_os_linux_unmap(void *address, size_t bytes);
bool hz_os_linux_close(void *address, size_t bytes);
bool hz_os_linux_fill(void *address, size_t bytes);
void *hz_os_linux_remap(void *address, size_t old_bytes, size_t new_bytes, void *target);
uint64_t hz_os_linux_now_us(void);
bool hz_os_linux_usage_get(struct hz_os_usage *usage);

#endif
