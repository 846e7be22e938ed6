/* attributes.c - changes a block's memory by calls of the kernel, gives the block back, and looks at the next owner's
   memory. Usage: attributes libc|syscall|raw quick|all. Each combination runs in a process of its own. Prints what was
   wrong, and last the number of combinations, and of those in which malloc returned an address again. `raw` makes the
   calls past the C library, and then calls malloc_trim. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOLD_BLOCKS = 3000, HOLD_BYTES = 800 << 20, BIND = 2, BY_ADDRESS = 2, WIPE = 18, GUARD = 102, ON_FAULT = 1 };
/* Of a block above LARGE_BYTES one page in LARGE_STRIDE is written and read: each costs a page fault, and attributes
   belong to whole mappings. */
enum { LARGE_BYTES = 4 << 20, LARGE_STRIDE = 16 };

enum way { BY_LIBC, BY_SYSCALL, BY_RAW };

static enum way way;
static size_t page_bytes;

/* ---- the calls ---- */

/* The C library's own definition, past everything that is preloaded. */
static long (*past)(long, ...);

static long call(long number, long a, long b, long c, long d, long e, long f) {
    return way == BY_RAW ? past(number, a, b, c, d, e, f) : syscall(number, a, b, c, d, e, f);
}

static long protect(char *start, size_t bytes, int protection) {
    return way == BY_LIBC ? mprotect(start, bytes, protection)
                          : call(SYS_mprotect, (long)start, (long)bytes, protection, 0, 0, 0);
}

static long advise(char *start, size_t bytes, int advice) {
    return way == BY_LIBC ? madvise(start, bytes, advice)
                          : call(SYS_madvise, (long)start, (long)bytes, advice, 0, 0, 0);
}

static long map_over(char *start, size_t bytes) {
    int file = memfd_create("over", 0);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
        return -1;
    int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
    long mapped = way == BY_LIBC ? (long)mmap(start, bytes, protection, flags, file, 0)
                                 : call(SYS_mmap, (long)start, (long)bytes, protection, flags, file, 0);
    close(file);
    return mapped == (long)start ? 0 : -1;
}

static long alter(const char *attribute, char *start, size_t bytes) {
    const unsigned long node = 1;
    if (strcmp(attribute, "none") == 0)
        return protect(start, bytes, PROT_NONE);
    if (strcmp(attribute, "read") == 0)
        return protect(start, bytes, PROT_READ);
    if (strcmp(attribute, "execute") == 0)
        return protect(start, bytes, PROT_READ | PROT_WRITE | PROT_EXEC);
    if (strcmp(attribute, "guard-page") == 0)
        return protect(start + bytes - page_bytes, page_bytes, PROT_NONE);
    if (strcmp(attribute, "every-other") == 0) {
        long result = 0;
        for (size_t at = 0; at < bytes && at < 100 * page_bytes; at += 2 * page_bytes)
            result |= protect(start + at, page_bytes, PROT_READ);
        return result;
    }
    if (strcmp(attribute, "key") == 0)
        return way == BY_LIBC ? pkey_mprotect(start, bytes, PROT_READ, -1)
                              : call(SYS_pkey_mprotect, (long)start, (long)bytes, PROT_READ, -1, 0, 0);
    if (strcmp(attribute, "dontfork") == 0)
        return advise(start, bytes, MADV_DONTFORK);
    if (strcmp(attribute, "wipeonfork") == 0)
        return advise(start, bytes, WIPE);
    if (strcmp(attribute, "dontdump") == 0)
        return advise(start, bytes, MADV_DONTDUMP);
    if (strcmp(attribute, "mergeable") == 0)
        return advise(start, bytes, MADV_MERGEABLE);
    if (strcmp(attribute, "hugepage") == 0)
        return advise(start, bytes, MADV_HUGEPAGE);
    if (strcmp(attribute, "random") == 0)
        return advise(start, bytes, MADV_RANDOM);
    if (strcmp(attribute, "guard-install") == 0)
        return advise(start, bytes, GUARD);
    if (strcmp(attribute, "lock") == 0)
        return way == BY_LIBC ? mlock(start, bytes) : call(SYS_mlock, (long)start, (long)bytes, 0, 0, 0, 0);
    if (strcmp(attribute, "lock-on-fault") == 0)
        return way == BY_LIBC ? mlock2(start, bytes, ON_FAULT)
                              : call(SYS_mlock2, (long)start, (long)bytes, ON_FAULT, 0, 0, 0);
    if (strcmp(attribute, "bind") == 0)
        return call(SYS_mbind, (long)start, (long)bytes, BIND, (long)&node, 8, 0); /* libnuma has the function */
    if (strcmp(attribute, "mapped-over") == 0)
        return map_over(start, bytes);
    if (strcmp(attribute, "unmapped") == 0)
        return way == BY_LIBC ? munmap(start, bytes) : call(SYS_munmap, (long)start, (long)bytes, 0, 0, 0, 0);
    return -1;
}

