/*
 * deep_host.c - opens libdeep.so with RTLD_DEEPBIND, found by the program's RUNPATH, and passes blocks to and from it.
 * Writes which version the library sees, its own (2) or the program's (1). Usage: deep_host HOW [NAME...]
 *
 *   HOW    now, lazy   the flag for dlopen
 *          global      with RTLD_GLOBAL
 *          dlmopen     by dlmopen into the program's namespace
 *          closed      the library is closed before the program frees its blocks
 *          nested      the library opens libdeeper.so itself; 3 is written too if that sees its own version
 *          threads     some threads open the library at the same moment, while others work with the dynamic linker
 *          refused     after the process has forbidden itself to make memory writable
 *   NAME   of a function that the library must find at the program's address
 *
 * If deep_behind.c is preloaded, it works too.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIZES = 300, KEPT = 64, THREADS = 4 };

int deep_value = 10;

int deep_version(void);
int deep_version(void) {
    return 1;
}

static void fail(const char *what) {
    fprintf(stderr, "deep_host: %s\n", what);
    exit(1);
}

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL)
        fail(dlerror());
    return found;
}

static void *opened(const char *how) {
    int mode =
        (strcmp(how, "lazy") == 0 ? RTLD_LAZY : RTLD_NOW) | (strcmp(how, "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL);
    mode |= RTLD_DEEPBIND;
    void *library = strcmp(how, "dlmopen") == 0     ? dlmopen(LM_ID_BASE, "libdeep.so", mode)
                    : strcmp(how, "namespace") == 0 ? dlmopen(LM_ID_NEWLM, "libdeep.so", mode)
                                                    : dlopen("libdeep.so", mode);
    if (library == NULL)
        fail(dlerror());
    return library;
}

static void blocks_pass(void *library, bool is_closed) {
    typedef void *block_function(unsigned, size_t);
    block_function *block = (block_function *)symbol(library, "deep_block");
    size_t (*frees)(void *) = (size_t(*)(void *))symbol(library, "deep_frees");
    void *kept[KEPT] = {NULL};
    unsigned count = 0;
    for (size_t size = 1; size < SIZES; size += 7)
        for (unsigned way = 0; (kept[count % KEPT] = block(way, size)) != NULL; way++)
            free(kept[++count % KEPT]);
    for (size_t size = 1; size < 6000000; size = size * 3 / 2 + 1)
        if (frees(malloc(size)) < size || frees(realloc(block(0, size), size * 2)) < size * 2)
            fail("malloc_usable_size is too small");
    if (is_closed && dlclose(library) != 0)
        fail(dlerror());
    for (unsigned i = 0; i < KEPT; i++)
        free(kept[i]);
    if (count < 18 * (SIZES / 7))
        fail("a function returned no block");
}

/* ---- threads ----------------------------------------------------------------------------------------- */

static pthread_barrier_t together;
static atomic_bool is_over;

static void *open_at_once(void *unused) {
    pthread_barrier_wait(&together);
    blocks_pass(opened("now"), false);
    return unused;
}

static void *work_with_linker(void *unused) {
    pthread_barrier_wait(&together);
    while (!is_over) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        if (library == NULL || dlsym(RTLD_DEFAULT, "malloc") == NULL || dlsym(RTLD_NEXT, "free") == NULL)
            fail("the dynamic linker finds nothing");
        dlclose(library);
        free(strdup("text"));
    }
    return unused;
}

static void threads(void) {
    pthread_t all[2 * THREADS];
    pthread_barrier_init(&together, NULL, 2 * THREADS);
    for (unsigned i = 0; i < 2 * THREADS; i++)
        if (pthread_create(&all[i], NULL, i < THREADS ? open_at_once : work_with_linker, NULL) != 0)
            fail("pthread_create failed");
    for (unsigned i = 0; i < 2 * THREADS; i++) {
        is_over = i >= THREADS;
        pthread_join(all[i], NULL);
    }
}

/* ---- a filter ---------------------------------------------------------------------------------------- */

/* mprotect may do everything but make memory writable. */
static void forbid_writable(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_WRITE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        fail("no filter");
}

static void behind_works(void) {
    void (*work)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "behind_work");
    if (work != NULL)
        work();
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "now";
    if (strcmp(how, "threads") == 0)
        threads();
    if (strcmp(how, "refused") == 0)
        forbid_writable();
    (void)dlopen("/no/such/library.so", RTLD_NOW);
    void *library = opened(how);
    if (dlerror() != NULL)
        fail("an error is left");
    printf("%d %d", ((int (*)(void))symbol(library, "deep_asks_version"))(),
           ((int (*)(void))symbol(library, "deep_asks_value"))());
    if (strcmp(how, "nested") == 0)
        printf(" %d", ((int (*)(const char *))symbol(library, "deep_opens"))("libdeeper.so"));
    void *(*finds)(const char *) = (void *(*)(const char *))symbol(library, "deep_finds");
    for (int i = 2; i < argc; i++)
        if (finds(argv[i]) != dlsym(RTLD_DEFAULT, argv[i]))
            printf(" %s differs", argv[i]);
    behind_works();
    if (strcmp(how, "namespace") == 0)
        library = opened("now"); /* another copy, in the program's own */
    blocks_pass(library, strcmp(how, "closed") == 0);
    behind_works();
    puts("");
    return 0;
}
