/* Forks argv[1] times while two threads allocate and free all sizes and a third one is stopped in the middle of that,
   at another instruction each time (x86-64: the trap flag makes each instruction end with a SIGTRAP). Prints how many
   children ended well, and in how many of them the handlers of fork_handlers.c had run. */
#include "trap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 300, CHILD_SECONDS = 20, RAN = 3 };

static atomic_bool over;

static size_t size_of(unsigned dice) {
    return dice % 40 == 0 ? 100000 : dice % 7 == 0 ? 2000 + dice % 9000 : 16 + dice % 600;
}

static void work(unsigned seed, unsigned steps) {
    char *held[SLOTS] = {0};
    for (unsigned i = 0; i < steps && !(steps == ~0U && atomic_load(&over)); i++) {
        seed = seed * 1664525 + 1013904223;
        char **slot = &held[(seed >> 8) % SLOTS];
        free(*slot);
        *slot = malloc(size_of(seed >> 10));
        if (*slot == NULL)
            abort();
        memset(*slot, 1, 16);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        free(held[i]);
}

static void *work_always(void *seed) {
    work((unsigned)(size_t)seed, ~0U);
    return NULL;
}

enum { STRIDE = 61 };

/* The main thread wants a stop only for the fork itself: at other times it may need a lock that a stopped thread holds.
 */
static atomic_bool wants_stop;
static atomic_bool stopped;

static void stop_thread(void) {
    atomic_store(&wants_stop, 1);
    while (TRAP_POSSIBLE && !atomic_load(&stopped))
        sched_yield();
}

static void release_thread(void) {
    atomic_store(&wants_stop, 0);
    atomic_store(&stopped, 0);
}

/* Has the library of handlers call the function at its name's time. False if there is no such library. */
static bool hook(const char *name, void (*function)(void)) {
    void (**place)(void) = (void (**)(void))dlsym(RTLD_DEFAULT, name);
    if (place != NULL)
        *place = function;
    return place != NULL;
}

static void on_trap(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    static unsigned count;
    if (++count % STRIDE == 0 && atomic_load(&wants_stop)) {
        atomic_store(&stopped, 1);
        while (atomic_load(&stopped) && !atomic_load(&over))
            sched_yield();
    }
    trap_set(context, !atomic_load(&over));
}

static void *work_by_steps(void *unused) {
    enum { HELD = 12 };
    char *held[HELD];
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGTRAP, &action, NULL);
    raise(SIGTRAP);
    while (!atomic_load(&over)) {
        for (size_t i = 0; i < HELD; i++)
            held[i] = malloc(i % 2 == 0 ? 30000 : 7000);
        for (size_t i = 0; i < HELD; i++)
            free(held[i]);
    }
    return unused;
}

int main(int argc, char **argv) {
    int wanted = argc > 1 ? atoi(argv[1]) : 0;
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, i == 0 ? work_by_steps : work_always, (void *)(i + 1)) != 0)
            return 2;
    bool has_hooks = hook("fork_handlers_last", stop_thread) && hook("fork_handlers_first", release_thread);
    int *handlers_ran = dlsym(RTLD_DEFAULT, "fork_handlers_ran");
    int well = 0;
    int ran = 0;
    for (int i = 0; i < wanted; i++) {
        if (!has_hooks)
            stop_thread();
        pid_t child = fork();
        if (child == 0) {
            alarm(CHILD_SECONDS);
            work((unsigned)i, 2000);
            _exit(handlers_ran != NULL && *handlers_ran != 0 ? RAN : 0);
        }
        if (!has_hooks)
            release_thread();
        int status = -1;
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 3;
        well += WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == RAN);
        ran += WIFEXITED(status) && WEXITSTATUS(status) == RAN;
        if (well < i + 1)
            break; /* one that hangs takes CHILD_SECONDS */
        work((unsigned)i, 500);
    }
    atomic_store(&over, 1);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%d %d\n", well, ran);
    return 0;
}
