/*
 * chains - programs in which each allocation waits for the one before: the result of a step is a new block, the next
 * step reads it and frees it. So the time from free to the next malloc of the same size counts, not the number of calls
 * that a processor can overlap. One thread; three shapes, after programs of that kind:
 *
 * integers  arithmetic on integers of 2 to 12 words. Each sum, product and remainder is a block of its own length.
 * cubes     minimisation of a logic function of 10 variables (Quine and McCluskey): every cube is a block, those that
 *           two others cover are freed, and merged ones go through a table of chains.
 * objects   an interpreter: numbers are boxed and counted, pairs make lists; each operation makes new ones and drops
 * its operands.
 *
 * Each round is checked against the same computation without blocks. The figure is pairs of malloc and free per second.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/args.h"
#include "common/machine.h"
#include "common/rng.h"
#include "common/worker.h"

enum { SHAPE_INTEGERS, SHAPE_CUBES, SHAPE_OBJECTS };
static const char *const shape_words[] = {"integers", "cubes", "objects", NULL};

struct config {
    uint64_t rounds, shape, seed;
};

static uint64_t allocated, freed;

static void *take(size_t bytes) {
    void *block = malloc(bytes);
    if (block == NULL)
        machine_fail("malloc returned NULL");
    allocated++;
    return block;
}

static void drop(void *block) {
    free(block);
    freed++;
}

/* ---- integers ------------------------------------------------------------------------------------ */

enum { WORDS_MIN = 2, WORDS_MAX = 12, PRODUCT_WORDS_MAX = 2 * WORDS_MAX + 1, INTEGER_STEPS = 1000 };

/* Words of 32 bits, the least first; the last is not 0 unless count is 1. */
struct integer {
    uint32_t count;
    uint32_t words[];
};

static uint32_t trimmed(const uint32_t *words, uint32_t count) {
    while (count > 1 && words[count - 1] == 0)
        count--;
    return count;
}

