/*
 * override_thread.c - pthread_create and C11's thrd_create, so that the keeper starts when the program has started its
 * first thread, and not in a process that has none. In the shared libraries only: an archive cannot find the C
 * library's pthread_create.
 */
#include "hakozuna/hakozuna.h"

#include "base/atomic.h"
#include "base/hooks.h"
#include "base/os.h"
#include "front/reporter.h"
#include "heap/keeper.h"
#include "heap/limit.h"
#include "heap/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static uintptr_t next_function(_Atomic(uintptr_t) *found, const char *name) {
    uintptr_t next = hz_load_rlx(found); /* relaxed: hint */
    if (next == 0) {
        next = (uintptr_t)dlsym(RTLD_NEXT, name);
        hz_store_rlx(found, next); /* relaxed: hint */
    }
    return next;
}

static void say_unknown(const char *value) {
    char text[160];
    int length = snprintf(text, sizeof(text), "hakozuna: HAKOZUNA_BACKGROUND=%.80s: allowed are 0 and 1\n", value);
    if (length > 0)
        (void)hz_os_write(STDERR_FILENO, text, (size_t)length); /* diagnostics: a closed stderr cannot be reported */
}

/* HAKOZUNA_BACKGROUND: 0 forbids the keeper, 1 or nothing allows it. Any other value is named, once. */
static bool is_wanted(void) {
    enum answer { UNKNOWN, NO, YES };
    static _Atomic(uint32_t) answer; /* hint: every look has the same result */
    uint32_t seen = hz_load_rlx(&answer);
    if (seen == UNKNOWN) {
        const char *value = hz_os_getenv("HAKOZUNA_BACKGROUND");
        seen = value != NULL && strcmp(value, "0") == 0 ? NO : YES;
        if (seen == YES && value != NULL && strcmp(value, "1") != 0)
            say_unknown(value);
        hz_store_rlx(&answer, seen);
    }
    return seen == YES;
}

static void keeper_start(void) {
    if (is_wanted() && hz_keeper_start()) /* without it slow paths do what they can */
        hz_heap_limit_default();
}

struct beginning {
    void *(*start)(void *);
    void *argument;
};

/* A new thread attaches first of all (hz_thread_start says why), and then runs the program's function. */
static void *thread_begin(void *argument) {
    struct beginning beginning = *(struct beginning *)argument;
    hz_free(argument);
    hz_thread_start(false);
    return beginning.start(beginning.argument);
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *restrict thread,
                                                          const pthread_attr_t *restrict attributes,
                                                          void *(*start)(void *), void *restrict argument) {
    static _Atomic(uintptr_t) found; /* hint: every search has the same result */
    create_function *create = (create_function *)next_function(&found, "pthread_create");
    if (create == NULL)
        return EAGAIN;
    hz_hooks_enter(); /* a fork handler may start the child's first thread: the heap must be mended before */
    hz_hooks_leave();
    if (hz_keeper_is(start) || hz_reporter_is(start))
        return create(thread, attributes, start, argument);
    struct beginning *beginning = hz_malloc(sizeof(*beginning));
    if (beginning == NULL)
        return EAGAIN;
    *beginning = (struct beginning){.start = start, .argument = argument};
    int error = create(thread, attributes, thread_begin, beginning);
    if (error != 0)
        hz_free(beginning);
    else
        keeper_start();
    return error;
}

/* glibc's thrd_create does not call pthread_create by name, so it is replaced too. <threads.h> is not included:
   glibc has none before 2.28, and a library built with such a glibc may run with a later one. In glibc and musl a
   thrd_t is a pthread_t, and the results have the numbers below. */
enum { C11_SUCCESS = 0, C11_ERROR = 2, C11_NOMEM = 3 };

typedef int c11_start_function(void *);
typedef int c11_create_function(pthread_t *, c11_start_function *, void *);

struct c11_beginning {
    c11_start_function *start;
    void *argument;
};

static int c11_begin(void *argument) {
    struct c11_beginning beginning = *(struct c11_beginning *)argument;
    hz_free(argument);
    hz_thread_start(false);
    return beginning.start(beginning.argument);
}

__attribute__((visibility("default"))) int thrd_create(pthread_t *thread, c11_start_function *start, void *argument) {
    static _Atomic(uintptr_t) found; /* hint: every search has the same result */
    c11_create_function *create = (c11_create_function *)next_function(&found, "thrd_create");
    if (create == NULL)
        return C11_ERROR;
    hz_hooks_enter(); /* as in pthread_create */
    hz_hooks_leave();
    struct c11_beginning *beginning = hz_malloc(sizeof(*beginning));
    if (beginning == NULL)
        return C11_NOMEM;
    *beginning = (struct c11_beginning){.start = start, .argument = argument};
    int result = create(thread, c11_begin, beginning);
    if (result != C11_SUCCESS)
        hz_free(beginning);
    else
        keeper_start();
    return result;
}
