/*
 * ledger - many small programs, of which one runs: their instructions, locked operations and cache misses are counted
 * by callgrind (`hakobench counts --ledger`). Each does the same in every run, down to the instruction: numbers are
 * drawn from a fixed seed, threads run one at a time in a fixed order, and the clocks advance only when this program
 * says so (still.c).
 *
 * Work is counted between two marks, which are client requests of valgrind; without valgrind they do nothing. What
 * comes before them fills the heap and warms its caches up.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/args.h"
#include "common/machine.h"
#include "common/marks.h"
#include "common/rng.h"

enum {
    OP_NS = 100, /* virtual time of an operation, */
    KIB_NS = 60, /* and of each KiB of a block, as if the program used all of it */
    SEED = 20251126,
    THREADS_MAX = 64,
    TURN_STEPS = 64, /* of a thread; then it is the next thread's turn */
    KIB = 1024,
    MIB = 1024 * KIB,
};

struct row {
    const char *name;
    uint64_t (*run)(const struct row *row); /* returns the number of operations between the marks */
    uint32_t ops;
    uint32_t blocks;
    uint32_t size_min, size_max;
    uint32_t more; /* what else the family needs */
};

static uint64_t *now_ns;          /* of still.c; NULL: it is not preloaded */
static unsigned *(*cpu_of)(void); /* of still.c too */
static uint64_t random_state = SEED;

static void time_passes(size_t size) {
    if (now_ns != NULL)
        *now_ns += OP_NS + (uint64_t)size * KIB_NS / KIB;
}

static uint32_t below(uint32_t bound) {
    return rng_below(&random_state, bound);
}

static uint32_t size_of(const struct row *row) {
    return row->size_min + (row->size_max > row->size_min ? below(row->size_max - row->size_min + 1) : 0);
}

/* A block that the program has begun to use. */
static char *block_new(size_t size) {
    char *block = malloc(size);
    if (block == NULL)
        machine_fail("no memory for %zu bytes", size);
    *(volatile char *)block = 1;
    time_passes(size);
    return block;
}

static void *table_new(size_t count, size_t bytes_each) {
    return machine_map(count, bytes_each);
}

static void count_begin(void) {
    CALLGRIND_ZERO_STATS;
}

static void count_end(void) {
    CALLGRIND_DUMP_STATS;
}

/* ---- one thread ------------------------------------------------------------------------------------- */

/* A block in a random one of `blocks` slots is replaced by another. */
static uint64_t run_loop(const struct row *row) {
    char **slots = table_new(row->blocks, sizeof(*slots));
    for (uint32_t i = 0; i < row->blocks; i++)
        slots[i] = block_new(size_of(row));
    for (uint32_t part = 0; part < 2; part++) {
        if (part == 1)
            count_begin();
        for (uint32_t i = 0; i < row->ops; i++) {
            uint32_t slot = below(row->blocks);
            free(slots[slot]);
            slots[slot] = block_new(size_of(row));
        }
    }
    count_end();
    return row->ops;
}

/* A block is allocated, used and freed. */
static uint64_t run_pair(const struct row *row) {
    for (uint32_t part = 0; part < 2; part++) {
        if (part == 1)
            count_begin();
        for (uint32_t i = 0; i < row->ops; i++)
            free(block_new(size_of(row)));
    }
    count_end();
    return row->ops;
}

enum order { FORWARD, REVERSE, RANDOM };

/* `blocks` blocks are allocated, and freed in the order `more`. */
static uint64_t run_burst(const struct row *row) {
    char **blocks = table_new(row->blocks, sizeof(*blocks));
    uint32_t *order = table_new(row->blocks, sizeof(*order));
    for (uint32_t i = 0; i < row->blocks; i++)
        order[i] = row->more == REVERSE ? row->blocks - 1 - i : i;
    for (uint32_t i = row->blocks; row->more == RANDOM && i > 1; i--) {
        uint32_t other = below(i), held = order[i - 1];
        order[i - 1] = order[other];
        order[other] = held;
    }
    uint32_t rounds = row->ops / row->blocks;
    for (uint32_t round = 0; round < 2 * rounds; round++) {
        if (round == rounds)
            count_begin();
        for (uint32_t i = 0; i < row->blocks; i++)
            blocks[i] = block_new(size_of(row));
        for (uint32_t i = 0; i < row->blocks; i++) {
            free(blocks[order[i]]);
            time_passes(0);
        }
    }
    count_end();
    return (uint64_t)rounds * row->blocks;
}

