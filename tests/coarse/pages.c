/*
 * pages.c - a kernel with system pages of HZ_TEST_PAGE_BYTES, for LD_PRELOAD. The C library's calls of memory mapping
 * and its page size are replaced: an address that is no multiple of the large page is refused with EINVAL, a length is
 * rounded up, and each new mapping starts at a multiple. So code that assumes 4 KiB fails, or hits its neighbour.
 *
 * Unlike in a kernel that really has such pages, touching a page brings in only 4 KiB.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
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

static void *kernel_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
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
        (void)syscall(SYS_munmap, wide, (size_t)(start - wide));
    (void)syscall(SYS_munmap, behind, (size_t)(wide + length + page_bytes - behind));
    if (mapped == MAP_FAILED) {
        int saved = errno;
        (void)syscall(SYS_munmap, start, length);
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
    return is_whole(address) ? (int)syscall(SYS_munmap, address, round_up(length)) : refuse();
}

int mprotect(void *address, size_t length, int protection) {
    return is_whole(address) ? (int)syscall(SYS_mprotect, address, round_up(length), protection) : refuse();
}

int madvise(void *address, size_t length, int advice) {
    return is_whole(address) ? (int)syscall(SYS_madvise, address, round_up(length), advice) : refuse();
}

int mincore(void *address, size_t length, unsigned char *flags) {
    if (!is_whole(address))
        return refuse();
    for (size_t page = 0; page * page_bytes < length; page++) {
        unsigned char small[HZ_TEST_PAGE_BYTES / SMALL_PAGE];
        if (syscall(SYS_mincore, (char *)address + page * page_bytes, page_bytes, small) != 0)
            return -1;
        flags[page] = memchr(small, 1, sizeof(small)) != NULL;
    }
    return 0;
}

void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *target = va_arg(more, void *);
    va_end(more);
    int is_fixed = (flags & MREMAP_FIXED) != 0;
    if (!is_whole(address) || (is_fixed && !is_whole(target))) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    if (!is_fixed && (flags & MREMAP_MAYMOVE) != 0) { /* for glibc itself */
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mremap, address, round_up(old_length), round_up(new_length), flags, target);
}

int getpagesize(void) {
    return HZ_TEST_PAGE_BYTES;
}

long sysconf(int name) {
    if (name == _SC_PAGESIZE)
        return HZ_TEST_PAGE_BYTES;
    long (*next)(int);
    void *symbol = dlsym(RTLD_NEXT, "sysconf");
    memcpy(&next, &symbol, sizeof(next));
    return next(name);
}
