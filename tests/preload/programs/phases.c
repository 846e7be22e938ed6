/*
 * phases.c - allocates blocks of one size until there is no memory, frees them all, and begins again with the next size
 * that the command line names. Nothing is touched. Prints the MiB that each phase obtained, one after the other.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS_MAX = 200000 };

static void *blocks[BLOCKS_MAX];

int main(int argc, char **argv) {
    for (int phase = 1; phase < argc; phase++) {
        size_t bytes = strtoul(argv[phase], NULL, 10);
        size_t count = 0;
        while (count < BLOCKS_MAX && (blocks[count] = malloc(bytes)) != NULL)
            count++;
        printf("%zu\n", count * bytes >> 20);
        while (count > 0)
            free(blocks[--count]);
        malloc_trim(0);
    }
    return 0;
}