/* `out` has room for as many words as both together. Returns the number of words. */
static uint32_t words_multiply(uint32_t *out, const uint32_t *a, uint32_t a_count, const uint32_t *b,
                               uint32_t b_count) {
    memset(out, 0, (a_count + b_count) * sizeof *out);
    for (uint32_t i = 0; i < a_count; i++) {
        uint64_t carry = 0;
        for (uint32_t j = 0; j < b_count; j++) {
            carry += (uint64_t)a[i] * b[j] + out[i + j];
            out[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        out[i + b_count] = (uint32_t)carry;
    }
    return trimmed(out, a_count + b_count);
}

/* Adds a word; `out` has room for one word more than `a`. */
static uint32_t words_add(uint32_t *out, const uint32_t *a, uint32_t a_count, uint32_t word) {
    uint64_t carry = word;
    for (uint32_t i = 0; i < a_count; i++) {
        carry += a[i];
        out[i] = (uint32_t)carry;
        carry >>= 32;
    }
    out[a_count] = (uint32_t)carry;
    return trimmed(out, a_count + 1);
}

/* Folds the words above `keep` onto those below, a remainder modulo 2^(32 keep) - 1. `out` has room for keep + 1. */
static uint32_t words_fold(uint32_t *out, const uint32_t *a, uint32_t a_count, uint32_t keep) {
    memset(out, 0, (keep + 1) * sizeof *out);
    for (uint32_t from = 0; from < a_count; from += keep) {
        uint64_t carry = 0;
        for (uint32_t i = 0; i < keep || carry != 0; i++) {
            uint32_t at = i % keep; /* what leaves at the top comes in at the bottom */
            carry += (uint64_t)out[at] + (i < keep && from + i < a_count ? a[from + i] : 0);
            out[at] = (uint32_t)carry;
            carry >>= 32;
        }
    }
    return trimmed(out, keep);
}

static struct integer *integer_new(const uint32_t *words, uint32_t count) {
    struct integer *integer = take(sizeof *integer + count * sizeof *words);
    integer->count = count;
    memcpy(integer->words, words, count * sizeof *words);
    return integer;
}

static struct integer *integer_square(struct integer *a) {
    uint32_t words[PRODUCT_WORDS_MAX];
    struct integer *square = integer_new(words, words_multiply(words, a->words, a->count, a->words, a->count));
    drop(a);
    return square;
}

static struct integer *integer_add(struct integer *a, uint32_t word) {
    uint32_t words[PRODUCT_WORDS_MAX + 1];
    struct integer *sum = integer_new(words, words_add(words, a->words, a->count, word));
    drop(a);
    return sum;
}

static struct integer *integer_fold(struct integer *a, uint32_t keep) {
    uint32_t words[WORDS_MAX + 1];
    struct integer *rest = integer_new(words, words_fold(words, a->words, a->count, keep));
    drop(a);
    return rest;
}

/* x becomes x^2 + word, modulo numbers of 2 to 12 words in turn. */
static void integers_round(uint64_t seed) {
    uint32_t first[WORDS_MIN] = {(uint32_t)seed | 1, (uint32_t)(seed >> 32) | 1};
    uint32_t plain[PRODUCT_WORDS_MAX + 1], scratch[PRODUCT_WORDS_MAX + 1];
    uint32_t count = WORDS_MIN;
    memcpy(plain, first, sizeof first);
    struct integer *x = integer_new(first, WORDS_MIN);
    for (uint32_t step = 0; step < INTEGER_STEPS; step++) {
        uint32_t keep = WORDS_MIN + step % (WORDS_MAX - WORDS_MIN + 1);
        x = integer_fold(integer_add(integer_square(x), step), keep);
        if (step < INTEGER_STEPS / 100) {
            count = words_multiply(scratch, plain, count, plain, count);
            count = words_add(plain, scratch, count, step);
            memcpy(scratch, plain, count * sizeof *plain);
            count = words_fold(plain, scratch, count, keep);
            if (x->count != count || memcmp(x->words, plain, count * sizeof *plain) != 0)
                machine_fail("step %" PRIu32 ": the integer is not what it is without blocks", step);
        }
    }
    drop(x);
}

/* ---- cubes --------------------------------------------------------------------------------------- */

enum { VARIABLES = 10, POINTS = 1 << VARIABLES, CHAINS = 1 << 10 };

/* The points p with (p & ~free_bits) == bits. */
struct cube {
    struct cube *next;
    uint32_t bits, free_bits;
    bool is_covered;
};

static struct cube **chain_of(struct cube **chains, uint32_t bits, uint32_t free_bits) {
    return &chains[((bits * 0x9E3779B1U) ^ (free_bits * 0x85EBCA77U)) >> 22];
}

static struct cube *cube_find(struct cube **chains, uint32_t bits, uint32_t free_bits) {
    struct cube *cube = *chain_of(chains, bits, free_bits);
    while (cube != NULL && (cube->bits != bits || cube->free_bits != free_bits))
        cube = cube->next;
    return cube;
}

static void cube_add(struct cube **chains, uint32_t bits, uint32_t free_bits) {
    struct cube **chain = chain_of(chains, bits, free_bits);
    struct cube *cube = take(sizeof *cube);
    *cube = (struct cube){*chain, bits, free_bits, false};
    *chain = cube;
}

static void merge_all(struct cube **chains, struct cube **merged) {
    for (uint32_t c = 0; c < CHAINS; c++) {
        for (struct cube *cube = chains[c]; cube != NULL; cube = cube->next) {
            for (uint32_t bit = 1; bit < POINTS; bit <<= 1) {
                struct cube *other =
                    (cube->free_bits & bit) != 0 ? NULL : cube_find(chains, cube->bits ^ bit, cube->free_bits);
                if (other == NULL)
                    continue;
                cube->is_covered = other->is_covered = true;
                uint32_t bits = cube->bits & ~bit, free_bits = cube->free_bits | bit;
                if (cube_find(merged, bits, free_bits) == NULL)
                    cube_add(merged, bits, free_bits);
            }
        }
    }
}

/* Notes what the cubes that no other covers contain, and frees all. */
static void chains_drain(struct cube **chains, bool *is_contained) {
    for (uint32_t c = 0; c < CHAINS; c++) {
        for (struct cube *cube = chains[c], *next; cube != NULL; cube = next) {
            next = cube->next;
            for (uint32_t p = 0; p < POINTS && !cube->is_covered; p++)
                is_contained[p] = is_contained[p] || (p & ~cube->free_bits) == cube->bits;
            drop(cube);
        }
        chains[c] = NULL;
    }
}

static void cubes_round(uint64_t seed) {
    static struct cube *tables[2][CHAINS];
    static bool is_on[POINTS], is_contained[POINTS];
    uint64_t random = seed;
    for (uint32_t p = 0; p < POINTS; p++) {
        is_on[p] = rng_below(&random, 100) < 60;
        is_contained[p] = false;
        if (is_on[p])
            cube_add(tables[0], p, 0);
    }
    for (uint32_t level = 0; level <= VARIABLES; level++) {
        struct cube **chains = tables[level % 2];
        merge_all(chains, tables[(level + 1) % 2]);
        chains_drain(chains, is_contained);
    }
    chains_drain(tables[(VARIABLES + 1) % 2], is_contained);
    if (memcmp(is_on, is_contained, sizeof is_on) != 0)
        machine_fail("the cubes do not contain the points of the function");
}

/* ---- objects ------------------------------------------------------------------------------------- */

enum { LIST_LENGTH = 64, OBJECT_STEPS = 100 };

enum kind { KIND_NUMBER, KIND_PAIR };

/* The first member of a number or a pair. */
struct object {
    enum kind kind;
    uint32_t references;
};

struct number {
    struct object object;
    uint64_t value;
};

struct pair {
    struct object object;
    struct object *head;
    struct pair *tail;
};

static struct number *number_new(uint64_t value) {
    struct number *number = take(sizeof *number);
    *number = (struct number){{KIND_NUMBER, 1}, value};
    return number;
}

/* Takes over the caller's references. */
static struct pair *pair_new(struct number *head, struct pair *tail) {
    struct pair *pair = take(sizeof *pair);
    *pair = (struct pair){{KIND_PAIR, 1}, &head->object, tail};
    return pair;
}

static struct number *head_held(const struct pair *pair) {
    pair->head->references++;
    return (struct number *)(void *)pair->head;
}

static void release(struct object *object) {
    while (object != NULL && --object->references == 0) {
        struct object *tail = NULL;
        if (object->kind == KIND_PAIR) {
            struct pair *pair = (struct pair *)(void *)object;
            release(pair->head);
            tail = pair->tail == NULL ? NULL : &pair->tail->object;
        }
        drop(object);
        object = tail;
    }
}

/* Each of these drops its operands. */
static struct number *number_add(struct number *a, struct number *b) {
    struct number *sum = number_new(a->value + b->value);
    release(&a->object);
    release(&b->object);
    return sum;
}

static struct number *number_multiply(struct number *a, struct number *b) {
    struct number *product = number_new(a->value * b->value);
    release(&a->object);
    release(&b->object);
    return product;
}

/* The list in reverse, each number n as 3 n + step. */
static struct pair *list_map(struct pair *list, uint64_t step) {
    struct pair *mapped = NULL;
    for (struct pair *at = list; at != NULL; at = at->tail) {
        struct number *product = number_multiply(head_held(at), number_new(3));
        mapped = pair_new(number_add(product, number_new(step)), mapped);
    }
    release(&list->object);
    return mapped;
}

static uint64_t list_sum(const struct pair *list) {
    struct number *sum = number_new(0);
    for (; list != NULL; list = list->tail)
        sum = number_add(sum, head_held(list));
    uint64_t value = sum->value;
    release(&sum->object);
    return value;
}

static void objects_round(uint64_t seed) {
    struct pair *list = NULL;
    uint64_t expected = 0;
    for (uint64_t n = 0; n < LIST_LENGTH; n++) {
        list = pair_new(number_new(seed + n), list);
        expected += seed + n;
    }
    for (uint64_t step = 0; step < OBJECT_STEPS; step++) {
        list = list_map(list, step);
        expected = 3 * expected + LIST_LENGTH * step;
        if (list_sum(list) != expected)
            machine_fail("step %" PRIu64 ": the sum of the list is wrong", step);
    }
    release(&list->object);
}

/* ---- main ---------------------------------------------------------------------------------------- */

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "ROUNDS", &config->rounds, 1, UINT64_C(1) << 32, "rounds"),
        ARGS_ROW_CHOICE("shape", &config->shape, shape_words, "what is computed"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config->seed, 0, UINT64_MAX, "seed of the operands"),
    };
    const struct args_spec spec = {"Computes with blocks of which each depends on the one before.", items,
                                   ARGS_COUNT(items), NULL};
    args_parse(&spec, argc, argv);
}

int main(int argc, char **argv) {
    static void (*const rounds[])(uint64_t) = {integers_round, cubes_round, objects_round};
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    machine_cpus_read();
    machine_pin(0);
    uint64_t begin = machine_now_ns();
    for (uint64_t round = 0; round < config.rounds; round++)
        rounds[config.shape](rng_stream(config.seed, round));
    double seconds = (double)(machine_now_ns() - begin) / 1e9;
    machine_require_equal("freed = allocated", freed, allocated);
    printf("rounds=%" PRIu64 " shape=%s seed=%" PRIu64 "\n", config.rounds, shape_words[config.shape], config.seed);
    printf("allocated=%" PRIu64 " freed=%" PRIu64 "\n", allocated, freed);
    printf("pairs_per_s=%.0f\n", (double)freed / seconds);
    workers_print_result(seconds, "ops_per_s", (double)freed * 2 / seconds);
    return 0;
}
