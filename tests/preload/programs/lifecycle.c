/*
 * lifecycle.c - allocates in every stage of a process's life in which code of the program runs, checks the blocks of
 * all stages before, and frees the oldest one. Writes the stages as they pass. Usage: lifecycle MODULE [quick], where
 * MODULE is lifecycle_module.c, to be loaded and closed.
 */
#include "lifecycle.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

static struct blocks here;

static void before_all(void) {
    stage(&here, "preinit array");
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_all;

__attribute__((constructor(101))) static void early(void) {
    stage(&here, "early constructor");
}

__attribute__((constructor)) static void ordinary(void) {
    stage(&here, "constructor");
}

static void at_exit(void) {
    stage(&here, "atexit handler");
}

static void on_exit_handler(int status, void *argument) {
    stage(argument, status == 0 ? "on_exit handler" : "wrong status");
}

static void at_quick(void) {
    stage(&here, "at_quick_exit handler");
}

__attribute__((destructor)) static void last(void) {
    stage(&here, "destructor");
    free_all(&here);
}

static void of_key(void *value) {
    stage(value, "destructor of a key");
}

static void *thread_main(void *key) {
    stage(&here, "thread");
    pthread_setspecific(*(pthread_key_t *)key, &here);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    stage(&here, "main");
    if (atexit(at_exit) != 0 || on_exit(on_exit_handler, &here) != 0 || at_quick_exit(at_quick) != 0)
        return 3;
    pthread_key_t key;
    pthread_t thread;
    if (pthread_key_create(&key, of_key) != 0 || pthread_create(&thread, NULL, thread_main, &key) != 0)
        return 4;
    pthread_join(thread, NULL);
    void *module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (module == NULL)
        return 5;
    ((void (*)(void))(uintptr_t)dlsym(module, "visit"))();
    if (dlclose(module) != 0)
        return 6;
    stage(&here, "end of main");
    if (argc > 2)
        quick_exit(0);
    return 0;
}
