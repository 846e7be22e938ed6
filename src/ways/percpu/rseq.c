/*
 * rseq.c - see rseq.h.
 */
#include "rseq.h"

#include "base/os/os.h"
#include "base/os/syscall.h"

#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

/* Of the kernel's interface, which the headers may lack. */
enum {
    RSEQ_FEATURE_SIZE = 27,          /* AT_RSEQ_FEATURE_SIZE, Linux 6.3 */
    RSEQ_FENCE = 1 << 7,             /* MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, Linux 5.10 */
    RSEQ_FENCE_REGISTRATION = 1 << 8 /* MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ */
};

/* Releases as 1000 * major + minor. */
enum {
    RELEASE_UNIT = 1000,
    RELEASE_WITH_RSEQ = 4018,
    RELEASE_BROKEN_ON_ARM64 = 6019, /* from here on */
};

/* glibc 2.35 and later. The size is 0 when glibc has not registered threads (GLIBC_TUNABLES=glibc.pthread.rseq=0, an
   old kernel, an emulator). */
extern const ptrdiff_t __rseq_offset __attribute__((weak, visibility("default")));
extern const unsigned __rseq_size __attribute__((weak, visibility("default")));

static bool threads_are_registered(void) {
    return HZ_RSEQ_IS_BUILT && &__rseq_offset != NULL && &__rseq_size != NULL && __rseq_size != 0;
}

bool hz_rseq_is_sound_on_arm64(const char *release) {
    char *minor;
    unsigned long number = strtoul(release, &minor, 10) * RELEASE_UNIT;
    if (*minor != '.')
        return false;
    number += strtoul(minor + 1, NULL, 10);
    return number >= RELEASE_WITH_RSEQ && number < RELEASE_BROKEN_ON_ARM64;
}

static bool kernel_is_sound(void) {
    struct utsname name;
    return !HZ_RSEQ_IS_ARM64 ||
           (!hz_os_is_confined() && HZ_SYSCALL(SYS_uname, &name, 0, 0) == 0 && hz_rseq_is_sound_on_arm64(name.release));
}

bool hz_rseq_is_usable(void) {
    return threads_are_registered() && kernel_is_sound();
}

uint32_t *hz_rseq_area(void) {
    if (!threads_are_registered())
        return NULL;
    uint32_t *area = (uint32_t *)(void *)(hz_thread_pointer() + __rseq_offset);
    /* the kernel writes it; a thread that glibc does not know has a large number */
    return *(volatile uint32_t *)&area[HZ_RSEQ_CPU_ID_AT / sizeof(*area)] < HZ_CPUS ? area : NULL;
}

/* Before glibc 2.40 the size can be 32, the area's length, whatever the kernel writes. Nothing of the calling thread is
   looked at: see hz_rseq_number_at. */
size_t hz_rseq_area_bytes(void) {
    return threads_are_registered() ? hz_min(__rseq_size, getauxval(RSEQ_FEATURE_SIZE)) : 0;
}

static bool fence_call(int command) {
    return !hz_os_is_confined() && HZ_SYSCALL(SYS_membarrier, command, 0, 0) == 0;
}

bool hz_rseq_fence_prepare(void) {
    return fence_call(RSEQ_FENCE_REGISTRATION);
}

bool hz_rseq_fence(void) {
    return fence_call(RSEQ_FENCE);
}
