/*
 * os.h - the contract with the operating system. os_linux.c implements it. So does os_faulty.c, which fails calls on
 * request, for tests.
 *
 * Units: bytes. Addresses and sizes are multiples of hz_os_page_bytes() unless a comment says otherwise; alignments are
 * powers of two. All memory lies below 2^HZ_ADDRESS_BITS: where the OS would put it higher, the call fails. No
 * function allocates from the heap or changes errno. Any thread can call them before anything is initialised. None is a
 * cancellation point.
 */
#ifndef HZ_BASE_OS_OS_H
#define HZ_BASE_OS_OS_H

#include "base/os/compiler.h"

/* Reserves address space, aligned to `alignment`, that is neither readable nor counted as memory. NULL when refused. */
void *hz_os_reserve(size_t bytes, size_t alignment);

/* Makes reserved space, or a part of what hz_os_map_zero has mapped, readable and writable; it reads as zero. Memory
   that was committed before and holds data must not be committed again. False when refused, with nothing changed. */
bool hz_os_commit(void *address, size_t bytes);

/* Reserves and commits. With `lazy`, for tables, the OS need not count what is never touched; a confined process cannot
   ask for that. NULL when refused. */
void *hz_os_map(size_t bytes, size_t alignment, bool lazy);

/* For large tables: readable space that is zero, and costs nothing until hz_os_commit makes parts of it writable. Left
   out of core dumps. NULL when refused. */
void *hz_os_map_zero(size_t bytes, size_t alignment);

/* Leaves a range out of core files, and puts it in again. gdb's gcore writes reserved space too, as zeros, unless it is
   left out. Hints, so they cannot fail; a confined process cannot give them. */
void hz_os_hide(void *address, size_t bytes);
void hz_os_show(void *address, size_t bytes);

/* Names a range in /proc/PID/smaps, where the kernel has such names (Linux 5.17 and later, if it is built so). Names
   wait until it is known whether the process has a filter (hz_os_unfiltered). A hint, so it cannot fail. What is
   mapped anew loses its name; neighbours of different names are two mappings. `name`: a constant string. */
#define HZ_NAME_BLOCKS  "hakozuna: blocks"
#define HZ_NAME_TABLES  "hakozuna: tables"
#define HZ_NAME_PROFILE "hakozuna: profile"
#define HZ_NAME_GUARD   "hakozuna: guarded blocks"
void hz_os_name(void *address, size_t bytes, const char *name);

/* Asks for no huge pages in a range that is touched sparsely. A hint, so it cannot fail. */
void hz_os_sparse(void *address, size_t bytes);

/* Asks for huge pages in a range. In one of hz_os_map_zero, of zeros, all of it can then be read or locked with few
   page faults; what is committed there later needs hz_os_sparse. A hint, so it cannot fail. */
void hz_os_huge(void *address, size_t bytes);

/* Lets a fork's child find zeros in a range, and no memory. A hint, so it cannot fail. */
void hz_os_wipe_in_child(void *address, size_t bytes);

/* Collapses the small pages of a range, aligned to huge pages, into huge pages at once, whatever the kernel's setting.
   The contents stay, and all of the range becomes resident. Returns 0 or an errno value: EINVAL if the kernel cannot
   do this here (before Linux 6.1, or after hz_os_sparse), another value if it cannot do it now. */
int hz_os_collapse(void *address, size_t bytes);

/* Gives the memory back immediately. The range stays readable and writable, and reads as zero. False when refused; the
   contents are undefined then, and need not be zero. */
bool hz_os_purge(void *address, size_t bytes);

/* Maps accessible memory anew: it is empty, reads as zero, and what the kernel was told about it is forgotten. False
   when refused; then it is as it was. A confined process can only give the memory back and make it accessible. */
bool hz_os_renew(void *address, size_t bytes);

/* Ends a mapping or a part of one. False when refused: cutting out the middle makes two mappings of one, and their
   number is limited. */
bool hz_os_unmap(void *address, size_t bytes);

/* The same for the whole system pages in [start, behind), of which there may be none. If refused, they stay. */
void hz_os_unmap_within(const void *start, const void *behind);

/* The reverse of hz_os_commit: gives the memory back, and makes the range reserved space again. False when refused. */
bool hz_os_close(void *address, size_t bytes);

/* Sets whether a range of a file's private mapping can be written and executed; it stays readable. False when refused.
 */
bool hz_os_protect(void *address, size_t bytes, bool is_writable, bool is_executable);

/* Maps readable and writable memory at an address where nothing is mapped. False when refused, or when something is. */
bool hz_os_fill(void *address, size_t bytes);

/* Whether the user address space reaches beyond this address. True when unknown (hz_os_confine). Up to three system
   calls. */
