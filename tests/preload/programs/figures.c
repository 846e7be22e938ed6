/*
 * figures.c - prints all five reports of the heap at points at which no thread of the program allocates. Usage:
 *
 *   figures WORKLOAD    the points of one kind of blocks
 *   figures noise       reports while other threads work
 *
 * For each point: a line "point NAME WANTED UNSURE", then the reports of one moment. WANTED: usable bytes of the
 * program's blocks since the first point; UNSURE: see `unsure`. Nothing is allocated between the reports; if the keeper
 * changed something meanwhile, they are made again.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

struct hz_stats {
    size_t live, cached, unused, resident, mapped, purged, mappings, peak;
};

struct hz_zone;

static int (*stats_get)(struct hz_stats *out, size_t bytes);
static int (*stats_print)(int fd, int format);
static struct hz_zone *(*zone_create)(void);
static void (*zone_destroy)(struct hz_zone *zone);
static void *(*zone_malloc)(struct hz_zone *zone, size_t size);

enum { BLOCKS_MAX = 40000, TRIES = 1000, THREADS = 3, NOISE_REPORTS = 200 };

static void *blocks[BLOCKS_MAX];
static size_t block_count;
static size_t wanted; /* usable bytes of live blocks */
static size_t unsure; /* bytes behind whose start they may begin: what is taken for them may be more by that */
static struct hz_zone *zone;

/* ---- reports --------------------------------------------------------------------------------------- */

static FILE *xml;
static int text_file, json_file;
static char xml_buffer[1 << 16], text[1 << 20];

static void function_find(const char *name, void *function) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL)
        abort();
    memcpy(function, &found, sizeof found);
}

static void reports_prepare(void) {
    function_find("hz_stats_get", &stats_get);
    function_find("hz_stats_print", &stats_print);
    function_find("hz_zone_create", &zone_create);
    function_find("hz_zone_destroy", &zone_destroy);
    function_find("hz_zone_malloc", &zone_malloc);
    xml = fdopen(memfd_create("xml", 0), "w");
    text_file = memfd_create("text", 0);
    json_file = memfd_create("json", 0);
    if (xml == NULL || text_file < 0 || json_file < 0)
        abort();
    setvbuf(xml, xml_buffer, _IOFBF, sizeof xml_buffer);
    setvbuf(stdout, NULL, _IONBF, 0);
    dup2(text_file, STDERR_FILENO);
}

static void file_empty(int file) {
    if (ftruncate(file, 0) != 0 || lseek(file, 0, SEEK_SET) != 0)
        abort();
}

static void file_show(const char *name, int file) {
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    if (length < 0)
        abort();
    text[length] = '\0';
    printf("begin %s\n%send %s\n", name, text, name);
}

static void info_show(const char *name, const struct mallinfo2 *info) {
    printf("%s %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu\n", name, info->arena, info->ordblks, info->smblks, info->hblks,
           info->hblkhd, info->usmblks, info->fsmblks, info->uordblks, info->fordblks, info->keepcost);
}

/* All reports, with nothing in between. */
static void reports_make(struct mallinfo2 *first, struct mallinfo *old, struct hz_stats *stats,
                         struct mallinfo2 *last) {
    rewind(xml);
    file_empty(fileno(xml));
    file_empty(text_file);
    file_empty(json_file);
    *first = mallinfo2();
    *old = mallinfo();
    malloc_info(0, xml);
    malloc_stats();
    if (stats_get(stats, sizeof(*stats)) != 0 || stats_print(json_file, 1) != 0)
        abort();
    *last = mallinfo2();
    fflush(xml);
}

static void point(const char *name) {
    struct mallinfo2 first, last;
    struct mallinfo old;
    struct hz_stats stats;
    for (int i = 0;; i++) {
        reports_make(&first, &old, &stats, &last);
        if (memcmp(&first, &last, sizeof first) == 0)
            break;
        if (i == TRIES)
            abort();
    }
    printf("point %s %zu %zu\n", name, wanted, unsure);
    info_show("mallinfo2", &first);
    printf("mallinfo %d %d %d %d %d %d %d %d %d %d\n", old.arena, old.ordblks, old.smblks, old.hblks, old.hblkhd,
           old.usmblks, old.fsmblks, old.uordblks, old.fordblks, old.keepcost);
    printf("hz_stats %zu %zu %zu %zu %zu\n", stats.live, stats.cached, stats.unused, stats.resident, stats.mapped);
    file_show("xml", fileno(xml));
    file_show("text", text_file);
    file_show("json", json_file);
}

/* ---- blocks ---------------------------------------------------------------------------------------- */

/* A block above 8 KiB begins less than an eighth of the power of two below its size behind its memory's start, and less
   than 64 KiB (docs/decisions/sizes.md#starts). */
static void count(const void *block, int sign) {
    size_t usable = malloc_usable_size((void *)block);
    size_t most = 0;
    for (size_t step = 1024; usable > 8192 && most == 0; step *= 2)
        most = usable <= 16 * step || step == 65536 ? step : 0;
    most = usable > 65536 ? 65536 : most;
    wanted += sign > 0 ? usable : -usable;
    unsure += sign > 0 ? most : -most;
}

