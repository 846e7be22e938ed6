/*
 * random_mixed.c - see random_mixed.h.
 */
#include "random_mixed.h"

#include <inttypes.h>
#include <stdio.h>

#include "block.h"
#include "machine.h"
#include "worker.h"

struct counts {
    uint64_t allocated, freed;
};

int random_mixed_parse(struct random_mixed *config, int argc, char **argv, enum args_kind seed_kind,
                       const char *summary, const char *tail_usage) {
    *config = (struct random_mixed){.seed = 1};
    const struct args_item items[RANDOM_MIXED_ARGS] = {
        ARGS_ROW(ARGS_REQUIRED, "ITERS", &config->iters, 1, UINT64_C(1) << 40, "steps"),
        ARGS_ROW(ARGS_REQUIRED, "WS", &config->slot_count, 1, 1 << 26, "slots (working set)"),
        ARGS_ROW(ARGS_REQUIRED, "MIN", &config->size_min, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "smallest size in bytes"),
        ARGS_ROW(ARGS_REQUIRED, "MAX", &config->size_max, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "largest size in bytes"),
        ARGS_ROW(seed_kind, "SEED", &config->seed, 0, UINT64_MAX, "random seed"),
        ARGS_ROW_FLAG("pair", &config->pair, "fill all slots first, then free and malloc in one step"),
        ARGS_ROW_CHOICE("check", &config->check, block_check_words, "bytes verified at each free"),
    };
    memcpy(config->items, items, sizeof items);
    config->spec = (struct args_spec){summary, config->items, RANDOM_MIXED_ARGS, tail_usage};
    int tail_count = args_parse(&config->spec, argc, argv);
    args_require_ordered(&config->spec, "MIN", config->size_min, "MAX", config->size_max);
    return tail_count;
}

static struct counts run_toggle(const struct block_rules *rules, struct draw_cursor *draws, block_ticket *slots,
                                uint64_t iters, uint32_t tags) {
    struct counts counts = {0, 0};
    for (uint64_t i = 0; i < iters; i++) {
        struct draw draw = draw_next(draws);
        block_ticket block = slots[draw.slot];
        if (block != 0) {
            block_release(rules, block);
            slots[draw.slot] = 0;
            counts.freed++;
        } else {
            slots[draw.slot] = block_new(rules, draw.size, &tags);
            counts.allocated++;
        }
    }
    return counts;
}

static struct counts run_pairs(const struct block_rules *rules, struct draw_cursor *draws, block_ticket *slots,
                               uint64_t iters, uint32_t tags) {
    for (uint64_t i = 0; i < iters; i++) {
        struct draw draw = draw_next(draws);
        block_release(rules, slots[draw.slot]);
        slots[draw.slot] = block_new(rules, draw.size, &tags);
    }
    return (struct counts){iters, iters};
}

void random_mixed_run(const struct random_mixed *config, const struct size_mix *mix, const char *sizes) {
    const struct block_rules rules = {mix->min, mix->max, config->check == BLOCK_CHECK_FULL};
    machine_cpus_read();
    machine_pin(0);
    struct draw_cursor draws;
    draw_cursor_open(&draws, config->seed, 0, (uint32_t)config->slot_count, mix, 0);
    uint32_t tags = 0;
    block_ticket *slots = machine_map(config->slot_count, sizeof *slots);
    uint64_t filled = 0;
    for (; config->pair && filled < config->slot_count; filled++) {
        slots[filled] = block_new(&rules, size_mix_draw(mix, &draws.rng), &tags);
    }
    uint64_t start_ns = machine_now_ns();
    struct counts counts = config->pair ? run_pairs(&rules, &draws, slots, config->iters, tags)
                                        : run_toggle(&rules, &draws, slots, config->iters, tags);
    double seconds = (double)(machine_now_ns() - start_ns) / 1e9;
    uint64_t remaining = 0;
    for (uint64_t s = 0; s < config->slot_count; s++) {
        if (slots[s] != 0) {
            block_release(&rules, slots[s]);
            remaining++;
        }
    }
    uint64_t operations = counts.allocated + counts.freed;
    machine_require_equal("allocated + freed = operations", operations, config->iters * (config->pair ? 2 : 1));
    machine_require_equal("filled + allocated = freed + remaining", filled + counts.allocated,
                          counts.freed + remaining);
    printf("iters=%" PRIu64 " ws=%" PRIu64 " min=%" PRIu64 " max=%" PRIu64 " seed=%" PRIu64
           " sizes=%s mode=%s check=%s\n",
           config->iters, config->slot_count, config->size_min, config->size_max, config->seed, sizes,
           config->pair ? "pair" : "toggle", block_check_words[config->check]);
    printf("filled=%" PRIu64 " allocated=%" PRIu64 " freed=%" PRIu64 " remaining_freed=%" PRIu64 "\n", filled,
           counts.allocated, counts.freed, remaining);
    printf("pairs_per_s=%.0f\n", (double)operations / 2 / seconds);
    workers_print_result(seconds, "ops_per_s", (double)operations / seconds);
}
