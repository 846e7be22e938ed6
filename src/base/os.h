/*
 * os.h - the contract with the operating system. os_linux.c implements it; os_faulty.c does too, for tests, failing
 * calls on request.
 *
 * Units: bytes. Addresses and sizes are multiples of hz_os_page_bytes() unless said otherwise; alignments are powers of
 * two. No function allocates from the heap, and none changes errno. Callable on any thread, before any initialisation;
 * none is a cancellation point, but hz_os_write.
 */
#ifndef HZ_BASE_OS_H
#define HZ_BASE_OS_H

#include "base/compiler.h"

/* Reserves address space: aligned to `alignment`, neither readable nor counted as memory. NULL when refused. */
void *hz_os_reserve(size_t bytes, size_t alignment);

/* Makes reserved space readable and writable; its contents are zero. False when refused (nothing changed). */
bool hz_os_commit(void *address, size_t bytes);

/* Reserve and commit in one; for tables, `lazy` asks the OS not to count what is never touched. NULL when refused. */
void *hz_os_map(size_t bytes, size_t alignment, bool lazy);

/* Readable space that is zero, and costs nothing until hz_os_commit makes parts of it writable: for large tables. Left
 * out of core dumps. NULL when refused. */
void *hz_os_map_zero(size_t bytes, size_t alignment);

/* Asks for no huge pages here: the range is touched sparsely. A hint, cannot fail. */
void hz_os_sparse(void *address, size_t bytes);

/* Gives the memory back; the range stays readable and writable and reads as zero. The resident size falls at once.
   False when refused: the contents are then undefined, but not zero. */
bool hz_os_purge(void *address, size_t bytes);

/* Ends a mapping or a part of one. False when refused (it can be: splitting a mapping needs a free slot). */
bool hz_os_unmap(void *address, size_t bytes);

/* Resizes a mapping in place or, when `target` is not NULL, moves it onto the reserved range there. NULL when refused.
 */
void *hz_os_remap(void *address, size_t old_bytes, size_t new_bytes, void *target);

/* The system's page size: 4 to 64 KiB. */
size_t hz_os_page_bytes(void);

/* CPUs that the calling thread may run on, 1 at least. */
uint32_t hz_os_cpu_count(void);

/* Divides the CPUs that the calling thread may run on into groups of neighbours, `most` (1..256) at the most: into
   group[cpu % room]; other CPUs get some group, too. Returns the number of groups, 1 at least. */
uint32_t hz_os_cpu_groups(uint8_t *group, size_t room, uint32_t most);

/* The CPU that the calling thread runs on, or did a moment ago. Cheap where the C library or the kernel's vDSO knows it
   (glibc from 2.35 on; x86-64), else a system call. */
uint32_t hz_os_cpu(void);

/* RLIMIT_AS in bytes, SIZE_MAX when unlimited. */
size_t hz_os_address_space_limit(void);

/* Monotonic time in milliseconds, cheap and coarse (some milliseconds). */
uint64_t hz_os_now_ms(void);

/* Sleeps while *word == expected; may return early. Wakes up to `count` sleepers. */
void hz_os_wait(const void *word, uint32_t expected);
void hz_os_wake(const void *word, int count);

/* Writes all bytes to the descriptor. 0, or an errno value. */
int hz_os_write(int fd, const char *text, size_t length);

/* Value of an environment variable, NULL when unset. Diagnostics only: behaviour is compiled in. */
const char *hz_os_getenv(const char *name);

#endif
