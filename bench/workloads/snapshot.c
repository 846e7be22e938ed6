/*
 * snapshot - a server that saves a snapshot: it forks, and the child reads its blocks, writes them elsewhere and frees
 * them one after the other, but for one in a thousand, while the parent goes on.
 *
 * The child begins with all of the parent's pages. What its frees give back no longer keeps a copy alive when the
 * parent changes the page. The figure is what is still resident in the child at its end.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/args.h"
#include "common/block.h"
#include "common/machine.h"
#include "common/rng.h"
#include "common/worker.h"

enum { MIN_DEFAULT = 16, MAX_DEFAULT = 4096, SIZE_MAX_BYTES = 1 << 20, KEPT_ONE_IN = 1000 };

struct config {
    uint64_t mib, min, max, seed, check;
};

/* The child's figures, through a pipe: its standard output would be the parent's, too. */
struct answer {
    uint64_t begin_kb;
    uint64_t end_kb;
};

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.min = MIN_DEFAULT, .max = MAX_DEFAULT, .seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "MIB", &config->mib, 1, 1 << 16, "MiB of blocks"),
        ARGS_ROW(ARGS_OPTIONAL, "MIN", &config->min, 16, SIZE_MAX_BYTES, "smallest size in bytes"),
        ARGS_ROW(ARGS_OPTIONAL, "MAX", &config->max, 16, SIZE_MAX_BYTES, "largest size in bytes"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "start of the random numbers"),
        ARGS_ROW_CHOICE("check", &config->check, block_check_words, "bytes verified at each free"),
    };
    const struct args_spec spec = {"A forked child frees nearly all blocks of its parent.", items, ARGS_COUNT(items),
                                   NULL};
    args_parse(&spec, argc, argv);
    args_require_ordered(&spec, "MIN", config->min, "MAX", config->max);
}

static void save(const struct block_rules *rules, block_ticket *blocks, uint64_t count, int out) {
    struct answer answer = {.begin_kb = machine_status_kb("VmRSS:")};
    for (uint64_t i = 0; i < count; i++)
        if (i % KEPT_ONE_IN != KEPT_ONE_IN - 1 && i != count - 1)
            block_release(rules, blocks[i]); /* reads the block first */
    answer.end_kb = machine_status_kb("VmRSS:");
    if (write(out, &answer, sizeof answer) != sizeof answer)
        machine_fail("cannot write to a pipe");
    _exit(0);
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    machine_pin(0);
    const struct block_rules rules = {(uint32_t)config.min, (uint32_t)config.max, config.check == BLOCK_CHECK_FULL};
    const uint64_t average = (config.min + config.max) / 2;
    const uint64_t count = (config.mib << 20) / average + 1;
    block_ticket *blocks = machine_map(count, sizeof *blocks);
    uint64_t random = rng_stream(config.seed, 0);
    uint32_t tags = block_first_tag(0);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t size = (uint32_t)config.min + rng_below(&random, (uint32_t)(config.max - config.min + 1));
        blocks[i] = block_new(&rules, size, &tags);
    }
    printf("mib=%" PRIu64 " min=%" PRIu64 " max=%" PRIu64 " seed=%" PRIu64 "\n", config.mib, config.min, config.max,
           config.seed);
    int ends[2];
    if (pipe(ends) != 0)
        machine_fail("cannot make a pipe");
    (void)fflush(stdout);
    uint64_t start = machine_now_ns();
    pid_t child = fork();
    if (child == 0)
        save(&rules, blocks, count, ends[1]);
    struct answer answer;
    int status;
    (void)close(ends[1]);
    if (child < 0 || read(ends[0], &answer, sizeof answer) != sizeof answer || waitpid(child, &status, 0) != child ||
        status != 0)
        machine_fail("the child has failed");
    double seconds = (double)(machine_now_ns() - start) / 1e9;
    for (uint64_t i = 0; i < count; i++)
        block_release(&rules, blocks[i]);
    printf("allocated=%" PRIu64 "\n", count);
    printf("child_begin_rss_kb=%" PRIu64 "\n", answer.begin_kb);
    workers_print_result(seconds, "child_rss_kb", (double)answer.end_kb);
    return 0;
}
