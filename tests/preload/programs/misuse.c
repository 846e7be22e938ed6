/*
 * misuse KIND SIZE - one mistake with a block of SIZE bytes, to see what the allocator does about it.
 *
 * A mistake is caught if the program ends before its last line, or if the mistake has no effect: for the groups "reuse"
 * and "contents" the program itself looks. Otherwise it prints NOT_CAUGHT. `misuse --list` prints each kind with its
 * group.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEW = 10,
    MANY = 100,
    LATER = 1000,
    LONG_AFTER = 100000,
    MEGABYTE = 1 << 20,
    SOME = 32,
    FAR = 1 << 30,
    NEAR = 4096 + 32 /* blocks above 8 KiB can begin at many multiples of 64 bytes */
};

/* Keeps the compiler from seeing which block it is. */
static char *opaque(void *pointer) {
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

static char *get(size_t size) {
    char *block = opaque(malloc(size));
    if (block == NULL)
        exit(3);
    return block;
}

static void put(void *block) {
    free(opaque(block));
}

static void get_and_put(size_t size, unsigned times) {
    for (unsigned i = 0; i < times; i++)
        put(get(size));
}

/* The function of a kind returns true if the program itself has noticed nothing. */

/* ---- double free ---- */

static bool twice(size_t size) {
    char *block = get(size);
    put(block);
    put(block);
    return true;
}

static bool twice_around_another(size_t size) {
    char *block = get(size);
    char *other = get(size);
    put(block);
    put(other);
    put(block);
    return true;
}

static bool twice_with_pairs_between(size_t size) {
    char *block = get(size);
    put(block);
    get_and_put(size, LATER);
    put(block);
    return true;
}

static bool twice_and_used_on(size_t size) {
    char *block = get(size);
    put(block);
    put(block);
    get_and_put(size, LONG_AFTER);
    return true;
}

static bool twice_with_new_owner(size_t size) {
    char *block = get(size);
    put(block);
    char *owner = get(size);
    put(block);
    put(owner);
    return true;
}

/* Frees a block twice, `freed` of `live` other blocks in between. */
static bool twice_among(size_t size, unsigned live, unsigned freed) {
    char *others[MANY];
    char *block = get(size);
    for (unsigned i = 0; i < live; i++)
        others[i] = get(size);
    put(block);
    for (unsigned i = 0; i < freed; i++)
        put(others[i]);
    put(block);
    return true;
}

static bool twice_around_many(size_t size) {
    return twice_among(size, MANY, MANY);
}

static bool twice_with_many_live(size_t size) {
    return twice_among(size, MANY, 2);
}

static bool twice_with_few_live(size_t size) {
    return twice_among(size, FEW, 2);
}

static bool free_after_realloc(size_t size) {
    char *block = get(size);
    char *beside = get(size);
    char *moved = opaque(realloc(block, 4 * size + LONG_AFTER));
    if (moved == block) /* it grew where it is */
        put(moved);
    put(block);
    put(beside);
    return true;
}

static bool realloc_after_free(size_t size) {
    char *block = get(size);
    put(block);
    put(realloc(opaque(block), 4 * size));
    return true;
}

static void *put_here(void *block) {
    put(block);
    return NULL;
}

static bool twice_by_two_threads(size_t size) {
    char *block = get(size);
    for (unsigned i = 0; i < 2; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, put_here, block) != 0)
            exit(3);
        pthread_join(thread, NULL);
    }
    return true;
}

static void *trim(void *unused) {
    malloc_trim(0);
    return unused;
}

/* The block has left the thread's cache between the two. */
static bool twice_around_a_trim(size_t size) {
    pthread_t thread;
    char *others[SOME];
    for (unsigned i = 0; i < SOME; i++)
        others[i] = get(size); /* more than the block keep its page in use */
    put(others[0]);
    if (pthread_create(&thread, NULL, trim, NULL) != 0 || pthread_join(thread, NULL) != 0)
        exit(3);
    put(others[0]);
    return true;
}

/* ---- free of what is no block ---- */

static char in_data[1 << 20];

static bool of_data(size_t size) {
    in_data[0] = (char)size;
    put(in_data + 64);
    return true;
}

static bool of_stack(size_t size) {
    char here[256];
    here[0] = (char)size;
    put(opaque(here) + 64);
    return true;
}

static bool of_variable_array(size_t size) {
    char here[size % 4096 + 64];
    here[0] = 1;
    put(opaque(here));
    return true;
}

static bool inside_by_1(size_t size) {
    put(get(size) + 1);
    return true;
}

static bool inside_by_8(size_t size) {
    put(get(size) + 8);
    return true;
}

static bool near_behind(size_t size) {
    put(get(size) + NEAR);
    return true;
}

static bool far_behind(size_t size) {
    put(get(size) + FAR);
    return true;
}

/* ---- writes outside ---- */

static void flip(volatile char *at) {
    *at = (char)~*at;
}

static bool beyond_by(size_t size, size_t distance) {
    char *block = get(size);
    flip(block + size + distance - 1);
    put(block);
    return true;
}

static bool below_by(size_t size, size_t distance) {
    char *block = get(size);
    flip(block - distance);
    put(block);
    return true;
}

static bool beyond_1(size_t size) {
    return beyond_by(size, 1);
}

static bool beyond_some(size_t size) {
    return beyond_by(size, SOME);
}

static bool beyond_megabyte(size_t size) {
    return beyond_by(size, MEGABYTE);
}

static bool below_1(size_t size) {
    return below_by(size, 1);
}

static bool below_some(size_t size) {
    return below_by(size, SOME);
}

