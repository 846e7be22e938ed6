/*
 * override_thread.c - pthread_create and C11's thrd_create, so that threads attach before they do anything else and can
 * be parked, and the keeper starts with the second one. In the shared libraries only: an archive cannot find the C
 * library's pthread_create.
 */
#include "hakozuna/hakozuna.h"

#include "base/os/atomic.h"
#include "base/os/hooks.h"
#include "base/os/os.h"
#include "base/process/symbols.h"
#include "front/reports/reporter.h"
#include "heap/back/keeper.h"
#include "heap/report/leaks.h"
#include "heap/threads/thread.h"

#include <errno.h>
#include <pthread.h>

typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* Before a thread starts. If the process has one thread, the library reads its files now: no other thread can close or
   open one meanwhile. */
static void before_create(void) {
    hz_hooks_enter(); /* a fork handler may start the child's first thread: the heap must be mended before */
    hz_hooks_leave();
    hz_keeper_read_alone();
}

struct beginning {
    void *(*start)(void *);
    void *argument;
};

/* A new thread attaches first of all (hz_thread_start says why), and then runs the program's function. */
static void *thread_begin(void *argument) {
    struct beginning beginning = *(struct beginning *)argument;
    hz_free(argument);
    hz_leaks_note_thread();
    hz_thread_start();
    return beginning.start(beginning.argument);
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *restrict thread,
                                                          const pthread_attr_t *restrict attributes,
                                                          void *(*start)(void *), void *restrict argument) {
    create_function *create = (create_function *)hz_symbols_next(HZ_SYMBOL_PTHREAD_CREATE);
    if (create == NULL)
        return EAGAIN;
    if (!hz_keeper_is(start) && !hz_reporter_is(start))
        before_create();
    hz_os_note_threads();
    if (hz_keeper_is(start) || hz_reporter_is(start))
        return create(thread, attributes, start, argument);
    struct beginning *beginning = hz_malloc(sizeof(*beginning));
    if (beginning == NULL)
        return EAGAIN;
    *beginning = (struct beginning){.start = start, .argument = argument};
    int error = create(thread, attributes, thread_begin, beginning);
    if (error == EAGAIN && hz_keeper_suspend()) { /* the keeper gives its place up */
        error = create(thread, attributes, thread_begin, beginning);
        hz_keeper_resume(error != 0); /* if that did not help, it was not in the way */
    }
    if (error != 0)
        hz_free(beginning);
    else
        hz_keeper_start(); /* here, since a new thread should not allocate before the program does */
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
    hz_leaks_note_thread();
    hz_thread_start();
    return beginning.start(beginning.argument);
}

__attribute__((visibility("default"))) int thrd_create(pthread_t *thread, c11_start_function *start, void *argument) {
    c11_create_function *create = (c11_create_function *)hz_symbols_next(HZ_SYMBOL_THRD_CREATE);
    if (create == NULL)
        return C11_ERROR;
    before_create();
    hz_os_note_threads();
    struct c11_beginning *beginning = hz_malloc(sizeof(*beginning));
    if (beginning == NULL)
        return C11_NOMEM;
    *beginning = (struct c11_beginning){.start = start, .argument = argument};
    int result = create(thread, c11_begin, beginning);
    if (result != C11_SUCCESS && hz_keeper_suspend()) { /* as in pthread_create; C11 has no word for what was missing */
        result = create(thread, c11_begin, beginning);
        hz_keeper_resume(result != C11_SUCCESS);
    }
    if (result != C11_SUCCESS)
        hz_free(beginning);
    else
        hz_keeper_start(); /* as in pthread_create */
    return result;
}
