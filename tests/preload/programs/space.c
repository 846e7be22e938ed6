/*
 * space.c - requests that the kernel refuses, and the address space that is mapped in the end. Usage:
 *
 *   space refused     asks for more than there is, by every call and in many sizes; prints a line for each: what was
 *                     asked, and "a block" or errno. The lines are the same for allocators that refuse the same
 *   space loop N      N requests for twice the machine's memory, between two calls of getppid
 *   space aligned     100 rounds of blocks with alignments from 64 KiB to 1 GiB; prints live_kb and peak_kb, both the
 *                     highest of any round, and after_kb, what more is mapped after all is freed and trimmed
 *   space holes       under a limit, blocks of 2 MiB with that alignment, before and after a hole without an aligned
 *                     part was left: prints whole and with_hole, their numbers
 *   space child N     in a fork's child, N times a block grows and is freed; prints more_kb, what more is mapped then
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t mapped_kb(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages = 0;
    if (file == NULL || fscanf(file, "%zu", &pages) != 1)
        abort();
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE) >> 10;
}

/* A line of /proc/meminfo, in bytes. */
static size_t meminfo(const char *name) {
    FILE *file = fopen("/proc/meminfo", "r");
    char line[200];
    size_t kilobytes = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            kilobytes = strtoul(line + strlen(name) + 1, NULL, 10);
    if (file != NULL)
        fclose(file);
    return kilobytes << 10;
}

/* ---- refused --------------------------------------------------------------------------------------------- */

enum call { MALLOC, CALLOC, REALLOC_SMALL, REALLOC_LARGE, ALIGNED, ALIGNED_WIDE, POSIX, CALLS };
static const char *const names[] = {"malloc",           "calloc",          "realloc of 100 B",
                                    "realloc of 5 MiB", "aligned to 64 B", "aligned to 64 MiB",
                                    "posix_memalign"};

/* The block that the size is asked for is freed; one that was to grow must be there still. */
static int ask(enum call call, size_t size) {
    void *volatile old = NULL;
    void *volatile block = NULL;
    errno = 0;
    if (call == MALLOC)
        block = malloc(size);
    if (call == CALLOC)
        block = calloc(size / 16 + (size % 16 != 0), 16);
    if (call == ALIGNED || call == ALIGNED_WIDE)
        block = memalign(call == ALIGNED ? 64 : 64 << 20, size);
    if (call == POSIX) {
        void *out = NULL;
        errno = posix_memalign(&out, 4096, size);
        block = out;
    }
    if (call == REALLOC_SMALL || call == REALLOC_LARGE) {
        size_t length = call == REALLOC_SMALL ? 100 : 5 << 20;
        old = malloc(length);
        memset(old, 7, length);
        errno = 0;
        block = realloc(old, size);
        if (block == NULL && (((char *)old)[0] != 7 || ((char *)old)[length - 1] != 7))
            abort();
    }
    int error = errno;
    free(block != NULL ? block : old);
    return block != NULL ? 0 : error;
}

