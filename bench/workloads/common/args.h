/*
 * args.h - the command line of a workload: positional numbers, and options anywhere among them.
 *
 * main parses the arguments before anything else but the set-up of stdout. Every mistake ends the program with exit
 * code 2 after a message that names the word and what is allowed in its place; --help prints the usage and exits 0.
 */
#ifndef WORKLOADS_ARGS_H
#define WORKLOADS_ARGS_H

#include <stddef.h>
#include <stdint.h>

enum args_kind {
    ARGS_REQUIRED, /* positional number */
    ARGS_OPTIONAL, /* positional number that may be omitted; follows all required ones */
    ARGS_NUMBER,   /* --name=number */
    ARGS_CHOICE,   /* --name=word; *value becomes the index of the word */
    ARGS_FLAG      /* --name; *value becomes 1 */
};

struct args_item {
    enum args_kind kind;
    const char *name;         /* "THREADS" for positional ones, "seed" for --seed */
    uint64_t *value;          /* the default before parsing, the result afterwards */
    uint64_t min, max;        /* for numbers: the range, both ends included */
    const char *const *words; /* for choices: the words, ending with NULL */
    const char *help;
};

struct args_spec {
    const char *summary;
    const struct args_item *items;
    size_t item_count;
    const char *tail_usage; /* words allowed after the positional numbers; NULL: none */
};

/* Table rows. `value` is a uint64_t *. */
#define ARGS_ROW(kind, name, value, min, max, help)                                                                    \
    { kind, name, value, min, max, NULL, help }
#define ARGS_ROW_CHOICE(name, value, words, help)                                                                      \
    { ARGS_CHOICE, name, value, 0, 0, words, help }
#define ARGS_ROW_FLAG(name, value, help)                                                                               \
    { ARGS_FLAG, name, value, 0, 0, NULL, help }

#define ARGS_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Fills in the values. Moves the words of the tail to argv[1] and up and returns their number. */
int args_parse(const struct args_spec *spec, int argc, char **argv);

/* Parses a decimal or 0x hexadecimal number. Ends the program when `word` is not a number within min..max. */
uint64_t args_number(const struct args_spec *spec, const char *name, const char *word, uint64_t min, uint64_t max);

/* Prints "<program>: <message>" and the usage to stderr and exits with code 2. */
_Noreturn void args_fail(const struct args_spec *spec, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ends the program unless low <= high. Most workloads check their sizes with it. */
void args_require_ordered(const struct args_spec *spec, const char *low_name, uint64_t low, const char *high_name,
                          uint64_t high);

#endif /* WORKLOADS_ARGS_H */