static const char *const attributes[] = {
    "none",          "read",       "execute",       "guard-page", "every-other", "key",
    "dontfork",      "wipeonfork", "dontdump",      "mergeable",  "hugepage",    "random",
    "guard-install", "lock",       "lock-on-fault", "bind",       "mapped-over", "unmapped",
};

/* ---- the look ---- */

/* Whether the kernel has `bad` among the flags of a mapping: `line` is smaps' "VmFlags: ..." */
static int has_flag(const char *line, const char *bad) {
    char word[8];
    snprintf(word, sizeof(word), " %s", bad);
    return strstr(line, word) != NULL;
}

/* NULL when all mappings in [begin, end) are plain memory, else what is wrong. */
static const char *look(uintptr_t begin, uintptr_t end) {
    static const char *const bad[] = {"dc", "wf", "dd", "mg", "hg", "lo", "rr", "sr", "ex", "sh", "um", "uw", "lf"};
    static char line[4096], wrong[300];
    FILE *file = fopen("/proc/self/smaps", "r");
    uintptr_t from = 0, to = 0;
    size_t seen = 0;
    char rights[5] = "";
    wrong[0] = '\0';
    while (file != NULL && fgets(line, sizeof(line), file) != NULL && wrong[0] == '\0') {
        unsigned long first, behind;
        if (sscanf(line, "%lx-%lx %4s", &first, &behind, rights) == 3) {
            from = first > begin ? first : begin;
            to = behind < end ? behind : end;
            seen += from < to ? to - from : 0;
        } else if (from < to && strncmp(line, "VmFlags:", 8) == 0) {
            for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                if (has_flag(line, bad[i]))
                    snprintf(wrong, sizeof(wrong), "flag %s", bad[i]);
            if (strcmp(rights, "rw-p") != 0)
                snprintf(wrong, sizeof(wrong), "rights %s", rights);
        }
    }
    if (file != NULL)
        fclose(file);
    if (wrong[0] == '\0' && seen != end - begin)
        snprintf(wrong, sizeof(wrong), "%zu of %zu bytes mapped", seen, (size_t)(end - begin));
    int mode = 0;
    if (wrong[0] == '\0' && syscall(SYS_get_mempolicy, &mode, NULL, 0, begin, BY_ADDRESS) == 0 && mode != 0)
        snprintf(wrong, sizeof(wrong), "policy %d", mode);
    return wrong[0] != '\0' ? wrong : NULL;
}

static size_t stride(size_t bytes) {
    return bytes > LARGE_BYTES ? LARGE_STRIDE * page_bytes : page_bytes;
}