/* A block grows from size_min to size_max, by doubling or by steps of `more` bytes; an operation is a realloc. */
static uint64_t run_growth(const struct row *row) {
    uint64_t ops = 0;
    for (uint32_t i = 0; i < 2 * row->ops; i++) {
        if (i == row->ops) {
            count_begin();
            ops = 0;
        }
        size_t size = row->size_min;
        char *block = block_new(size);
        while (size < row->size_max) {
            size = row->more == 0 ? 2 * size : size + row->more;
            block = realloc(block, size);
            if (block == NULL)
                machine_fail("no memory for %zu bytes", size);
            block[size - 1] = 1;
            time_passes(row->more == 0 ? size : row->more);
            ops++;
        }
        free(block);
    }
    count_end();
    return ops;
}

static uint64_t run_calloc(const struct row *row) {
    char **slots = table_new(row->blocks, sizeof(*slots));
    for (uint32_t i = 0; i < 2 * row->ops; i++) {
        if (i == row->ops)
            count_begin();
        uint32_t slot = below(row->blocks), size = size_of(row);
        free(slots[slot]);
        slots[slot] = calloc(1, size);
        if (slots[slot] == NULL)
            machine_fail("no memory for %" PRIu32 " bytes", size);
        time_passes(size);
    }
    count_end();
    return row->ops;
}

/* Alignments from 32 to `more`. */
static uint64_t run_aligned(const struct row *row) {
    char **slots = table_new(row->blocks, sizeof(*slots));
    for (uint32_t i = 0; i < 2 * row->ops; i++) {
        if (i == row->ops)
            count_begin();
        uint32_t slot = below(row->blocks), size = size_of(row);
        size_t alignment = 32;
        while (alignment < row->more && below(2) == 0)
            alignment *= 2;
        free(slots[slot]);
        slots[slot] = aligned_alloc(alignment, size);
        if (slots[slot] == NULL)
            machine_fail("no memory for %" PRIu32 " bytes", size);
        time_passes(size);
    }
    count_end();
    return row->ops;
}

/* A zone is made, gets `blocks` blocks, and is destroyed; an operation is a block. Under an allocator without zones the
   blocks are freed one by one. */
static uint64_t run_zone(const struct row *row) {
    void *(*zone_create)(void) = (void *(*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "hz_zone_create");
    void *(*zone_malloc)(void *, size_t) = (void *(*)(void *, size_t))(uintptr_t)dlsym(RTLD_DEFAULT, "hz_zone_malloc");
    void (*zone_destroy)(void *) = (void (*)(void *))(uintptr_t)dlsym(RTLD_DEFAULT, "hz_zone_destroy");
    bool has_zones = zone_create != NULL && zone_malloc != NULL && zone_destroy != NULL;
    char **blocks = table_new(row->blocks, sizeof(*blocks));
    uint32_t rounds = row->ops / row->blocks;
    for (uint32_t round = 0; round < 2 * rounds; round++) {
        if (round == rounds)
            count_begin();
        void *zone = has_zones ? zone_create() : NULL;
        for (uint32_t i = 0; i < row->blocks; i++) {
            uint32_t size = size_of(row);
            blocks[i] = has_zones ? zone_malloc(zone, size) : malloc(size);
            if (blocks[i] == NULL)
                machine_fail("no memory for %" PRIu32 " bytes", size);
            *(volatile char *)blocks[i] = 1;
            time_passes(size);
        }
        for (uint32_t i = 0; i < row->blocks && !has_zones; i++)
            free(blocks[i]);
        if (has_zones)
            zone_destroy(zone);
    }
    count_end();
    return (uint64_t)rounds * row->blocks;
}

/* ---- several threads, one at a time --------------------------------------------------------------- */

/* A thread's turn comes by a byte in its pipe. Reading the byte takes the same instructions whether it has to wait or
 * not. */
struct player {
    pthread_t thread;
    unsigned index;
    long task;   /* the kernel's number of the thread */
    int turn[2]; /* pipe: the others write, the player reads */
    int *done;   /* pipe: the player writes, the main thread reads */
    void (*play)(struct player *player);
    const struct row *row;
    char **slots; /* of the player; some are empty */
    char **inbox; /* blocks that the player has to free */
    uint32_t in_inbox;
    struct player *next; /* who frees this player's blocks */
    bool is_over;
};

static struct player players[THREADS_MAX];

static void byte_put(int end) {
    char byte = 1;
    if (write(end, &byte, 1) != 1)
        machine_fail("cannot write to a pipe");
}

static void byte_get(int end) {
    char byte;
    if (read(end, &byte, 1) != 1)
        machine_fail("cannot read from a pipe");
}

static void cpu_become(unsigned cpu) {
    unsigned *own = cpu_of != NULL ? cpu_of() : NULL;
    if (own != NULL)
        *own = cpu;
}

static void *player_main(void *argument) {
    struct player *player = argument;
    cpu_become(player->index % 2);
    player->task = (long)gettid();
    byte_put(player->done[1]);
    for (;;) {
        byte_get(player->turn[0]);
        if (player->is_over)
            break;
        player->play(player);
        byte_put(player->done[1]);
    }
    return NULL;
}

static void players_begin(const struct row *row, unsigned count, void (*play)(struct player *player)) {
    static int done[2];
    if (pipe(done) != 0)
        machine_fail("cannot make a pipe");
    for (unsigned i = 0; i < count; i++) {
        players[i] = (struct player){
            .index = i,
            .done = done,
            .play = play,
            .row = row,
            .slots = table_new(row->blocks, sizeof(char *)),
            .inbox = table_new((size_t)row->blocks + TURN_STEPS, sizeof(char *)),
            .next = &players[(i + 1) % count],
        };
        if (pipe(players[i].turn) != 0 || pthread_create(&players[i].thread, NULL, player_main, &players[i]) != 0)
            machine_fail("cannot start a thread");
        byte_get(done[0]); /* the allocator may do something when a thread starts: one after the other */
    }
}

static void round_play(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        byte_put(players[i].turn[1]);
        byte_get(players[i].done[0]);
    }
}

