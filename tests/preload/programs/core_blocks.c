/*
 * core_blocks.c - lets the heap grow, shrink and grow again, and ends with a core file or waits: core_blocks HOW END.
 *
 * HOW: "grow": what is left are blocks that were allocated once. "again": the heap has given its memory back in
 * between, so blocks lie in space that was closed or hidden. "confined": the same, and the program has announced a
 * filter of system calls before. "shrink": nearly nothing is left of blocks up to 1 MiB. END: "abort" or "wait".
 * stdout gets a line for each block that is left: "ADDRESS BYTES". Each is full of one byte:
 * its size in KiB, with the lowest bit set.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { BLOCKS = 60000 };

static char *volatile blocks[BLOCKS];
static size_t sizes[BLOCKS];

static size_t most_bytes = 5 << 20;

static size_t size_of(size_t i) {
    return i % 5000 == 1 ? most_bytes : i % 1000 == 1 ? 300 << 10 : i % 50 == 1 ? 20000 : 480;
}

static void grow(size_t first, size_t step) {
    for (size_t i = first; i < BLOCKS; i += step) {
        sizes[i] = size_of(i);
        blocks[i] = malloc(sizes[i]);
        memset(blocks[i], (char)(sizes[i] >> 10 | 1), sizes[i]);
    }
}

static void shrink(size_t keep_one_in) {
    for (size_t i = 0; i < BLOCKS; i++)
        if (i % keep_one_in != 0) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
    malloc_trim(0);
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    if (strcmp(words[1], "shrink") == 0)
        most_bytes = 1 << 20;
    grow(0, 1);
    if (strcmp(words[1], "grow") != 0)
        shrink(20000);
    if (strcmp(words[1], "confined") == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return 2;
    if (strcmp(words[1], "again") == 0 || strcmp(words[1], "confined") == 0)
        grow(1, 2);
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i] != NULL)
            printf("%p %zu\n", (void *)blocks[i], sizes[i]);
    puts("ready");
    fflush(stdout);
    if (strcmp(words[2], "abort") == 0)
        abort();
    pause();
    return 0;
}
