/*
 * zoner.c - a process that does in zones what its stdin says, and answers each line on stdout. While it waits for a
 * line a test looks at it from outside. Nothing but zones is used between two lines, except by `churn heap`.
 *
 *   start             makes a zone, and starts a thread that sleeps, so that there is a keeper
 *   move              from now on a thread that has never allocated does the lines
 *   fill SIZE KIB     fills the zone, or a new one after `drop`, with touched blocks; how many KiB they are
 *   thin              frees most of the zone's blocks; KiB of the system pages on which the others lie, at most
 *   empty, drop       frees all blocks; destroys the zone
 *   churn heap|zone   starts a thread that allocates and frees in the common heap, or in a zone of its own
 *   fork              the child answers first and takes over; when it has ended, the parent answers and goes on
 *   return CODE
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct hz_zone;
extern struct hz_zone *hz_zone_create(void) __attribute__((weak));
extern void hz_zone_destroy(struct hz_zone *zone) __attribute__((weak));
extern void *hz_zone_malloc(struct hz_zone *zone, size_t size) __attribute__((weak));

enum { OS_PAGE = 4096, CHURNED = 3000, KEPT_DISTANCE = 64 << 10, KEPT_SHARE = 4 };

static struct hz_zone *zone;
static char **blocks; /* a mapping, so that it is no part of the heap */
static size_t count, size;

static _Noreturn void fail(const char *what) {
    dprintf(STDERR_FILENO, "zoner: %s: %s\n", what, strerror(errno));
    abort();
}

static void start(void *(*body)(void *), void *argument) {
    pthread_t thread;
    if ((errno = pthread_create(&thread, NULL, body, argument)) != 0)
        fail("pthread_create");
}

static void *sleep_on(void *unused) {
    while (pause() == -1) {
    }
    return unused;
}

/* Never rests: the library's slow paths must be reached whatever they cost. */
static void *churn(void *argument) {
    struct hz_zone *own = argument != NULL ? hz_zone_create() : NULL;
    static void *churned[CHURNED];
    for (;;) {
        for (size_t i = 0; i < CHURNED; i++)
            churned[i] = own != NULL ? hz_zone_malloc(own, 200) : malloc(200);
        for (size_t i = 0; i < CHURNED; i++)
            free(churned[i]);
    }
    return NULL;
}

static int fill(size_t block_bytes, size_t kib) {
    size = block_bytes;
    count = (kib << 10) / size;
    zone = zone != NULL ? zone : hz_zone_create();
    blocks =
        mmap(NULL, count * sizeof(*blocks), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (zone == NULL || blocks == MAP_FAILED)
        fail("fill");
    for (size_t i = 0; i < count; i++) {
        blocks[i] = hz_zone_malloc(zone, size);
        if (blocks[i] == NULL)
            fail("hz_zone_malloc");
        memset(blocks[i], 1, size);
    }
    return (int)(count * size >> 10);
}

static int thin(bool all) {
    size_t distance = size < KEPT_DISTANCE / KEPT_SHARE ? KEPT_DISTANCE / size : KEPT_SHARE;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!all && i % distance == 0)
            kept += (size + OS_PAGE - 1) / OS_PAGE + 1;
        else
            free(blocks[i]);
    }
    return (int)(kept * OS_PAGE >> 10);
}

static int fork_alone(void) {
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return getpid();
    }
    int status;
    if (waitpid(child, &status, 0) != child)
        fail("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int line_do(const char *word, const char *text, size_t number) {
    if (strcmp(word, "start") == 0) {
        zone = zone != NULL ? zone : hz_zone_create();
        start(sleep_on, NULL);
    } else if (strcmp(word, "churn") == 0)
        start(churn, strcmp(text, "zone") == 0 ? &zone : NULL);
    else if (strcmp(word, "fill") == 0)
        return fill((size_t)strtoul(text, NULL, 10), number);
    else if (strcmp(word, "thin") == 0 || strcmp(word, "empty") == 0)
        return thin(word[0] == 'e');
    else if (strcmp(word, "drop") == 0) {
        hz_zone_destroy(zone);
        zone = NULL;
    } else if (strcmp(word, "fork") == 0)
        return fork_alone();
    else
        fail(word);
    return 0;
}

/* Without dprintf, which allocates: that would wake the keeper. */
static void answer(const char *word, int value) {
    char text[40];
    int length = snprintf(text, sizeof(text), "%s %d\n", word, value);
    if (write(STDOUT_FILENO, text, (size_t)length) != length)
        fail("write");
}

static bool line_read(char *line, size_t room) {
    size_t length = 0;
    while (length + 1 < room && read(STDIN_FILENO, &line[length], 1) == 1 && line[length] != '\n')
        length++;
    line[length] = '\0';
    return length > 0;
}

static void *lines(void *moved) {
    char line[100];
    if (moved != NULL)
        answer("move", 0);
    while (line_read(line, sizeof line)) {
        char word[20] = "";
        char text[20] = "";
        size_t number = 0;
        (void)sscanf(line, "%19s %19s %zu", word, text, &number);
        if (strcmp(word, "return") == 0)
            _exit(atoi(text));
        if (strcmp(word, "move") == 0) {
            start(lines, &zone);
            (void)sleep_on(NULL);
        }
        answer(word, line_do(word, text, number));
    }
    _exit(0);
}

int main(void) {
    if (hz_zone_create == NULL)
        fail("no hz_zone_create");
    dprintf(STDOUT_FILENO, "ready\n");
    (void)lines(NULL);
    return 1;
}