static void players_end(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        players[i].is_over = true;
        byte_put(players[i].turn[1]);
        (void)pthread_join(players[i].thread, NULL);
    }
}

/* Plays the row's operations. An operation is two steps: a malloc and the matching free. */
static uint64_t rounds_play(const struct row *row, unsigned count, void (*play)(struct player *player)) {
    uint32_t round_ops = count * TURN_STEPS / 2;
    uint32_t rounds = row->ops / round_ops;
    players_begin(row, count, play);
    for (uint32_t round = 0; round < 2 * rounds; round++) {
        if (round == rounds)
            count_begin();
        round_play(count);
    }
    count_end();
    players_end(count);
    return (uint64_t)rounds * round_ops;
}

/* As bench_random_mixed_mt_remote_malloc: frees what came, then toggles slots. `more`: threads << 8 | percent of the
   blocks that the next thread frees. */
static void ring_play(struct player *player) {
    const struct row *row = player->row;
    for (uint32_t i = 0; i < player->in_inbox; i++)
        free(player->inbox[i]);
    player->in_inbox = 0;
    for (uint32_t i = 0; i < TURN_STEPS; i++) {
        uint32_t slot = below(row->blocks);
        if (player->slots[slot] == NULL) {
            player->slots[slot] = block_new(size_of(row));
            continue;
        }
        struct player *next = player->next;
        if (below(100) < (row->more & 0xff) && next->in_inbox < row->blocks)
            next->inbox[next->in_inbox++] = player->slots[slot];
        else
            free(player->slots[slot]);
        player->slots[slot] = NULL;
        time_passes(0);
    }
}

static uint64_t run_ring(const struct row *row) {
    return rounds_play(row, row->more >> 8, ring_play);
}

/* Even players only allocate, odd ones only free. */
static void queue_play(struct player *player) {
    struct player *next = player->next;
    if (player->index % 2 == 0) {
        for (uint32_t i = 0; i < TURN_STEPS; i++)
            next->inbox[next->in_inbox++] = block_new(size_of(player->row));
        return;
    }
    for (uint32_t i = 0; i < player->in_inbox; i++) {
        free(player->inbox[i]);
        time_passes(0);
    }
    player->in_inbox = 0;
}

static uint64_t run_queue(const struct row *row) {
    return rounds_play(row, row->more, queue_play);
}

/* As larson: a thread replaces the blocks in the slots that it inherits, and ends. */
static void *heir_main(void *argument) {
    struct player *player = argument;
    const struct row *row = player->row;
    for (uint32_t i = 0; i < row->more; i++) {
        uint32_t slot = below(row->blocks);
        free(player->slots[slot]);
        player->slots[slot] = block_new(size_of(row));
    }
    return NULL;
}

static uint64_t run_heirs(const struct row *row) {
    struct player *player = &players[0];
    *player = (struct player){.row = row, .slots = table_new(row->blocks, sizeof(char *))};
    uint32_t threads = row->ops / row->more;
    for (uint32_t i = 0; i < 2 * threads; i++) {
        if (i == threads)
            count_begin();
        if (pthread_create(&player->thread, NULL, heir_main, player) != 0 || pthread_join(player->thread, NULL) != 0)
            machine_fail("cannot start a thread");
    }
    count_end();
    return (uint64_t)threads * row->more;
}