static void fill(char *start, size_t bytes, char value) {
    if (bytes <= LARGE_BYTES) {
        memset(start, value, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += stride(bytes))
        start[at] = value;
    start[bytes - 1] = value;
}

static int child_reads(const char *start, size_t bytes, char value) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        for (size_t at = 0; at < bytes; at += stride(bytes))
            if (start[at] != value)
                _exit(1);
        if (start[bytes - 1] != value)
            _exit(1);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* ---- one combination ---- */

enum order { FREE, FREE_ELSEWHERE, SHRINK, GROW, TINY, ORDERS };
static const char *const orders[] = {"free", "free elsewhere", "shrink", "grow", "to 24 bytes"};

static void *free_it(void *block) {
    free(block);
    return NULL;
}

static void *give_back(void *block, size_t bytes, enum order order) {
    pthread_t thread;
    switch (order) {
    case FREE_ELSEWHERE:
        pthread_create(&thread, NULL, free_it, block);
        pthread_join(thread, NULL);
        return NULL;
    case SHRINK:
        return realloc(block, bytes / 4);
    case GROW:
        return realloc(block, bytes * 3);
    case TINY:
        return realloc(block, 24);
    default:
        free(block);
        return NULL;
    }
}

/* The exit status: 0 no address came again, 1 wrong, 2 one did and was plain, 3 the kernel cannot do it. */
static int try(const char *attribute, size_t bytes, size_t alignment, enum order order) {
    static char *held[HOLD_BLOCKS];
    char *block = alignment == 0 ? malloc(bytes) : aligned_alloc(alignment, bytes);
    if (block == NULL)
        return 1;
    size_t usable = malloc_usable_size(block);
    uintptr_t begin = ((uintptr_t)block + page_bytes - 1) & ~(page_bytes - 1);
    uintptr_t end = ((uintptr_t)block + usable) & ~(page_bytes - 1);
    if (begin >= end)
        return 3;
    fill(block, bytes, 1);
    if (alter(attribute, (char *)begin, end - begin) != 0)
        return 3;
    char *kept = give_back(block, bytes, order);
    if (way == BY_RAW)
        malloc_trim(0);
    uintptr_t kept_begin = (uintptr_t)kept;
    uintptr_t kept_end =
        kept != NULL ? (kept_begin + malloc_usable_size(kept) + page_bytes - 1) & ~(page_bytes - 1) : 0;
    size_t sum = 0;
    int came = 0;
    for (size_t i = 0; i < HOLD_BLOCKS && sum < HOLD_BYTES && came < 3; i++, sum += bytes) {
        held[i] = i % 2 == 0 || alignment == 0 ? malloc(bytes) : aligned_alloc(alignment, bytes);
        uintptr_t from = (uintptr_t)held[i] > begin ? (uintptr_t)held[i] : begin;
        uintptr_t to = (uintptr_t)held[i] + bytes < end ? (uintptr_t)held[i] + bytes : end;
        if (held[i] == NULL)
            break;
        if (from >= to)
            continue;
        came++;
        uintptr_t first = from & ~(page_bytes - 1);
        if (kept != NULL && first < kept_end && to > kept_begin)
            first = first < kept_begin ? first : kept_end; /* the block is still the program's own there */
        const char *wrong = first < to ? look(first, (to + page_bytes - 1) & ~(page_bytes - 1)) : NULL;
        if (wrong != NULL) {
            printf("%s, %zu bytes, alignment %zu, %s: %s\n", attribute, bytes, alignment, orders[order], wrong);
            return 1;
        }
        fill(held[i], bytes, 2);
        if (!child_reads(held[i], bytes, 2)) {
            printf("%s, %zu bytes, alignment %zu, %s: a child reads something else\n", attribute, bytes, alignment,
                   orders[order]);
            return 1;
        }
    }
    return came != 0 ? 2 : 0;
}

/* Whether realloc would have to read what cannot be read, or a thread's stack could be mapped where the block was. */
static int is_senseless(const char *attribute, enum order order) {
    if (strcmp(attribute, "unmapped") == 0 && order == FREE_ELSEWHERE)
        return 1;
    int is_unreadable = strcmp(attribute, "none") == 0 || strcmp(attribute, "guard-page") == 0 ||
                        strcmp(attribute, "guard-install") == 0 || strcmp(attribute, "unmapped") == 0;
    return is_unreadable && order >= SHRINK;
}

static int failed, plain, tries;

static int run(const char *attribute, size_t bytes, size_t alignment, enum order order) {
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(try(attribute, bytes, alignment, order));
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    tries++;
    if (WIFSIGNALED(status))
        printf("%s, %zu bytes, alignment %zu, %s: signal %d\n", attribute, bytes, alignment, orders[order],
               WTERMSIG(status));
    failed += WIFSIGNALED(status) || WEXITSTATUS(status) == 1;
    plain += WIFEXITED(status) && WEXITSTATUS(status) == 2;
    return 0;
}

int main(int count, char **words) {
    static const size_t sizes[] = {4096, 20480, 70000, 3 << 20, 1 << 20, 10000, 65536, 30 << 20, 80 << 20};
    static const size_t alignments[] = {0, 4096, 65536};
    enum { QUICK_SIZES = 4, QUICK_ALIGNMENTS = 2 };
    if (count != 3)
        return 1;
    int is_quick = strcmp(words[2], "quick") == 0;
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    way = strcmp(words[1], "libc") == 0 ? BY_LIBC : strcmp(words[1], "syscall") == 0 ? BY_SYSCALL : BY_RAW;
    void *symbol = dlsym(dlopen("libc.so.6", RTLD_LAZY), "syscall");
    memcpy(&past, &symbol, sizeof(past));
    if (past == NULL) {
        printf("no C library to call past\n");
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t a = 0; a < sizeof(attributes) / sizeof(attributes[0]); a++)
        for (size_t s = 0; s < (is_quick ? QUICK_SIZES : sizeof(sizes) / sizeof(sizes[0])); s++)
            for (size_t i = 0; i < (is_quick ? QUICK_ALIGNMENTS : sizeof(alignments) / sizeof(alignments[0])); i++)
                for (enum order order = FREE; order < ORDERS; order++) {
                    int is_left_out = is_quick && order != FREE && (a + s + i) % 4 + 1 != (size_t)order;
                    if (is_left_out || is_senseless(attributes[a], order) ||
                        (alignments[i] > 1 && sizes[s] % alignments[i] != 0))
                        continue;
                    if (run(attributes[a], sizes[s], alignments[i], order) != 0)
                        return 1;
                }
    printf("%d tried, %d came again, %d wrong\n", tries, plain, failed);
    return 0;
}