bool hz_os_has_address(uintptr_t address);

/* Resizes a mapping in place, or moves it onto the reserved range at `target` if that is not NULL. NULL when refused,
   with the mapping unchanged; the target is no longer the caller's then. */
void *hz_os_remap(void *address, size_t old_bytes, size_t new_bytes, void *target);

/* Bytes of the range that are in memory now. Where nothing is mapped, and in a process that may be filtered, none are.
   A system call for each 4 MiB or so; for statistics. */
size_t hz_os_resident_bytes(const void *address, size_t bytes);

/* Stores a bit for each system page of the range, at most 1024, that is in memory now. False if that is not known, as
   in a process that may be filtered. A system call. */
bool hz_os_resident_map(const void *address, size_t bytes, uint64_t *bits);

/* The CPUs on which a thread may run, one bit each in `mask`, which has room for 64 * words of them; 0: the calling
   thread. Returns their number; 0 when the kernel does not say, or has more CPUs than that, or the process is confined;
   the mask is empty then. A system call. */
size_t hz_os_affinity(uint32_t thread_id, uint64_t *mask, size_t words);

/* The system's page size: 4 to 64 KiB. */
size_t hz_os_page_bytes(void);

/* The CPU that the calling thread runs on, or ran on a moment ago. A load with glibc from 2.35 on, cheap where the
   kernel's vDSO knows it (x86-64), otherwise a system call. */
uint32_t hz_os_cpu(void);

/* RLIMIT_AS in bytes; SIZE_MAX when unlimited or unknown (hz_os_confine). */
size_t hz_os_address_space_limit(void);

/* The bytes to which the program can raise RLIMIT_AS without more rights, at most 32 times the soft limit, since the
 * tables count against it. SIZE_MAX: no limit, or unknown. */
size_t hz_os_address_space_reach(void);

/* The hard limit of RLIMIT_DATA, up to which the program may raise its soft one; SIZE_MAX if there is none, or it is
   not known (hz_os_confine). */
size_t hz_os_data_limit(void);

/* Milliseconds since the system was started, including the time for which it was suspended; 0 when unknown. */
uint64_t hz_os_uptime_ms(void);

/* Monotonic time in milliseconds. Cheap and coarse: it advances in steps of some milliseconds. */
uint64_t hz_os_now_ms(void);

/* Monotonic time in microseconds, for durations. Costs about 30 ns where the kernel's vDSO knows it. */
uint64_t hz_os_now_us(void);

/* Nanoseconds since 1970, by the system's clock; 0 when unknown. */
uint64_t hz_os_date_ns(void);

/* What a thread has used since its start. In an interval without a sleep, whatever was not CPU time was spent waiting
   for a CPU. */
struct hz_os_usage {
    uint64_t cpu_us; /* microseconds on a CPU, in the program and in the kernel */
    uint64_t sleeps; /* how often it has waited for anything but a CPU */
};

/* What the calling thread has used. Makes two system calls, which a filter might forbid. So it returns false, without a
   call, until hz_os_usage_begin, and for good after hz_os_usage_end or hz_os_confine, even if a late hz_os_usage_begin
   follows. Any thread. */
bool hz_os_usage_get(struct hz_os_usage *usage);
void hz_os_usage_begin(void); /* the process has no filter, and says before it gets one */
void hz_os_usage_end(void);

/* The kernel's id of the calling thread, which differs in a fork's child. Comes from the C library's memory, without a
   system call. */
uint32_t hz_os_thread_id(void);

/* Whether the calling thread is the process's first one. Call it in a constructor or a fork's child: in a process with
   one thread it makes no system call. */
bool hz_os_is_first_thread(void);

/* Whether the process has one thread, as far as the C library knows. Where the C library does not say (musl, glibc
 * before 2.32): the last note below; false before the first. */
bool hz_os_is_single_threaded(void);

/* Whether a second thread has started, as far as the C library knows; false where it does not say. */
bool hz_os_has_threads(void);

/* Notes for hz_os_is_single_threaded: the process has one thread (at load, in a fork's child); a thread is about to
 * start. */
void hz_os_note_single_thread(void);
void hz_os_note_threads(void);

/* The kernel's number of the process. A system call. */
uint32_t hz_os_process_id(void);

/* Whether the C library knows the calling thread as what it is for the kernel. Not so in a child of vfork, or of a
   clone that the C library has not seen. A system call. */
bool hz_os_thread_is_itself(void);

/* The program is about to restrict its system calls. From now on this layer makes only calls that the C library's
   malloc makes, with the same flags: mmap, munmap, mprotect, madvise with MADV_DONTNEED, futex, and write for messages.
   So it gives no hints, moves no memory, does not call membarrier, and knows nothing of limits, CPUs, files and usage.
   There is no way back, and a fork's child stays confined. Any thread. */
