/*
 * confines.c - a program that confines itself while its threads allocate, as servers do after their start.
 *
 *   confines HOW FILE NAMES [more]
 *     HOW    prctl            the first thread, by prctl(PR_SET_SECCOMP)
 *            each             the same, and each worker a little later by itself
 *            syscall          the first thread, by libc's syscall()
 *            tsync            all threads at once, by libc's syscall()
 *            libseccomp       the first thread, by seccomp_load()
 *            libseccomp-tsync all threads at once, by seccomp_load()
 *            libseccomp-root  the same without PR_SET_NO_NEW_PRIVS, which takes root
 *     FILE   the filter in the kernel's form
 *     NAMES  the calls that it allows, with commas: for libseccomp, which makes a filter that kills at all others
 *     more   starts further threads behind the filter
 *
 * Writes "ready" when all workers allocate; confines itself at a line on stdin, and writes "confined"; at the end of
 * stdin its workers end, and it writes "done". Exit code: 0 all blocks were intact; 3 one was not, or something was
 * refused.
 */
#include "say.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORKERS = 4, MORE = 2, SHELVES = 64, KEPT = 500, FILE_BYTES = 64 << 10 };

/* libseccomp, of which Debian's package for users brings no header. */
extern void *seccomp_init(uint32_t action);
extern int seccomp_attr_set(void *context, int attribute, uint32_t value);
extern int seccomp_rule_add_array(void *context, uint32_t action, int number, unsigned arguments, const void *array);
extern int seccomp_syscall_resolve_name(const char *name);
extern int seccomp_load(const void *context);
enum { ATTRIBUTE_NNP = 3, ATTRIBUTE_TSYNC = 4 };

static struct sock_fprog program;
static _Atomic(unsigned char *) shelves[SHELVES]; /* where workers leave blocks for each other */
static atomic_bool is_confined, is_over;
static bool confines_each;
static pthread_barrier_t begun[2]; /* the first workers with main; those behind the filter with main */

/* ---- confining ----------------------------------------------------------------------------------------- */

static void read_program(const char *path) {
    static char code[FILE_BYTES] __attribute__((aligned(8)));
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1 : read(file, code, sizeof code);
    if (bytes <= 0 || close(file) != 0)
        fail("no filter in that file");
    program = (struct sock_fprog){.len = (unsigned short)((size_t)bytes / sizeof(struct sock_filter)),
                                  .filter = (struct sock_filter *)(void *)code};
}

static void give_up_privileges(void) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        fail("PR_SET_NO_NEW_PRIVS");
}

static void confine_thread(void) {
    give_up_privileges();
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        fail("PR_SET_SECCOMP");
}

static void confine_by_syscall(unsigned flags) {
    give_up_privileges();
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0)
        fail("seccomp");
}

static void *library_filter(char *names, bool is_root, bool all_threads) {
    void *context = seccomp_init(SECCOMP_RET_KILL_PROCESS);
    if (context == NULL || (is_root && seccomp_attr_set(context, ATTRIBUTE_NNP, 0) != 0) ||
        (all_threads && seccomp_attr_set(context, ATTRIBUTE_TSYNC, 1) != 0))
        fail("seccomp_init");
    for (char *name = strtok(names, ","); name != NULL; name = strtok(NULL, ","))
        if (seccomp_rule_add_array(context, SECCOMP_RET_ALLOW, seccomp_syscall_resolve_name(name), 0, NULL) != 0)
            fail(name);
    return context;
}

static void confine(const char *how, char *names) {
    if (strcmp(how, "prctl") == 0 || strcmp(how, "each") == 0) {
        confine_thread();
    } else if (strcmp(how, "syscall") == 0) {
        confine_by_syscall(0);
    } else if (strcmp(how, "tsync") == 0) {
        confine_by_syscall(SECCOMP_FILTER_FLAG_TSYNC);
    } else if (strncmp(how, "libseccomp", 10) == 0) {
        if (seccomp_load(library_filter(names, strcmp(how, "libseccomp-root") == 0, strcmp(how, "libseccomp") != 0)) !=
            0)
            fail("seccomp_load");
    } else {
        fail(how);
    }
}

/* ---- work ------------------------------------------------------------------------------------------------ */

static unsigned char *make(size_t size, unsigned char mark) {
    unsigned char *block = malloc(size + sizeof size);
    if (block == NULL)
        fail("no memory");
    memcpy(block, &size, sizeof size);
    memset(block + sizeof size, mark, size);
    return block;
}

static void destroy(unsigned char *block) {
    size_t size;
    if (block == NULL)
        return;
    memcpy(&size, block, sizeof size);
    if (block[sizeof size] != block[sizeof size + size - 1])
        fail("a block has lost its contents");
    free(block);
}

/* Sizes from 1 byte to 300 KiB, now and then 3 MiB. Every fourth block goes to whoever takes it off its shelf. */
static void *work(void *number) {
    unsigned char *kept[KEPT] = {NULL};
    uint32_t state = (uint32_t)(uintptr_t)number;
    bool has_confined = false, has_begun = false;
    for (uint32_t round = 0; !atomic_load(&is_over); round++) {
        state = state * 1664525 + 1013904223;
        uint32_t place = (state >> 8) % KEPT;
        size_t size = 1 + (size_t)(state >> 12) % ((size_t)1 << (state >> 4) % 19);
        unsigned char *block = make(round % 5000 == 4999 ? (size_t)3 << 20 : size, (unsigned char)round);
        if (round % 4 == 0) {
            destroy(atomic_exchange(&shelves[state % SHELVES], block));
        } else {
            destroy(kept[place]);
            kept[place] = block;
        }
        if (!has_begun && round > 10000) {
            has_begun = true;
            (void)pthread_barrier_wait(&begun[(uintptr_t)number > WORKERS]);
        }
        if (confines_each && !has_confined && atomic_load(&is_confined)) {
            has_confined = true;
            confine_thread();
        }
    }
    for (size_t i = 0; i < KEPT; i++)
        destroy(kept[i]);
    return NULL;
}

/* Reads stdin to the end of a line, or to its end. */
static void await_line(void) {
    char letter = '\0';
    while (letter != '\n' && read(STDIN_FILENO, &letter, 1) > 0)
        continue;
}

int main(int argc, char **argv) {
    pthread_t threads[WORKERS + MORE];
    if (argc < 4)
        fail("usage: confines HOW FILE NAMES [more]");
    read_program(argv[2]);
    size_t count = WORKERS;
    confines_each = strcmp(argv[1], "each") == 0;
    (void)pthread_barrier_init(&begun[0], NULL, WORKERS + 1);
    (void)pthread_barrier_init(&begun[1], NULL, MORE + 1);
    for (size_t i = 0; i < WORKERS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)) != 0)
            fail("no thread");
    (void)pthread_barrier_wait(&begun[0]);
    say("ready\n");
    await_line();
    confine(argv[1], argv[3]);
    atomic_store(&is_confined, true);
    say("confined\n");
    if (argc > 4) {
        for (; count < WORKERS + MORE; count++)
            if (pthread_create(&threads[count], NULL, work, (void *)(uintptr_t)(count + 1)) != 0)
                fail("no thread behind the filter");
        (void)pthread_barrier_wait(&begun[1]);
    }
    await_line();
    atomic_store(&is_over, true);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < SHELVES; i++)
        destroy(shelves[i]);
    say("done\n");
    _exit(0);
}
