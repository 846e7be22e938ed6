/*
 * rseq.c - see rseq.h. Called by cpu_bins.c.
 */
#include "rseq.h"

#include "base/os.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RSEQ_FEATURE_SIZE = 27 }; /* AT_RSEQ_FEATURE_SIZE of Linux 6.3 */

/* glibc 2.35 and later. The size is 0 when glibc has not registered threads (GLIBC_TUNABLES=glibc.pthread.rseq=0, an
   old kernel, an emulator). */
extern const ptrdiff_t __rseq_offset __attribute__((weak, visibility("default")));
extern const unsigned __rseq_size __attribute__((weak, visibility("default")));

uint32_t *hz_rseq_area(void) {
    if (!HZ_RSEQ_IS_BUILT || &__rseq_offset == NULL || &__rseq_size == NULL || __rseq_size == 0)
        return NULL;
    uint32_t *area = (uint32_t *)(void *)(hz_rseq_thread_pointer() + __rseq_offset);
    /* the kernel writes it; a thread that glibc does not know has a large number */
    return *(volatile uint32_t *)&area[HZ_RSEQ_CPU_ID_AT / sizeof(*area)] < HZ_CPUS ? area : NULL;
}

/* Before glibc 2.40 the size can be 32, the area's length, whatever the kernel writes. */
size_t hz_rseq_area_bytes(void) {
    return hz_rseq_area() != NULL ? hz_min(__rseq_size, getauxval(RSEQ_FEATURE_SIZE)) : 0;
}

static bool fence_call(int command) {
    int saved = errno;
    bool done = !hz_os_is_confined() && syscall(SYS_membarrier, command, 0, 0) == 0;
    errno = saved;
    return done;
}

bool hz_rseq_fence_prepare(void) {
    return fence_call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ);
}

bool hz_rseq_fence(void) {
    return fence_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ);
}