static void refused(void) {
    size_t memory = meminfo("MemTotal") + meminfo("SwapTotal");
    const struct {
        const char *name;
        size_t size;
    } sizes[] = {{"5/4 of the memory", memory + memory / 4},
                 {"twice the memory", 2 * memory},
                 {"100 TiB", (size_t)100 << 40},
                 {"PTRDIFF_MAX less a page", PTRDIFF_MAX - 8192},
                 {"PTRDIFF_MAX and one", (size_t)PTRDIFF_MAX + 1},
                 {"SIZE_MAX less 15", SIZE_MAX - 15}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (enum call call = 0; call < CALLS; call++) {
            int error = ask(call, sizes[i].size);
            printf("%s, %s: %s\n", sizes[i].name, names[call],
                   error == 0        ? "a block"
                   : error == ENOMEM ? "ENOMEM"
                                     : strerror(error));
        }
    /* what is left by the account of strict overcommit; meaningless, but the same, in other modes */
    size_t limit = meminfo("CommitLimit"), used = meminfo("Committed_AS");
    size_t left = limit > used ? limit - used : 0;
    printf("half of what may be committed: %s\n", left == 0 || ask(MALLOC, left / 2) == 0 ? "a block" : "refused");
}

static void loop(unsigned long count) {
    size_t much = 2 * (meminfo("MemTotal") + meminfo("SwapTotal"));
    void *volatile held = malloc(100 << 20); /* less is in use than is asked for */
    void *volatile block = malloc(much);
    if (block != NULL)
        puts("granted");
    (void)getppid();
    for (unsigned long i = 0; i < count; i++)
        block = malloc(much);
    (void)getppid();
    free(held);
}

/* ---- address space ---------------------------------------------------------------------------------------- */

static size_t below(size_t bound) {
    static uint64_t random;
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (size_t)(random >> 33) % bound;
}

static void aligned(void) {
    enum { ROUNDS = 100, BLOCKS = 16 };
    free(malloc(100));
    size_t begin = mapped_kb(), live_kb = 0, peak_kb = 0;
    for (int round = 0; round < ROUNDS; round++) {
        void *blocks[BLOCKS];
        size_t live = 0;
        for (int i = 0; i < BLOCKS; i++) {
            size_t size = 1 + below(64 << 20);
            size_t alignment = (size_t)65536 << below(15);
            if (posix_memalign(&blocks[i], alignment, size) != 0 || (uintptr_t)blocks[i] % alignment != 0)
                abort();
            ((char *)blocks[i])[0] = ((char *)blocks[i])[size - 1] = 1;
            live += size;
        }
        size_t now = mapped_kb() - begin;
        peak_kb = now > peak_kb ? now : peak_kb;
        live_kb = live >> 10 > live_kb ? live >> 10 : live_kb;
        for (int i = 0; i < BLOCKS; i++)
            free(blocks[i]);
    }
    malloc_trim(0);
    printf("live_kb=%zu\npeak_kb=%zu\nafter_kb=%zu\n", live_kb, peak_kb, mapped_kb() - begin);
}

enum { ALIGNED_MOST = 400 };

static int obtain_aligned(void **blocks) {
    int count = 0;
    while (count < ALIGNED_MOST && posix_memalign(&blocks[count], 2 << 20, 2 << 20) == 0)
        count++;
    return count;
}

static void holes(void) {
    static void *blocks[ALIGNED_MOST];
    void *volatile before = malloc(10 << 16), *volatile hole = malloc(2 << 20), *volatile behind = malloc(2 << 20);
    void *volatile last = malloc(65537);
    const struct rlimit now = {400 << 20, 400 << 20};
    if (before == NULL || behind == NULL || last == NULL || setrlimit(RLIMIT_DATA, &now) != 0)
        abort();
    int whole = obtain_aligned(blocks);
    for (int i = 0; i < whole; i++)
        free(blocks[i]);
    free(hole);
    printf("whole=%d\nwith_hole=%d\n", whole, obtain_aligned(blocks));
}

static void child(unsigned long rounds) {
    char *volatile warm = malloc(3 << 20);
    memset(warm, 1, 3 << 20);
    free(warm);
    if (fork() != 0) {
        int status;
        if (wait(&status) < 0 || status != 0)
            abort();
        return;
    }
    size_t begin = mapped_kb();
    for (unsigned long i = 0; i < rounds; i++) {
        char *block = malloc(6 << 20), *gap = malloc(3 << 20);
        block[0] = block[(6 << 20) - 1] = gap[0] = 1;
        char *grown = realloc(block, 40 << 20);
        if (grown == NULL)
            abort();
        grown[(40 << 20) - 1] = 1;
        free(grown);
        free(gap);
    }
    printf("more_kb=%zu\n", mapped_kb() - begin);
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (strcmp(what, "refused") == 0)
        refused();
    else if (strcmp(what, "loop") == 0 && count > 0)
        loop(count);
    else if (strcmp(what, "aligned") == 0)
        aligned();
    else if (strcmp(what, "holes") == 0)
        holes();
    else if (strcmp(what, "child") == 0 && count > 0)
        child(count);
    else
        fprintf(stderr, "usage: space refused | loop N | aligned | holes | child N\n");
    return 0;
}
