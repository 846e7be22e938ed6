/*
 * bench_random_mixed_malloc_dist - like bench_random_mixed_malloc_args, but with sizes from a mix of ranges:
 * "app" = 80 % 16..256, 15 % 257..2048, 5 % 2049..32768; "trimix" = three ranges with weights from the command line.
 * Every size is clamped to MIN..MAX.
 */
#include <string.h>

#include "common/block.h"
#include "common/machine.h"
#include "common/random_mixed.h"

static const struct size_mix app_mix = {.part_count = 3, .parts = {{16, 256, 80}, {257, 2048, 15}, {2049, 32768, 5}}};

static const char tail_usage[] = "app|trimix LO HI W LO HI W LO HI W";

static struct size_mix trimix_parse(const struct random_mixed *config, int word_count, char **words) {
    enum { WEIGHT_MAX = 1000000 };
    struct size_mix mix = {.part_count = 3};
    if (word_count != 9) {
        args_fail(&config->spec, "trimix takes 9 numbers (LO HI W three times), not %d", word_count);
    }
    uint32_t weights = 0;
    for (unsigned p = 0; p < 3; p++, words += 3) {
        uint64_t low = args_number(&config->spec, "LO", words[0], BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        uint64_t high = args_number(&config->spec, "HI", words[1], BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        args_require_ordered(&config->spec, "LO", low, "HI", high);
        mix.parts[p].low = (uint32_t)low;
        mix.parts[p].high = (uint32_t)high;
        mix.parts[p].weight = (uint32_t)args_number(&config->spec, "W", words[2], 0, WEIGHT_MAX);
        weights += mix.parts[p].weight;
    }
    if (weights == 0) {
        args_fail(&config->spec, "W: '0' three times; at least one weight must be from 1 to %d", WEIGHT_MAX);
    }
    return mix;
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct random_mixed config;
    int tail_count = random_mixed_parse(&config, argc, argv, ARGS_REQUIRED,
                                        "One thread toggles random slots (or with --pair replaces their blocks), sizes "
                                        "from a mix of ranges clamped to MIN..MAX.",
                                        tail_usage);
    if (tail_count == 0) {
        args_fail(&config.spec, "the distribution is missing: app, or trimix and 9 numbers");
    }
    struct size_mix mix;
    if (strcmp(argv[1], "app") == 0) {
        if (tail_count != 1) {
            args_fail(&config.spec, "'%s' is one argument too many: app takes no numbers", argv[2]);
        }
        mix = app_mix;
    } else if (strcmp(argv[1], "trimix") == 0) {
        mix = trimix_parse(&config, tail_count - 1, argv + 2);
    } else {
        args_fail(&config.spec, "'%s' is not a distribution; use app or trimix", argv[1]);
    }
    mix.min = (uint32_t)config.size_min;
    mix.max = (uint32_t)config.size_max;
    random_mixed_run(&config, &mix, argv[1]);
    return 0;
}