void hz_os_confine(void);

/* Whether hz_os_confine was called. */
bool hz_os_is_confined(void);

/* The process is known to have no filter of system calls (seccomp). */
void hz_os_unfiltered(void);

/* Whether any system call may be made: hz_os_unfiltered was called, and not hz_os_confine. Otherwise only the calls of
   glibc's malloc, of a thread's start and of the dynamic linker are safe: a filter may kill for others. */
bool hz_os_is_unfiltered(void);

/* Whether a dynamic linker has started the process, and so has opened files. */
bool hz_os_has_loader(void);

/* Reads a file in pieces, from its beginning to its end or until `take` returns false. Nothing happens if it cannot be
   read. */
void hz_os_scan_file(const char *path, bool (*take)(void *context, const char *text, size_t length), void *context);

/* Reads the beginning of a file as a string: at most room - 1 bytes, "" when it cannot be read. */
void hz_os_read_file(const char *path, char *text, size_t room);

struct hz_os_mapping {
    uintptr_t below_end; /* where the mapping below ends; 0: there is none */
    uintptr_t begin, end;
};

/* The mapping that has the address, as /proc says. False when that is not known. Takes no lock. */
bool hz_os_mapping_of(uintptr_t address, struct hz_os_mapping *mapping);

/* Most bytes of the first thread's stack; SIZE_MAX: no limit, or not known. */
size_t hz_os_stack_limit(void);

/* hz_os_barrier makes each running thread of the process pass a full memory barrier before the call returns. Call
   hz_os_barrier_prepare once in each process before. It asks the kernel for membarrier, unless a filter might forbid
   that; `ask` says that none does. On most x86-64 processors there is a way without it. False when there is none. */
bool hz_os_barrier_prepare(bool ask);
bool hz_os_barrier(void);

/* Gives the calling thread a table of files of its own, which is empty. What it opens then is not seen by other
   threads, which may close any number at any time. Returns 0, or an errno value if it cannot be done: ENOSYS before
   Linux 5.9, and in a process that may be filtered unless `ask` says to try. For a thread of the library's own. */
int hz_os_files_own(bool ask);

/* Where the calling thread has a table of its own: a descriptor in it for a file of the process; -errno if there is
   none. hz_os_write calls it. */
int hz_os_file_borrow(int fd);

/* Blocks all signals in the calling thread, but those that the C library uses itself: of these it may have blocked
   some. Returns the mask of before, for hz_os_signals_restore. */
uint64_t hz_os_signals_block(void);
void hz_os_signals_restore(uint64_t mask);

/* The same, but for those that an instruction or a system call of the thread itself raises: the kernel ends a process
   that blocks one of these. */
uint64_t hz_os_signals_defer(void);

/* The calling thread's nice value: -20 to 19. A system call. */
int hz_os_nice(void);

/* Gives the calling thread the ordinary scheduling policy, a nice value, and the CPUs of a mask (NULL: as it is), as
   far as the kernel allows. Does nothing in a process that may be filtered. */
void hz_os_thread_ordinary(int nice, const uint64_t *cpus, size_t words);

/* Names the calling thread: up to 15 characters. Does nothing in a process that may be filtered. */
void hz_os_name_thread(const char *name);

/* Fills memory with random bytes. If the kernel refuses them, the bytes are guessable. */
void hz_os_random(void *memory, size_t bytes);

/* Wait sleeps while *word == expected, and can return early. Wake ends the sleep of up to `count` threads. */
void hz_os_wait(const void *word, uint32_t expected);
void hz_os_wait_ms(const void *word, uint32_t expected, uint32_t most_ms);
void hz_os_wake(const void *word, int count);

/* The same for a word that the kernel itself wakes (os_life.h). */
void hz_os_wait_shared(const void *word, uint32_t expected);
void hz_os_wake_shared(const void *word);

/* Writes all bytes to the descriptor. Returns 0 or an errno value. */
int hz_os_write(int fd, const char *text, size_t length);

/* A number that differs from process to process, the same for the life of the process and in its children. */
uint64_t hz_os_seed(void);

/* Stores the return addresses of the callers, innermost first, at most `room`. Returns their number. The first call may
   allocate from the heap. Later calls take no lock (gcc 12 and glibc 2.35 on). 0 where the C library cannot tell
   (musl). */
uint32_t hz_os_backtrace(void **addresses, int room);

/* Value of an environment variable; NULL when it is unset, or when the program runs with more rights than its caller
   has (AT_SECURE). For diagnostics only: behaviour is compiled in. */
const char *hz_os_getenv(const char *name);

#endif
