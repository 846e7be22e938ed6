/*
 * measure_child - runs a program and reports the largest RSS of the program and the descendants it waited for.
 *
 * The kernel's ru_maxrss of a process includes its size before exec, so a benchmark tool that started programs directly
 * would see its own size in theirs. This small program stands between the two: only its own size (about 1 MiB) can get
 * into the figure. It ends as the program ended: with the same exit code, or by the same signal.
 *
 * usage: measure_child REPORT [NAME=VALUE ...] -- PROGRAM [ARGUMENT ...]
 * When the program has ended, `peak_rss_kb=N` is written to the file REPORT. The variables are set for the program
 * only, so measure_child itself runs without the preloaded library.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, EXIT_BROKEN = 125, EXIT_NO_PROGRAM = 127 };

static _Noreturn void fail(const char *what, const char *name) {
    fprintf(stderr, "measure_child: %s '%s': %s\n", what, name, strerror(errno));
    exit(EXIT_BROKEN);
}

static _Noreturn void become(char **settings, char **argv) {
    for (char **setting = settings; strcmp(*setting, "--") != 0; setting++) {
        if (putenv(*setting) != 0) {
            fail("cannot set", *setting);
        }
    }
    execvp(argv[0], argv);
    fprintf(stderr, "measure_child: cannot run '%s': %s\n", argv[0], strerror(errno));
    _exit(EXIT_NO_PROGRAM);
}

static void write_report(const char *path) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    FILE *report = fopen(path, "w");
    if (report == NULL || fprintf(report, "peak_rss_kb=%ld\n", usage.ru_maxrss) < 0 || fclose(report) != 0) {
        fail("cannot write", path);
    }
}

static _Noreturn void end_like(int status) {
    if (WIFSIGNALED(status)) {
        prctl(PR_SET_DUMPABLE, 0); /* the program's own core file is enough */
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BROKEN);
}

int main(int argc, char **argv) {
    int mark = 2;
    while (mark < argc && strcmp(argv[mark], "--") != 0) {
        if (strchr(argv[mark], '=') == NULL) {
            fprintf(stderr, "measure_child: '%s' is not NAME=VALUE\n", argv[mark]);
            return EXIT_USAGE;
        }
        mark++;
    }
    if (mark + 1 >= argc) {
        fputs("usage: measure_child REPORT [NAME=VALUE ...] -- PROGRAM [ARGUMENT ...]\n", stderr);
        return EXIT_USAGE;
    }
    pid_t child = fork();
    if (child < 0) {
        fail("cannot fork for", argv[mark + 1]);
    }
    if (child == 0) {
        become(&argv[2], &argv[mark + 1]);
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            fail("cannot wait for", argv[mark + 1]);
        }
    }
    write_report(argv[1]);
    end_like(status);
}
