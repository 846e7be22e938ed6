/*
 * altering.h - which system calls change what a process may do with memory, or what the kernel does with it, so that
 * the next owner of the memory would notice.
 */
#ifndef HZ_FRONT_ALTERING_H
#define HZ_FRONT_ALTERING_H

#include "base/arena/attributes.h"
#include "base/map/altered.h"
#include "base/os/syscall.h"

#include <sys/mman.h>

/* The headers of older kernels lack these. The numbers of calls are the same on all processors. */
enum {
    HZ_CALL_SET_MEMPOLICY_HOME_NODE = 450,
    HZ_CALL_MSEAL = 462,
    HZ_ADVICE_COLD = 20,
    HZ_ADVICE_COLLAPSE = 25,
    HZ_ADVICE_POISON = 100,
    HZ_ADVICE_OFFLINE = 101,
    HZ_ADVICE_UNGUARD = 103,
};

/* Whether the next owner of the memory would notice this advice. Advice about the contents, or that takes other advice
   back, leaves nothing to notice. All other advice counts, also that of later kernels. */
HZ_INLINE bool hz_advice_alters(long advice) {
    switch (advice) {
    case MADV_NORMAL:
    case MADV_WILLNEED:
    case MADV_DONTNEED:
    case MADV_FREE:
    case MADV_REMOVE:
    case MADV_DOFORK:
    case MADV_UNMERGEABLE:
    case MADV_DODUMP:
    case MADV_KEEPONFORK:
    case HZ_ADVICE_POISON:
    case HZ_ADVICE_OFFLINE:
    case HZ_ADVICE_UNGUARD:
        return false;
    default:
        return advice < HZ_ADVICE_COLD || advice > HZ_ADVICE_COLLAPSE;
    }
}

/* Before the program makes a system call: notes the memory that the call alters, if it is ours. */
HZ_INLINE void hz_altering_note(long number, long first, long second, long third, long fourth, long fifth) {
    switch (number) {
    case SYS_mprotect:
        if (third == (PROT_READ | PROT_WRITE)) /* as our memory is; what was noted before stays noted */
            return;
        break;
    case SYS_madvise:
        if (!hz_advice_alters(third))
            return;
        break;
    case SYS_mmap:
        if ((fourth & MAP_FIXED) == 0)
            return;
        break;
    case SYS_mremap:
        if ((fourth & MREMAP_FIXED) != 0)
            hz_attributes_note((const void *)fifth, (size_t)third); /* NOLINT(performance-no-int-to-ptr) */
        break;
    case SYS_mlockall:
        hz_altered_lock_set((first & MCL_FUTURE) != 0);
        return;
    case SYS_munlockall:
        hz_altered_lock_set(false);
        return;
    case SYS_munmap:
    case SYS_mlock:
    case SYS_mlock2:
    case SYS_pkey_mprotect:
    case SYS_mbind:
    case HZ_CALL_SET_MEMPOLICY_HOME_NODE:
    case HZ_CALL_MSEAL:
        break;
    default:
        return;
    }
    hz_attributes_note((const void *)first, (size_t)second); /* NOLINT(performance-no-int-to-ptr) */
}

#endif