/* A request that the kernel refuses leaves nothing. */
static void keep(void *block, bool touched, size_t size) {
    if (block == NULL)
        return;
    if (touched)
        memset(block, 1, size);
    count(block, 1);
    blocks[block_count++] = block;
}

static void allocate(const char *workload) {
    static const size_t mixed[] = {1,     24,    100,    700,     2048,          2049,   9000,
                                   65536, 65537, 300000, 2 << 20, (2 << 20) + 1, 5 << 20};
    if (strcmp(workload, "small") == 0)
        for (int i = 0; i < 20000; i++)
            keep(malloc(496), true, 496);
    if (strcmp(workload, "medium") == 0)
        for (int i = 0; i < 500; i++)
            keep(malloc(5000 + 100 * (size_t)i), i % 2 == 0, 5000);
    if (strcmp(workload, "large") == 0)
        for (int i = 0; i < 300; i++)
            keep(malloc(196608), i % 2 == 0, 196608);
    if (strcmp(workload, "direct") == 0)
        for (size_t i = 2; i < 20; i++)
            keep(i % 2 == 0 ? malloc((i << 20) + 1) : aligned_alloc(1 << 16, i << 21), i < 5, i << 20);
    if (strcmp(workload, "huge") == 0)
        for (int i = 0; i < 101; i++)
            keep(i % 2 == 0 ? calloc(1, 3000000000) : malloc(3000000000), false, 0);
    if (strcmp(workload, "one") == 0)
        keep(malloc(1000), true, 1000);
    for (int i = 0; i < 40 && strcmp(workload, "mixed") == 0; i++)
        for (size_t n = 0; n < sizeof mixed / sizeof mixed[0]; n++)
            keep(malloc(mixed[n]), i % 3 == 0, mixed[n]);
    if (strcmp(workload, "zone") == 0) {
        zone = zone_create();
        for (int i = 0; i < 3000; i++)
            keep(zone_malloc(zone, 16 + 7 * (size_t)i % 3000), true, 16);
        for (int i = 0; i < 5; i++)
            keep(zone_malloc(zone, (size_t)1 << (17 + i)), true, 16);
    }
}

static void drop_every(size_t first, size_t step) {
    for (size_t i = first; i < block_count; i += step)
        if (blocks[i] != NULL) {
            count(blocks[i], -1);
            free(blocks[i]);
            blocks[i] = NULL;
        }
}

static void *drop_half(void *unused) {
    (void)unused;
    drop_every(0, 2);
    return NULL;
}

static void in_thread(void *(*work)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0)
        abort();
}

static void in_child(const char *name) {
    pid_t child = fork();
    if (child == 0) {
        point(name);
        drop_every(0, 1);
        point("child-freed");
        malloc_trim(0);
        point("child-trimmed");
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        abort();
}

static void run(const char *workload) {
    in_thread(drop_half); /* the first thread starts the keeper, and the C library keeps its stack */
    malloc_trim(0);
    point("start");
    allocate(workload);
    point("full");
    in_child("child-full");
    in_thread(drop_half);
    point("half");
    malloc_trim(0);
    point("half-trimmed");
    in_child("child-half");
    if (zone != NULL) {
        zone_destroy(zone);
        block_count = wanted = unsure = 0;
    }
    drop_every(0, 1);
    point("empty");
    malloc_trim(0);
    point("empty-trimmed");
}

/* ---- noise ----------------------------------------------------------------------------------------- */

static atomic_bool is_over;

static void *make_noise(void *number) {
    void *own[200] = {0};
    size_t random = (size_t)number + 1;
    while (!atomic_load(&is_over)) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        size_t at = (random >> 33) % 200;
        free(own[at]);
        own[at] = malloc(1 + ((random >> 40) & ((random >> 20) % 8 == 0 ? 0x3fffff : 0xfff)));
    }
    for (size_t i = 0; i < 200; i++)
        free(own[i]);
    return NULL;
}

static void noise(void) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, make_noise, (void *)i) != 0)
            abort();
    for (int i = 0; i < NOISE_REPORTS; i++) {
        struct mallinfo2 first, last;
        struct mallinfo old;
        struct hz_stats stats;
        reports_make(&first, &old, &stats, &last);
        info_show("mallinfo2", &first);
        printf("hz_stats %zu %zu %zu %zu %zu\n", stats.live, stats.cached, stats.unused, stats.resident, stats.mapped);
        file_show("xml", fileno(xml));
        file_show("json", json_file);
        if (i % 20 == 0)
            malloc_trim(0);
    }
    atomic_store(&is_over, true);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    point("after-noise");
}

int main(int count, char **arguments) {
    if (count != 2)
        return 2;
    reports_prepare();
    if (strcmp(arguments[1], "noise") == 0)
        noise();
    else
        run(arguments[1]);
    return 0;
}
