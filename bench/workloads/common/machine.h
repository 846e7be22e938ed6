/*
 * machine.h - the system services of a workload: time, CPUs, memory that does not come from the allocator
 * under test, the process's resident size, and the name of the library that serves malloc.
 */
#ifndef WORKLOADS_MACHINE_H
#define WORKLOADS_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* Two lines: the adjacent-line prefetcher of x86 moves lines in pairs, and a shared pair costs like a shared line. */
enum { MACHINE_LINE_BYTES = 128 };

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t machine_now_ns(void);

/* Reads the set of allowed CPUs; called once, before any machine_pin. */
void machine_cpus_read(void);

/* Binds the calling thread to the (index mod n)th of the n allowed CPUs. */
void machine_pin(unsigned index);

/* Zeroed, resident, page-aligned memory straight from the OS: the workload's own tables must neither disturb the
   allocator under test nor cause page faults within the measured time. Ends the program when there is no memory. */
void *machine_map(size_t count, size_t bytes_each);

/* Gives back what machine_map returned for the same numbers. */
void machine_unmap(void *memory, size_t count, size_t bytes_each);

/* Prints "malloc_from=<file that malloc resolves to>". The runner compares it with the library it preloaded. */
void machine_print_malloc_source(void);

/* A value of /proc/self/status in KiB; `key` is the whole key with its colon, such as "VmRSS:". */
uint64_t machine_status_kb(const char *key);

/* Prints "peak_rss_kb=" (VmHWM) and "final_rss_kb=" (VmRSS) of /proc/self/status. */
void machine_print_rss(void);

/* Gives stdout a static buffer, so that printing does not allocate. main calls this first. */
void machine_stdout_prepare(void);

/* Prints "<program>: <message>" to stderr and exits with code 1, without exit handlers (the heap may be broken). */
_Noreturn void machine_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the program through machine_fail unless both sides of the accounting identity are equal. */
void machine_require_equal(const char *identity, uint64_t left, uint64_t right);

#endif /* WORKLOADS_MACHINE_H */
