/*
 * replacer.c - a library to preload that replaces functions which our library replaces too, counts their calls and
 * calls the next definition. NAME: how it calls itself in what it writes when the program ends.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <threads.h>

static unsigned pthreads, c11s, opens, prctls;

static uintptr_t next(const char *name) {
    return (uintptr_t)dlsym(RTLD_NEXT, name);
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*start)(void *),
                   void *restrict argument) {
    pthreads++;
    typedef int function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    return ((function *)next("pthread_create"))(thread, attributes, start, argument);
}

int thrd_create(thrd_t *thread, thrd_start_t start, void *argument) {
    c11s++;
    return ((int (*)(thrd_t *, thrd_start_t, void *))next("thrd_create"))(thread, start, argument);
}

void *dlopen(const char *file, int mode) {
    opens++;
    return ((void *(*)(const char *, int))next("dlopen"))(file, mode);
}

int prctl(int option, ...) {
    prctls++;
    va_list list;
    va_start(list, option);
    unsigned long argument = va_arg(list, unsigned long);
    va_end(list);
    return ((int (*)(int, ...))next("prctl"))(option, argument, 0, 0, 0);
}

__attribute__((destructor)) static void end(void) {
    fprintf(stderr, NAME ": %s, %u thrd_create, %u dlopen, %u prctl\n", pthreads > 0 ? "pthread_create" : "no thread",
            c11s, opens, prctls);
}
