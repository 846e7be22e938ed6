/*
 * args.c - see args.h. One table per workload drives the parsing, the messages and the usage text, so
 * they cannot disagree about a range.
 */
#define _GNU_SOURCE
#include "args.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_positional(const struct args_item *item) {
    return item->kind == ARGS_REQUIRED || item->kind == ARGS_OPTIONAL;
}

static void print_words(FILE *out, const struct args_item *item) {
    for (size_t w = 0; item->words[w] != NULL; w++) {
        fprintf(out, "%s%s", w == 0 ? "" : "|", item->words[w]);
    }
}

static void print_synopsis(FILE *out, const struct args_spec *spec) {
    fprintf(out, "usage: %s", program_invocation_short_name);
    for (size_t i = 0; i < spec->item_count; i++) {
        const struct args_item *item = &spec->items[i];
        if (is_positional(item)) {
            fprintf(out, item->kind == ARGS_REQUIRED ? " %s" : " [%s]", item->name);
        }
    }
    fprintf(out, "%s%s [options]\n", spec->tail_usage != NULL ? " " : "",
            spec->tail_usage != NULL ? spec->tail_usage : "");
}

static void print_item(FILE *out, const struct args_item *item) {
    fprintf(out, is_positional(item) ? "  %s" : "  --%s", item->name);
    if (item->kind == ARGS_CHOICE) {
        fputc('=', out);
        print_words(out, item);
        fprintf(out, ": %s (default %s)\n", item->help, item->words[*item->value]);
    } else if (item->kind == ARGS_FLAG) {
        fprintf(out, ": %s\n", item->help);
    } else {
        fprintf(out, "%s: %s, %" PRIu64 "..%" PRIu64, item->kind == ARGS_NUMBER ? "=N" : "", item->help, item->min,
                item->max);
        if (item->kind == ARGS_REQUIRED) {
            fputc('\n', out);
        } else {
            fprintf(out, " (default %" PRIu64 ")\n", *item->value);
        }
    }
}

static void print_usage(FILE *out, const struct args_spec *spec) {
    print_synopsis(out, spec);
    fprintf(out, "%s\n", spec->summary);
    for (size_t i = 0; i < spec->item_count; i++) {
        print_item(out, &spec->items[i]);
    }
}

_Noreturn void args_fail(const struct args_spec *spec, const char *format, ...) {
    va_list values;
    va_start(values, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, values);
    va_end(values);
    fprintf(stderr, "\n%s --help explains the arguments\n", program_invocation_short_name);
    print_synopsis(stderr, spec);
    exit(2);
}

uint64_t args_number(const struct args_spec *spec, const char *name, const char *word, uint64_t min, uint64_t max) {
    bool hexadecimal = word[0] == '0' && (word[1] == 'x' || word[1] == 'X');
    const char *digits = hexadecimal ? word + 2 : word;
    const char *allowed = hexadecimal ? "0123456789abcdefABCDEF" : "0123456789";
    errno = 0;
    /* strtoull accepts signs and blanks, so pass it digits only */
    bool shaped = digits[0] != '\0' && digits[strspn(digits, allowed)] == '\0';
    unsigned long long value = shaped ? strtoull(digits, NULL, hexadecimal ? 16 : 10) : 0;
    if (!shaped || errno == ERANGE || value < min || value > max) {
        args_fail(spec, "%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, name, word, min, max);
    }
    return value;
}

static const struct args_item *find_option(const struct args_spec *spec, const char *name, size_t length) {
    for (size_t i = 0; i < spec->item_count; i++) {
        const struct args_item *item = &spec->items[i];
        if (!is_positional(item) && strlen(item->name) == length && strncmp(item->name, name, length) == 0) {
            return item;
        }
    }
    return NULL;
}

static void parse_choice(const struct args_spec *spec, const struct args_item *item, const char *word) {
    char allowed[256] = "";
    for (uint64_t w = 0; item->words[w] != NULL; w++) {
        if (strcmp(item->words[w], word) == 0) {
            *item->value = w;
            return;
        }
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", w == 0 ? "" : " or ", item->words[w]);
    }
    args_fail(spec, "--%s: '%s' is not %s", item->name, word, allowed);
}

static void parse_option(const struct args_spec *spec, const char *word) {
    const char *name = word + 2;
    size_t length = strcspn(name, "=");
    const struct args_item *item = find_option(spec, name, length);
    if (item == NULL) {
        args_fail(spec, "unknown option '%s'", word);
    }
    bool has_value = name[length] == '=';
    if (has_value != (item->kind != ARGS_FLAG)) {
        args_fail(spec, has_value ? "'%s': --%s takes no value" : "'%s': --%s needs a value after '='", word,
                  item->name);
    }
    const char *value = name + length + 1;
    if (item->kind == ARGS_FLAG) {
        *item->value = 1;
    } else if (item->kind == ARGS_CHOICE) {
        parse_choice(spec, item, value);
    } else {
        *item->value = args_number(spec, item->name, value, item->min, item->max);
    }
}

static const struct args_item *next_positional(const struct args_spec *spec, size_t *at) {
    while (*at < spec->item_count && !is_positional(&spec->items[*at])) {
        (*at)++;
    }
    return *at < spec->item_count ? &spec->items[(*at)++] : NULL;
}

int args_parse(const struct args_spec *spec, int argc, char **argv) {
    size_t at = 0;
    int tail_count = 0;
    for (int a = 1; a < argc; a++) {
        if (strcmp(argv[a], "--help") == 0) {
            print_usage(stdout, spec);
            exit(0);
        }
        if (strncmp(argv[a], "--", 2) == 0) {
            parse_option(spec, argv[a]);
            continue;
        }
        const struct args_item *item = next_positional(spec, &at);
        if (item != NULL) {
            *item->value = args_number(spec, item->name, argv[a], item->min, item->max);
        } else if (spec->tail_usage != NULL) {
            argv[++tail_count] = argv[a];
        } else {
            args_fail(spec, "'%s' is one argument too many", argv[a]);
        }
    }
    const struct args_item *missing = next_positional(spec, &at);
    if (missing != NULL && missing->kind == ARGS_REQUIRED) {
        args_fail(spec, "%s is missing (%s, %" PRIu64 "..%" PRIu64 ")", missing->name, missing->help, missing->min,
                  missing->max);
    }
    return tail_count;
}

void args_require_ordered(const struct args_spec *spec, const char *low_name, uint64_t low, const char *high_name,
                          uint64_t high) {
    if (low > high) {
        args_fail(spec, "%s: '%" PRIu64 "' must not be above %s, which is %" PRIu64, low_name, low, high_name, high);
    }
}
