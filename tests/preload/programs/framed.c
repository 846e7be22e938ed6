/*
 * A program with frame pointers. `framed equal` allocates on many kinds of call stacks: recursive ones, in threads,
 * through functions of the C library without frame pointers, on an alternate signal stack, in a coroutine, under chains
 * that lead nowhere. `framed generated` allocates under a function that has a frame pointer and no table for unwinding.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define APART __attribute__((noinline, noclone))

static char *volatile kept;

void keep(size_t size);

APART void keep(size_t size) {
    kept = malloc(size);
    if (kept == NULL)
        abort();
    kept[0] = 1;
}

APART static int deeper(int depth) {
    keep(100 + (size_t)depth);
    return depth == 0 ? 0 : 1 + deeper(depth - 1);
}

APART static int compare(const void *a, const void *b) {
    keep(300);
    return *(const int *)a - *(const int *)b;
}

static void *in_thread(void *unused) {
    deeper(3);
    deeper(100);
    keep(400);
    return unused;
}

/* The C library holds the thread's lock while it allocates for the answer. */
static void *asking(void *unused) {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0 || pthread_attr_destroy(&attributes) != 0)
        abort();
    keep(401);
    return unused;
}

/* A thread's function that calls itself: its outermost call looks like the others. */
static void *recursive(void *depth) {
    if (depth != NULL)
        recursive((char *)depth - 1);
    keep(402);
    return NULL;
}

static void on_signal(int number) {
    (void)number;
    keep(500);
}

static ucontext_t outside, inside;

static void coroutine(void) {
    deeper(2);
    swapcontext(&inside, &outside);
    keep(600);
}

/* framed_x86_64.s has these two, for x86-64 only. */
__attribute__((weak)) extern void with_frame(void *frame, size_t size);
__attribute__((weak)) extern void *generated(size_t size);

APART static void under_generated(void) {
    kept = generated(7777);
    kept[0] = 1;
}

APART static void under_frames(void *odd, void *elsewhere) {
    uintptr_t circle[2] = {(uintptr_t)circle, (uintptr_t)&keep + 1};
    with_frame(NULL, 701);
    with_frame((void *)16, 702);
    with_frame((void *)UINTPTR_MAX, 703);
    with_frame((void *)(UINTPTR_MAX - 7), 704);
    with_frame(odd, 705);
    with_frame(circle, 706);
    with_frame(elsewhere, 707);
}

static int run_equal(void) {
    int numbers[50];
    pthread_t thread;
    static char stack_of_signals[65536], stack_of_coroutine[65536];
    keep(50);
    deeper(5);
    deeper(200);
    for (int i = 0; i < 50; i++)
        numbers[i] = i * 7 % 50;
    qsort(numbers, 50, sizeof(numbers[0]), compare);
    void *(*const functions[])(void *) = {in_thread, in_thread, asking, recursive};
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread, NULL, functions[i], i == 3 ? (void *)6 : NULL) != 0 ||
            pthread_join(thread, NULL) != 0)
            return 1;

    stack_t stack = {.ss_sp = stack_of_signals, .ss_size = sizeof(stack_of_signals)};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0 || raise(SIGUSR1) != 0)
        return 1;

    getcontext(&inside);
    inside.uc_stack.ss_sp = stack_of_coroutine;
    inside.uc_stack.ss_size = sizeof(stack_of_coroutine);
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    swapcontext(&outside, &inside);
    swapcontext(&outside, &inside);

    if (with_frame != NULL)
        under_frames((char *)numbers + 1, stack_of_coroutine);
    return 0;
}

int main(int count, char **words) {
    if (count == 2 && strcmp(words[1], "equal") == 0)
        return run_equal();
    if (count == 2 && strcmp(words[1], "generated") == 0 && generated != NULL) {
        keep(50);
        under_generated();
        return 0;
    }
    fprintf(stderr, "usage: framed equal|generated\n");
    return 2;
}