static bool below_megabyte(size_t size) {
    return below_by(size, MEGABYTE);
}

static bool filled_by(size_t size, size_t more) {
    char *block = get(size);
    memset(block, 1, size + more);
    put(block);
    return true;
}

static bool filled_1(size_t size) {
    return filled_by(size, 1);
}

static bool filled_some(size_t size) {
    return filled_by(size, SOME);
}

static bool filled_megabyte(size_t size) {
    return filled_by(size, MEGABYTE);
}

/* ---- use after free ---- */

static bool written_after(size_t size) {
    char *block = get(size);
    put(block);
    memset(block, 'A', size);
    return true;
}

static bool written_after_and_used_on(size_t size) {
    char *block = get(size);
    put(block);
    memset(block, 'A', size);
    get_and_put(size, LONG_AFTER);
    return true;
}

static bool written_after_and_many_live(size_t size) {
    static char *blocks[LATER];
    char *block = get(size);
    put(block);
    memset(block, 'A', size);
    for (unsigned i = 0; i < LATER; i++)
        blocks[i] = get(size);
    for (unsigned i = 0; i < LATER; i++)
        put(blocks[i]);
    return true;
}

/* ---- what an attacker would use ---- */

static bool same_again(size_t size) {
    uintptr_t before = (uintptr_t)get(size);
    put((void *)before);
    return (uintptr_t)get(size) == before;
}

static bool same_for_half(size_t size) {
    uintptr_t before = (uintptr_t)get(size);
    put((void *)before);
    return (uintptr_t)get(size / 2) == before;
}

static bool same_after_realloc(size_t size) {
    uintptr_t before = (uintptr_t)get(size);
    return (uintptr_t)opaque(realloc((void *)before, 4 * size)) == before;
}

static bool holds(const volatile char *block, size_t size, char value) {
    for (size_t i = 0; i < size; i++)
        if (block[i] == value)
            return true;
    return false;
}

static bool contents_stay(size_t size) {
    char *block = get(size);
    memset(block, 'A', size);
    put(block);
    return holds(block, size, 'A');
}

static bool contents_come_back(size_t size) {
    char *block = get(size);
    memset(block, 'A', size);
    put(block);
    return holds(get(size), size, 'A');
}

/* ---- size 0 and sizes that cannot be ---- */

static bool zero_read(size_t size) {
    (void)size;
    volatile char *block = get(0);
    (void)*block;
    return true;
}

static bool zero_written(size_t size) {
    (void)size;
    volatile char *block = get(0);
    *block = 1;
    return true;
}

static bool impossible_size(size_t size) {
    return opaque(malloc((size_t)0 - size)) != NULL;
}

static const struct kind {
    const char *name, *group;
    bool (*run)(size_t size);
} kinds[] = {
    {"twice", "double-free", twice},
    {"twice-around-another", "double-free", twice_around_another},
    {"twice-with-pairs-between", "double-free", twice_with_pairs_between},
    {"twice-and-used-on", "double-free", twice_and_used_on},
    {"twice-with-new-owner", "double-free", twice_with_new_owner},
    {"twice-around-a-trim", "double-free", twice_around_a_trim},
    {"twice-around-many", "double-free", twice_around_many},
    {"twice-with-many-live", "double-free", twice_with_many_live},
    {"twice-with-few-live", "double-free", twice_with_few_live},
    {"free-after-realloc", "double-free", free_after_realloc},
    {"realloc-after-free", "double-free", realloc_after_free},
    {"twice-by-two-threads", "double-free", twice_by_two_threads},
    {"of-data", "invalid-free", of_data},
    {"of-stack", "invalid-free", of_stack},
    {"of-variable-array", "invalid-free", of_variable_array},
    {"inside-by-1", "invalid-free", inside_by_1},
    {"inside-by-8", "invalid-free", inside_by_8},
    {"near-behind", "invalid-free", near_behind},
    {"far-behind", "invalid-free", far_behind},
    {"beyond-1", "outside", beyond_1},
    {"beyond-some", "outside", beyond_some},
    {"beyond-megabyte", "outside", beyond_megabyte},
    {"below-1", "outside", below_1},
    {"below-some", "outside", below_some},
    {"below-megabyte", "outside", below_megabyte},
    {"filled-1", "outside", filled_1},
    {"filled-some", "outside", filled_some},
    {"filled-megabyte", "outside", filled_megabyte},
    {"written-after", "after-free", written_after},
    {"written-after-and-used-on", "after-free", written_after_and_used_on},
    {"written-after-and-many-live", "after-free", written_after_and_many_live},
    {"same-again", "reuse", same_again},
    {"same-for-half", "reuse", same_for_half},
    {"same-after-realloc", "reuse", same_after_realloc},
    {"contents-stay", "contents", contents_stay},
    {"contents-come-back", "contents", contents_come_back},
    {"zero-read", "size", zero_read},
    {"zero-written", "size", zero_written},
    {"impossible-size", "size", impossible_size},
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (unsigned i = 0; i < KINDS; i++)
            printf("%s %s\n", kinds[i].name, kinds[i].group);
        return 0;
    }
    char *end = "";
    size_t size = argc == 3 ? strtoul(argv[2], &end, 10) : 0;
    for (unsigned i = 0; size > 0 && *end == '\0' && i < KINDS; i++) {
        if (strcmp(argv[1], kinds[i].name) != 0)
            continue;
        if (kinds[i].run(size)) {
            puts("NOT_CAUGHT");
            fflush(stdout);
        }
        return 0;
    }
    fprintf(stderr, "usage: misuse --list | misuse KIND SIZE; SIZE is a number from 1\n");
    return 2;
}
