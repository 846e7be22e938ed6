/*
 * trivial - the time and memory that an allocator adds to a program that does nothing.
 *
 * Starts itself REPEATS times one after the other, with 0 for REPEATS: such a child returns from main at once. Printed:
 * startup_us and startup_min_us, the median and the shortest time from the start of a child to its end, and
 * start_rss_kb, the median VmRSS that a few more children read in main. A preloaded library is loaded into every child.
 * All of them run on the cpu of the parent, so the time holds no wake-up of an idle cpu.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/args.h"
#include "common/machine.h"
#include "common/worker.h"

enum { REPEATS_DEFAULT = 500, REPEATS_MAX = 1000000, REPORTS = 9 };

extern char **environ;

struct config {
    uint64_t repeats, report;
};

static pid_t start(const char *how, posix_spawn_file_actions_t *actions) {
    char *argv[] = {(char *)(uintptr_t)program_invocation_short_name, (char *)(uintptr_t) "0", NULL, NULL};
    argv[2] = (char *)(uintptr_t)how;
    pid_t child;
    int error = posix_spawn(&child, "/proc/self/exe", actions, NULL, argv, environ);
    if (error != 0) {
        machine_fail("cannot start a child: %s", strerror(error));
    }
    return child;
}

static void await(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            machine_fail("waitpid: %s", strerror(errno));
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        machine_fail("a child that does nothing ended with status 0x%x", (unsigned)status);
    }
}

/* The VmRSS in KiB that a child reads in its main. */
static uint64_t child_rss_kb(void) {
    int ends[2];
    if (pipe(ends) != 0) {
        machine_fail("pipe: %s", strerror(errno));
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    pid_t child = start("--report", &actions);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    char text[64];
    ssize_t length = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    await(child);
    unsigned long long value = 0;
    text[length > 0 ? length : 0] = '\0';
    if (sscanf(text, "start_rss_kb=%llu", &value) != 1) {
        machine_fail("a child reported '%s' in place of its RSS", text);
    }
    return value;
}

static int by_value(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static uint64_t median(uint64_t *values, uint64_t count) {
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

static void parse(struct config *config, int argc, char **argv) {
    *config = (struct config){.repeats = REPEATS_DEFAULT};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_OPTIONAL, "REPEATS", &config->repeats, 0, REPEATS_MAX, "starts; 0: do nothing"),
        ARGS_ROW_FLAG("report", &config->report, "with 0: print the RSS"),
    };
    const struct args_spec spec = {"Measures the start of a program that does nothing.", items, ARGS_COUNT(items),
                                   NULL};
    args_parse(&spec, argc, argv);
    if (config->report != 0 && config->repeats != 0) {
        args_fail(&spec, "--report: only with 0 for REPEATS");
    }
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "0") == 0) {
        return 0;
    }
    machine_stdout_prepare();
    struct config config;
    parse(&config, argc, argv);
    if (config.repeats == 0) {
        printf("start_rss_kb=%" PRIu64 "\n", machine_status_kb("VmRSS:"));
        return 0;
    }
    machine_cpus_read();
    machine_pin(0);
    uint64_t *nanoseconds = machine_map(config.repeats, sizeof *nanoseconds);
    uint64_t began = machine_now_ns();
    for (uint64_t i = 0; i < config.repeats; i++) {
        uint64_t from = machine_now_ns();
        await(start(NULL, NULL));
        nanoseconds[i] = machine_now_ns() - from;
    }
    double seconds = (double)(machine_now_ns() - began) / 1e9;
    uint64_t rss_kb[REPORTS];
    for (unsigned i = 0; i < REPORTS; i++) {
        rss_kb[i] = child_rss_kb();
    }
    double middle = (double)median(nanoseconds, config.repeats) / 1e3;
    printf("repeats=%" PRIu64 "\n", config.repeats);
    printf("start_rss_kb=%" PRIu64 "\n", median(rss_kb, REPORTS));
    printf("startup_min_us=%.1f\n", (double)nanoseconds[0] / 1e3);
    workers_print_result(seconds, "startup_us", middle);
    return 0;
}
