/*
 * machine.c - see machine.h. Nothing here allocates between machine_stdout_prepare and the end of main.
 */
#define _GNU_SOURCE
#include "machine.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static unsigned short g_cpus[CPU_SETSIZE]; /* const after machine_cpus_read */
static unsigned g_cpu_count;

uint64_t machine_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void machine_cpus_read(void) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        machine_fail("sched_getaffinity: %s", strerror(errno));
    }
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed)) {
            g_cpus[g_cpu_count++] = (unsigned short)cpu;
        }
    }
}

void machine_pin(unsigned index) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(g_cpus[index % g_cpu_count], &one);
    int error = pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    if (error != 0) {
        machine_fail("cannot bind thread %u to cpu %u: %s", index, g_cpus[index % g_cpu_count], strerror(error));
    }
}

void *machine_map(size_t count, size_t bytes_each) {
    size_t bytes;
    if (__builtin_mul_overflow(count, bytes_each, &bytes)) {
        machine_fail("a table of %zu x %zu bytes does not fit into memory", count, bytes_each);
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        machine_fail("cannot map %zu bytes for the workload's own tables: %s", bytes, strerror(errno));
    }
    return memory;
}

void machine_unmap(void *memory, size_t count, size_t bytes_each) {
    if (munmap(memory, count * bytes_each) != 0) {
        machine_fail("cannot unmap %zu bytes of the workload's own tables: %s", count * bytes_each, strerror(errno));
    }
}

void machine_print_malloc_source(void) {
    /* dlsym, not &malloc: in a program that is not position-independent, &malloc is a stub in the program itself */
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    int found = symbol != NULL && dladdr(symbol, &info) != 0 && info.dli_fname != NULL;
    printf("malloc_from=%s\n", found ? info.dli_fname : "unknown");
}

uint64_t machine_status_kb(const char *key) {
    char status[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, status, sizeof status - 1);
    if (length < 0) {
        machine_fail("cannot read /proc/self/status: %s", strerror(errno));
    }
    close(fd);
    status[length] = '\0';
    for (const char *at = strstr(status, key); at != NULL; at = strstr(at + 1, key)) {
        if (at == status || at[-1] == '\n') {
            return strtoull(at + strlen(key), NULL, 10);
        }
    }
    machine_fail("/proc/self/status has no %s", key);
}

void machine_print_rss(void) {
    uint64_t final_kb = machine_status_kb("VmRSS:");
    uint64_t peak_kb = machine_status_kb("VmHWM:"); /* read last, because reading VmRSS may itself touch a page */
    printf("peak_rss_kb=%" PRIu64 "\n", peak_kb);
    printf("final_rss_kb=%" PRIu64 "\n", final_kb);
}

void machine_stdout_prepare(void) {
    static char buffer[16384];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
}

_Noreturn void machine_fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    _exit(1);
}

void machine_require_equal(const char *identity, uint64_t left, uint64_t right) {
    if (left != right) {
        machine_fail("accounting identity broken: %s: %" PRIu64 " is not %" PRIu64, identity, left, right);
    }
}