/* An operation is a thread that starts, makes `blocks` blocks, frees them and ends. */
static void *short_main(void *argument) {
    const struct row *row = argument;
    char *blocks[16];
    for (uint32_t i = 0; i < row->blocks; i++)
        blocks[i] = block_new(size_of(row));
    for (uint32_t i = 0; i < row->blocks; i++)
        free(blocks[i]);
    return NULL;
}

static uint64_t run_threads(const struct row *row) {
    struct row copy = *row;
    for (uint32_t i = 0; i < 2 * row->ops; i++) {
        pthread_t thread;
        if (i == row->ops)
            count_begin();
        if (pthread_create(&thread, NULL, short_main, &copy) != 0 || pthread_join(thread, NULL) != 0)
            machine_fail("cannot start a thread");
    }
    count_end();
    return row->ops;
}

/* ---- a thread of the allocator's own ------------------------------------------------------------------ */

static void leave_half(struct player *player) {
    const struct row *row = player->row;
    for (uint32_t i = 0; i < row->blocks; i++)
        player->slots[i] = block_new(size_of(row));
    for (uint32_t i = 0; i < row->blocks; i += 2)
        free(player->slots[i]);
}

static bool is_of_program(long task, unsigned count) {
    bool found = task == (long)getpid();
    for (unsigned i = 0; i < count; i++)
        found = found || players[i].task == task;
    return found;
}

/* A thread that is neither the main one nor one of `count` players; 0: there is none. */
static long other_thread(unsigned count) {
    long found = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        machine_fail("cannot read /proc/self/task");
    for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        long task = strtol(entry->d_name, NULL, 10); /* 0: "." and ".." */
        found = task > 0 && !is_of_program(task, count) ? task : found;
    }
    (void)closedir(tasks);
    return found;
}

/* How often the thread has gone to sleep. Does not allocate. */
static uint64_t sleeps_of(long task) {
    static const char key[] = "\nvoluntary_ctxt_switches:";
    char path[64];
    char text[4096];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%ld/status", task);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof(text) - 1) : -1;
    if (length < 0)
        machine_fail("cannot read %s", path);
    (void)close(file);
    text[length] = '\0';
    const char *found = strstr(text, key);
    return found != NULL ? strtoull(found + sizeof(key) - 1, NULL, 10) : 0;
}

static void wait_for_sleeps(long task, uint64_t more) {
    enum { POLL_US = 20000 };
    uint64_t end = sleeps_of(task) + more;
    while (sleeps_of(task) < end)
        (void)usleep(POLL_US);
}

/* What the allocator's own thread does while the other threads sleep, which have freed half of their blocks. An
   operation is one round of that thread. Nothing else runs in the allocator's file meanwhile. hakobench takes the
   number of rounds from callgrind, since a thread also sleeps when it waits for valgrind itself. */
static uint64_t run_keeper(const struct row *row) {
    enum { WARM_SLEEPS = 10 };
    unsigned count = row->more;
    players_begin(row, count, leave_half);
    round_play(count);
    long keeper = other_thread(count);
    if (keeper == 0)
        machine_fail("the allocator has no thread of its own");
    wait_for_sleeps(keeper, WARM_SLEEPS);
    count_begin();
    wait_for_sleeps(keeper, row->ops);
    count_end();
    players_end(count);
    return row->ops;
}

/* ---- the rows ---------------------------------------------------------------------------------------- */

#define RING(threads, percent) ((threads) << 8 | (percent))

