/*
 * os_faulty.h - the switch of os_faulty.c, for tests: makes OS calls fail.
 *
 * Only in libraries compiled with HZ_OS_FAULTY=1; there the calls of os.h that can be refused (reserve, commit, map,
 * map_zero, purge, unmap, remap) are counted, and the chosen ones fail without doing anything.
 */
#ifndef HZ_BASE_OS_FAULTY_H
#define HZ_BASE_OS_FAULTY_H

#include "base/compiler.h"

/* From now on let `after` calls through, then fail `count` calls (UINT64_MAX: all). after = UINT64_MAX: none fails. Any
 * thread. */
void hz_os_faulty_fail(uint64_t after, uint64_t count);

/* Calls seen since the last hz_os_faulty_fail, and how many of them failed. */
uint64_t hz_os_faulty_calls(void);
uint64_t hz_os_faulty_failures(void);

/* The real ones, named so in the faulty build only. */
void *hz_os_linux_reserve(size_t bytes, size_t alignment);
bool hz_os_linux_commit(void *address, size_t bytes);
void *hz_os_linux_map(size_t bytes, size_t alignment, bool lazy);
void *hz_os_linux_map_zero(size_t bytes, size_t alignment);
bool hz_os_linux_purge(void *address, size_t bytes);
bool hz_os_linux_unmap(void *address, size_t bytes);
void *hz_os_linux_remap(void *address, size_t old_bytes, size_t new_bytes, void *target);

#endif
