/*
 * limits.c - what a program obtains under a limit, and whether it works on afterwards. Usage:
 *
 *   limits SIZES              allocates blocks until NULL, frees them, and again: prints first_kb, again_kb and, with
 *                             sizes that were not used before, other_kb. SIZES: small, mixed, large, huge
 *   limits SIZES KIND MB      the same under a limit that it sets itself, after some work. KIND: as, data, or beyond:
 * as is mapped, and so much beyond. There it also prints lifted_kb: of 1 GiB of large blocks, what it obtains when the
 * limit is lifted again limits lock               mlockall: prints error and cpu_ms, and works on
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct block {
    struct block *next;
    size_t bytes;
};

struct sizes {
    const char *name;
    size_t least, most;
};

static const struct sizes all_sizes[] = {
    {"small", 64, 64}, {"mixed", 16, 32 << 10}, {"large", 70 << 10, 1 << 20}, {"huge", 2 << 20, 6 << 20}};
static const struct sizes other_sizes = {"other", 1000, 200 << 10};

enum { KINDS = sizeof all_sizes / sizeof all_sizes[0] };

static size_t below(size_t bound) {
    static uint64_t random;
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (size_t)(random >> 33) % bound;
}

/* Allocates `most` bytes, or less when NULL comes first; returns the bytes and the blocks. */
static size_t obtain(const struct sizes *sizes, size_t most, struct block **blocks) {
    size_t sum = 0;
    *blocks = NULL;
    while (sum < most) {
        size_t bytes = sizes->least + below(sizes->most - sizes->least + 1);
        struct block *block = malloc(bytes);
        if (block == NULL) {
            if (errno != ENOMEM)
                abort();
            break;
        }
        ((char *)block)[bytes - 1] = 1;
        *block = (struct block){.next = *blocks, .bytes = bytes};
        *blocks = block;
        sum += bytes;
    }
    return sum;
}

static void give_back(struct block *blocks, size_t wanted) {
    for (struct block *next; blocks != NULL; blocks = next) {
        next = blocks->next;
        wanted -= blocks->bytes;
        free(blocks);
    }
    if (wanted != 0) /* a block has lost its contents */
        abort();
}

static size_t use(const struct sizes *sizes, size_t most) {
    struct block *blocks;
    size_t sum = obtain(sizes, most, &blocks);
    give_back(blocks, sum);
    return sum;
}

/* With plain reads: stdio would allocate. */
static size_t mapped(void) {
    char text[64] = {0};
    int file = open("/proc/self/statm", O_RDONLY);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0)
        abort();
    close(file);
    return strtoul(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static int limit(const char *kind, const char *megabytes) {
    const struct sizes mixed = all_sizes[1];
    (void)use(&mixed, 8 << 20);
    size_t bytes = (size_t)strtoul(megabytes, NULL, 10) << 20;
    if (strcmp(kind, "beyond") == 0) {
        const struct rlimit now = {mapped() + bytes, RLIM_INFINITY};
        return setrlimit(RLIMIT_AS, &now);
    }
    const struct rlimit now = {bytes, bytes};
    return setrlimit(strcmp(kind, "as") == 0 ? RLIMIT_AS : RLIMIT_DATA, &now);
}

static int lift(void) {
    const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    return setrlimit(RLIMIT_AS, &none);
}

static void lock(void) {
    struct timespec before, after;
    (void)use(&other_sizes, 8 << 20);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    int error = mlockall(MCL_CURRENT | MCL_FUTURE) == 0 ? 0 : errno;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    printf("error=%d\ncpu_ms=%ld\n", error,
           (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000);
    if (use(&all_sizes[1], 32 << 20) < 32 << 20)
        abort();
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "lock") == 0) {
        lock();
        return 0;
    }
    const struct sizes *sizes = NULL;
    for (int i = 0; argc > 1 && i < KINDS; i++)
        if (strcmp(argv[1], all_sizes[i].name) == 0)
            sizes = &all_sizes[i];
    if (sizes == NULL || (argc != 2 && argc != 4)) {
        fprintf(stderr, "usage: limits SIZES [KIND MB] | lock\n");
        return 2;
    }
    if (argc == 4 && limit(argv[2], argv[3]) != 0) {
        perror("setrlimit");
        return 3;
    }
    size_t first = use(sizes, SIZE_MAX);
    size_t again = use(sizes, SIZE_MAX);
    size_t other = use(&other_sizes, SIZE_MAX);
    printf("first_kb=%zu\nagain_kb=%zu\nother_kb=%zu\n", first >> 10, again >> 10, other >> 10);
    if (argc == 4 && strcmp(argv[2], "beyond") == 0 && lift() == 0)
        printf("lifted_kb=%zu\n", use(&all_sizes[2], 1 << 30) >> 10);
    return 0;
}
