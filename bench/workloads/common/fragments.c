/*
 * fragments.c - see fragments.h.
 */
#define _GNU_SOURCE
#include "fragments.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine.h"

enum { PAGE_BYTES = 4096, KEPT_EVERY = 64, STEP_BYTES = 2 << 20, MIB_SHIFT = 20, LEFT_WHOLE_MIB = 512 };

/* MemFree, not MemAvailable: the page cache stays. */
static uint64_t free_mib(void) {
    static char text[1024];
    int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (bytes <= 0)
        machine_fail("cannot read /proc/meminfo: %s", strerror(errno));
    close(fd);
    text[bytes] = '\0';
    const char *line = strstr(text, "MemFree:");
    if (line == NULL)
        machine_fail("/proc/meminfo has no line MemFree");
    return strtoull(line + sizeof "MemFree:" - 1, NULL, 10) >> 10;
}

static void be_the_first_to_go(void) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        /* without it the kernel chooses by size, which is the child's too */
        ssize_t ignored = write(fd, "1000", 4);
        (void)ignored;
        close(fd);
    }
}

static void break_memory(uint64_t bytes) {
    if (bytes == 0)
        return;
    unsigned char *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        machine_fail("cannot map %" PRIu64 " MiB: %s", bytes >> MIB_SHIFT, strerror(errno));
    madvise(memory, bytes, MADV_NOHUGEPAGE); /* fails on kernels without huge pages, where nothing is to be refused */
    for (uint64_t at = 0; at < bytes; at += PAGE_BYTES)
        memory[at] = 1;
    for (uint64_t at = 0; at < bytes; at += (uint64_t)KEPT_EVERY * PAGE_BYTES)
        if (madvise(memory + at + PAGE_BYTES, (KEPT_EVERY - 1) * PAGE_BYTES, MADV_DONTNEED) != 0)
            machine_fail("cannot give memory back: %s", strerror(errno));
}

static _Noreturn void child_main(uint64_t bytes, int ready_fd, int end_fd) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    be_the_first_to_go();
    break_memory(bytes);
    char byte = 0;
    if (write(ready_fd, &byte, 1) != 1)
        _exit(1);
    ssize_t got = read(end_fd, &byte, 1); /* until the parent closes its end */
    _exit(got == 0 ? 0 : 1);
}

void fragments_open(struct fragments *fragments, uint64_t most_mib) {
    uint64_t all_mib = free_mib();
    uint64_t mib = all_mib > LEFT_WHOLE_MIB ? all_mib - LEFT_WHOLE_MIB : 0;
    uint64_t bytes = ((mib < most_mib ? mib : most_mib) << MIB_SHIFT) / STEP_BYTES * STEP_BYTES;
    int ready[2];
    int end[2];
    if (pipe2(ready, O_CLOEXEC) != 0 || pipe2(end, O_CLOEXEC) != 0)
        machine_fail("cannot make a pipe: %s", strerror(errno));
    fragments->child = fork();
    if (fragments->child < 0)
        machine_fail("cannot fork: %s", strerror(errno));
    if (fragments->child == 0) {
        close(ready[0]);
        close(end[1]);
        child_main(bytes, ready[1], end[0]);
    }
    close(ready[1]);
    close(end[0]);
    fragments->end_fd = end[1];
    fragments->broken_mib = bytes >> MIB_SHIFT;
    fragments->held_mib = (bytes / KEPT_EVERY) >> MIB_SHIFT;
    char byte;
    if (read(ready[0], &byte, 1) != 1)
        machine_fail("fragment: the process that breaks memory ended early");
    close(ready[0]);
}

void fragments_close(struct fragments *fragments) {
    int status;
    close(fragments->end_fd);
    if (waitpid(fragments->child, &status, 0) != fragments->child || status != 0)
        machine_fail("fragment: the process that breaks memory ended badly");
}
