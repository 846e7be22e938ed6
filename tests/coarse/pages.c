/*
 * pages.c - a kernel with system pages of HZ_TEST_PAGE_BYTES, for LD_PRELOAD. The C library's calls of memory mapping
 * and its page size are replaced, and so is syscall(), by which the library's builds with assertions call the kernel
 * (base/os/syscall.h): an address that is no multiple of the large page is refused with EINVAL, a length is rounded up,
 * and each new mapping starts at a multiple. So code that assumes 4 KiB fails, or hits its neighbour.
 *
 * Unlike in a kernel that really has such pages, touching a page brings in only 4 KiB.
 */
#define _GNU_SOURCE
#include "base/os/syscall.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL_PAGE = 4096 };

static const size_t page_bytes = HZ_TEST_PAGE_BYTES;

static size_t round_up(size_t length) {
    return (length + page_bytes - 1) & ~(page_bytes - 1);
}

static int is_whole(const void *address) {
    return (uintptr_t)address % page_bytes == 0;
}

static int refuse(void) {
    errno = EINVAL;
    return -1;
}

/* The real kernel's answer, as the C library's functions give it. */
static long kernel(long number, long a, long b, long c, long d, long e, long f) {
    long result = hz_syscall6(number, a, b, c, d, e, f);
    if (!hz_syscall_failed(result))
        return result;
    errno = (int)-result;
    return -1;
}

static void *kernel_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return (void *)kernel(SYS_mmap, (long)address, (long)length, protection, flags, fd, offset);
}

static int kernel_munmap(void *address, size_t length) {
    return (int)kernel(SYS_munmap, (long)address, (long)length, 0, 0, 0, 0);
}

/* Maps more, and cuts off what lies outside the large pages. */
static void *map_aligned(void *hint, size_t length, int protection, int flags, int fd, off_t offset) {
    char *wide = kernel_mmap(hint, length + page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (wide == MAP_FAILED)
        return MAP_FAILED;
    char *start = (char *)round_up((uintptr_t)wide);
    char *behind = start + length;
    void *mapped = kernel_mmap(start, length, protection, flags | MAP_FIXED, fd, offset);
    if (start != wide)
        (void)kernel_munmap(wide, (size_t)(start - wide));
    (void)kernel_munmap(behind, (size_t)(wide + length + page_bytes - behind));
    if (mapped == MAP_FAILED) {
        int saved = errno;
        (void)kernel_munmap(start, length);
        errno = saved;
    }
    return mapped;
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    if ((uint64_t)offset % page_bytes != 0) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    size_t whole = (flags & MAP_ANONYMOUS) != 0 ? round_up(length) : length;
    if (length == 0 || whole < length) /* the kernel returns the right error */
        return kernel_mmap(address, length, protection, flags, fd, offset);
    if ((flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == 0)
        return map_aligned(address, whole, protection, flags, fd, offset);
    if (!is_whole(address)) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return kernel_mmap(address, whole, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return mmap(address, length, protection, flags, fd, offset);
}

int munmap(void *address, size_t length) {
    return is_whole(address) ? kernel_munmap(address, round_up(length)) : refuse();
}

int mprotect(void *address, size_t length, int protection) {
    if (!is_whole(address))
        return refuse();
    return (int)kernel(SYS_mprotect, (long)address, (long)round_up(length), protection, 0, 0, 0);
}

/* One advice is for a page of the library's own data, which the linker aligns to this processor's small page: a whole
   large page there would have other data in it, too. */
int madvise(void *address, size_t length, int advice) {
    if (advice == MADV_WIPEONFORK && length == page_bytes)
        return (int)kernel(SYS_madvise, (long)address, SMALL_PAGE, advice, 0, 0, 0);
    if (!is_whole(address))
        return refuse();
    return (int)kernel(SYS_madvise, (long)address, (long)round_up(length), advice, 0, 0, 0);
}

int mincore(void *address, size_t length, unsigned char *flags) {
    if (!is_whole(address))
        return refuse();
    for (size_t page = 0; page * page_bytes < length; page++) {
        unsigned char small[HZ_TEST_PAGE_BYTES / SMALL_PAGE];
        if (kernel(SYS_mincore, (long)((char *)address + page * page_bytes), (long)page_bytes, (long)small, 0, 0, 0) !=
            0)
            return -1;
        flags[page] = memchr(small, 1, sizeof(small)) != NULL;
    }
    return 0;
}

static void *remap(void *address, size_t old_length, size_t new_length, int flags, void *target) {
    int is_fixed = (flags & MREMAP_FIXED) != 0;
    if (!is_whole(address) || (is_fixed && !is_whole(target))) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    if (!is_fixed && (flags & MREMAP_MAYMOVE) != 0) { /* for glibc itself */
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)kernel(SYS_mremap, (long)address, (long)round_up(old_length), (long)round_up(new_length), flags,
                          (long)target, 0);
}

void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *target = va_arg(more, void *);
    va_end(more);
    return remap(address, old_length, new_length, flags, target);
}

long syscall(long number, ...) {
    va_list more;
    va_start(more, number);
    long a = va_arg(more, long), b = va_arg(more, long), c = va_arg(more, long);
    long d = va_arg(more, long), e = va_arg(more, long), f = va_arg(more, long);
    va_end(more);
    switch (number) {
    case SYS_mmap:
        return (long)mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, f);
    case SYS_munmap:
        return munmap((void *)a, (size_t)b);
    case SYS_mprotect:
        return mprotect((void *)a, (size_t)b, (int)c);
    case SYS_madvise:
        return madvise((void *)a, (size_t)b, (int)c);
    case SYS_mincore:
        return mincore((void *)a, (size_t)b, (unsigned char *)c);
    case SYS_mremap:
        return (long)remap((void *)a, (size_t)b, (size_t)c, (int)d, (void *)e);
    default:
        return kernel(number, a, b, c, d, e, f);
    }
}

int getpagesize(void) {
    return HZ_TEST_PAGE_BYTES;
}

static void *next_of(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

unsigned long getauxval(unsigned long type) {
    if (type == AT_PAGESZ)
        return HZ_TEST_PAGE_BYTES;
    unsigned long (*next)(unsigned long);
    void *symbol = next_of("getauxval");
    memcpy(&next, &symbol, sizeof(next));
    return next(type);
}

long sysconf(int name) {
    if (name == _SC_PAGESIZE)
        return HZ_TEST_PAGE_BYTES;
    long (*next)(int);
    void *symbol = next_of("sysconf");
    memcpy(&next, &symbol, sizeof(next));
    return next(name);
}
