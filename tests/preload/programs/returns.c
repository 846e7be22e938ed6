/*
 * returns.c - threads that free each other's blocks and then sleep. A test looks from outside at what memory goes back.
 *
 *   returns work WORD   Eight producers fill a queue with blocks of mixed sizes; one consumer frees them. When all
 *                       threads sleep, the program writes "asleep". At the end of stdin they work once more, and it
 *                       writes "done" and ends. WORD only marks the command line of the process.
 *   returns try CALL    Makes one system call and writes its error, 0 if it was allowed.
 *
 * The program starts PRODUCERS + 1 threads. It makes only the system calls that glibc needs for memory, threads, stdin
 * and stdout. Exit codes: 0 all blocks were intact; 3 a block was not, or a bad command line.
 */
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PRODUCERS = 8, BLOCKS = 5000, QUEUE = PRODUCERS * BLOCKS, ROUNDS = 2, SMALLEST = 16, DOUBLINGS = 11 };

struct block {
    size_t size;
    size_t mark;
    unsigned char rest[];
};

static struct block *queue[QUEUE]; /* each producer fills a part of its own before it meets the consumer */
static pthread_barrier_t turn;     /* all threads */

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

/* From 16 bytes to 64 KiB, as many between each power of two and the next. */
static struct block *make(uint32_t *state) {
    size_t size = (size_t)SMALLEST << next_random(state) % DOUBLINGS;
    size += next_random(state) % size + sizeof(struct block);
    struct block *block = malloc(size);
    if (block == NULL)
        fail("no memory");
    memset(block, 0x5a, size);
    block->size = size;
    block->mark = size ^ (uintptr_t)block;
    return block;
}

static void destroy(struct block *block) {
    if (block->mark != (block->size ^ (uintptr_t)block) || ((unsigned char *)block)[block->size - 1] != 0x5a)
        fail("a block has lost its contents");
    free(block);
}

static void produce(size_t producer, int round) {
    uint32_t state = (uint32_t)(producer * 7919 + (size_t)round);
    for (size_t i = 0; i < BLOCKS; i++)
        queue[producer * BLOCKS + i] = make(&state);
}

/* Frees in an order that is not that of the addresses: in steps that reach every place of the queue once. */
static void consume(void) {
    enum { STEP = 7919 };
    for (size_t i = 0, place = 0; i < QUEUE; i++, place = (place + STEP) % QUEUE)
        destroy(queue[place]);
}

/* A producer, or the consumer, whose number is PRODUCERS. */
static void *work(void *number) {
    size_t self = (size_t)(uintptr_t)number;
    for (int round = 0; round <= ROUNDS; round++) {
        if (round == ROUNDS) {
            (void)pthread_barrier_wait(&turn); /* all is freed; main says so */
            (void)pthread_barrier_wait(&turn); /* after the sleep */
        }
        if (self < PRODUCERS)
            produce(self, round);
        (void)pthread_barrier_wait(&turn);
        if (self == PRODUCERS)
            consume();
        (void)pthread_barrier_wait(&turn);
    }
    return NULL;
}

static void run(void) {
    pthread_t threads[PRODUCERS + 1];
    char end;
    (void)pthread_barrier_init(&turn, NULL, PRODUCERS + 2);
    for (size_t i = 0; i <= PRODUCERS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) != 0)
            fail("no thread");
    for (int meeting = 0; meeting < 2 * ROUNDS + 1; meeting++)
        (void)pthread_barrier_wait(&turn);
    say("asleep\n");
    while (read(STDIN_FILENO, &end, 1) > 0)
        continue;
    for (int meeting = 0; meeting < 3; meeting++)
        (void)pthread_barrier_wait(&turn);
    for (size_t i = 0; i <= PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    say("done\n");
}

/* ---- one call ---------------------------------------------------------------------------------------- */

static long open_and_close(const char *path) {
    long file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    return file < 0 ? -1 : syscall(SYS_close, file);
}

static long call(const char *name) {
    cpu_set_t cpus;
    struct rusage usage;
    struct sched_param none = {0};
    unsigned char is_resident;
    if (strcmp(name, "membarrier") == 0)
        return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    if (strcmp(name, "prctl") == 0)
        return syscall(SYS_prctl, PR_SET_NAME, "tried", 0, 0, 0);
    if (strcmp(name, "sched_getaffinity") == 0)
        return syscall(SYS_sched_getaffinity, 0, sizeof cpus, &cpus);
    if (strcmp(name, "sched_setscheduler") == 0)
        return syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &none);
    if (strcmp(name, "setpriority") == 0)
        return syscall(SYS_setpriority, PRIO_PROCESS, 0, 1);
    if (strcmp(name, "tgkill") == 0)
        return syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0);
    if (strcmp(name, "close_range") == 0)
        return syscall(SYS_close_range, 1000000U, 1000000U, 0U);
    if (strcmp(name, "getrusage") == 0)
        return syscall(SYS_getrusage, RUSAGE_THREAD, &usage);
    if (strcmp(name, "mincore") == 0)
        return syscall(SYS_mincore, (uintptr_t)queue & ~(uintptr_t)4095, 1, &is_resident);
    if (strcmp(name, "/proc") == 0)
        return open_and_close("/proc/self/status");
    if (strcmp(name, "/sys/fs/cgroup") == 0)
        return open_and_close("/sys/fs/cgroup");
    fail(name);
}

static void try(const char *name) {
    int error = call(name) < 0 ? errno : 0;
    char digits[] = {(char)('0' + error / 100 % 10), (char)('0' + error / 10 % 10), (char)('0' + error % 10), '\n',
                     '\0'};
    say(digits);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "work") == 0)
        run();
    else if (argc == 3 && strcmp(argv[1], "try") == 0)
        try(argv[2]);
    else
        fail("usage: returns work WORD, returns try CALL");
    return 0;
}