static const struct row rows[] = {
    /* name, family, operations, blocks, sizes, more */
    {"loop-16-64", run_loop, 20000, 400, 16, 64, 0},
    {"loop-16-256", run_loop, 20000, 400, 16, 256, 0},
    {"loop-16-2K", run_loop, 20000, 400, 16, 2 * KIB, 0},
    {"loop-1K-8K", run_loop, 20000, 400, KIB, 8 * KIB, 0},
    {"loop-2K-32K", run_loop, 20000, 400, 2 * KIB, 32 * KIB, 0},
    {"loop-2K-64K", run_loop, 20000, 400, 2 * KIB, 64 * KIB, 0},
    {"loop-64K-256K", run_loop, 5000, 100, 64 * KIB + 1, 256 * KIB, 0},
    {"loop-256K-2M", run_loop, 5000, 50, 256 * KIB, 2 * MIB, 0},
    {"loop-1M-4M", run_loop, 5000, 20, MIB, 4 * MIB, 0},
    {"pair-64", run_pair, 20000, 0, 64, 64, 0},
    {"pair-1000", run_pair, 20000, 0, 1000, 1000, 0},
    {"pair-32000", run_pair, 20000, 0, 32000, 32000, 0},
    {"pair-66000", run_pair, 10000, 0, 66000, 66000, 0},
    {"pair-1000000", run_pair, 10000, 0, 1000000, 1000000, 0},
    {"pair-3000000", run_pair, 10000, 0, 3000000, 3000000, 0},
    {"live-100", run_loop, 20000, 100, 16, 128, 0},
    {"live-10000", run_loop, 20000, 10000, 16, 128, 0},
    {"live-100000", run_loop, 40000, 100000, 16, 128, 0},
    {"live-1000000", run_loop, 40000, 1000000, 16, 128, 0},
    {"live-10000-1K", run_loop, 20000, 10000, 16, KIB, 0},
    {"burst-1000", run_burst, 20000, 1000, 16, 128, FORWARD},
    {"burst-1000-random", run_burst, 20000, 1000, 16, 128, RANDOM},
    {"burst-10000", run_burst, 40000, 10000, 16, 128, FORWARD},
    {"burst-10000-reverse", run_burst, 40000, 10000, 16, 128, REVERSE},
    {"burst-10000-random", run_burst, 40000, 10000, 16, 128, RANDOM},
    {"burst-100000", run_burst, 100000, 100000, 16, 64, FORWARD},
    {"burst-100000-random", run_burst, 100000, 100000, 16, 64, RANDOM},
    {"burst-1000-4K", run_burst, 10000, 1000, KIB, 8 * KIB, FORWARD},
    {"growth-double", run_growth, 100, 0, 16, 4 * MIB, 0},
    {"growth-step", run_growth, 10, 0, 100, 200000, 100},
    {"calloc-16-4K", run_calloc, 20000, 400, 16, 4 * KIB, 0},
    {"aligned-16-4K", run_aligned, 20000, 400, 16, 4 * KIB, 4096},
    {"zone-30", run_zone, 6000, 30, 16, 256, 0},
    {"ring-T2-R50", run_ring, 20000, 2000, 16, 2 * KIB, RING(2, 50)},
    {"ring-T4-R90", run_ring, 20000, 2000, 16, 2 * KIB, RING(4, 90)},
    {"ring-T16-R90", run_ring, 40000, 1000, 16, 2 * KIB, RING(16, 90)},
    {"ring-T16-R90-64K", run_ring, 40000, 200, 16, 64 * KIB, RING(16, 90)},
    {"ring-T64-R90", run_ring, 60000, 400, 16, 2 * KIB, RING(64, 90)},
    {"queue-1-1-64", run_queue, 20000, 400, 64, 64, 2},
    {"queue-2-2-mixed", run_queue, 20000, 400, 16, KIB, 4},
    {"heirs", run_heirs, 20000, 1000, 16, 512, 1000},
    {"threads", run_threads, 300, 10, 16, 512, 0},
    {"keeper-8", run_keeper, 100, 2000, 16, 2 * KIB, 8},
};

int main(int argc, char **argv) {
    machine_stdout_prepare();
    const char *names[ARGS_COUNT(rows) + 1] = {NULL};
    for (size_t i = 0; i < ARGS_COUNT(rows); i++)
        names[i] = rows[i].name;
    uint64_t chosen = 0;
    uint64_t only_list = 0;
    const struct args_item items[] = {
        ARGS_ROW_CHOICE("row", &chosen, names, "the program to run"),
        ARGS_ROW_FLAG("list", &only_list, "print the names of all rows, and run none"),
    };
    const struct args_spec spec = {
        .summary = "One of many small programs that do the same in every run, to be counted by callgrind.",
        .items = items,
        .item_count = ARGS_COUNT(items),
    };
    (void)args_parse(&spec, argc, argv);
    for (size_t i = 0; i < ARGS_COUNT(rows) && only_list; i++)
        printf("%s\n", rows[i].name);
    if (only_list)
        return 0;
    now_ns = dlsym(RTLD_DEFAULT, "still_now_ns");
    cpu_of = (unsigned *(*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "still_cpu_of");
    uint64_t ops = rows[chosen].run(&rows[chosen]);
    machine_print_malloc_source();
    printf("still=%s\n", now_ns != NULL ? "yes" : "no");
    machine_print_rss();
    printf("ops=%" PRIu64 "\n", ops);
    return 0;
}
