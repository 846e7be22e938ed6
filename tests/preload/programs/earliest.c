/*
 * earliest.c - allocates before everything else: in the resolver of an IFUNC, in the preinit array, in the first
 * constructor. Each stage frees some blocks of the stages before. Prints "well" if all contents are right, and if no
 * memory is in use after main has freed the rest.
 */
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 3000, STAGES = 4, LEFT_MOST = 1 << 20 };

static unsigned char *blocks[STAGES][BLOCKS];
static size_t sizes[STAGES][BLOCKS];
static unsigned stage;
static const char *wrong; /* what was wrong first */

static void must(bool right, const char *what) {
    if (!right && wrong == NULL)
        wrong = what;
}

/* Small blocks, and some of each other kind. */
static size_t size_of(unsigned number) {
    return number % 600 == 0 ? 5000000 : number % 100 == 0 ? 100000 : number * 37 % 4000;
}

static bool holds(const unsigned char *block, size_t size, unsigned char value) {
    for (size_t i = 0; i < size; i += size < 5000 ? 1 : 4096)
        if (block[i] != value)
            return false;
    return true;
}

static void *filled(void *block, size_t size, unsigned char value) {
    must(block != NULL && (uintptr_t)block % 16 == 0, "no block");
    return memset(block, value, size);
}

static void family(unsigned number) {
    size_t size = size_of(number);
    unsigned char value = (unsigned char)(number % 250);
    unsigned char *block = filled(malloc(size / 2), size / 2, value);
    block = realloc(block, size + 1);
    must(block != NULL && holds(block, size / 2, value), "realloc");
    blocks[stage][number] = filled(block, size + 1, value);
    sizes[stage][number] = size + 1;
    unsigned char *zeros = calloc(3, size / 3 + 1);
    must(zeros != NULL && holds(zeros, size, 0), "calloc");
    free(filled(zeros, size, 255));
    void *aligned = NULL;
    must(posix_memalign(&aligned, 1 << number % 14, size) == 0 || number % 14 < 3, "posix_memalign");
    free(aligned);
    free(NULL);
}

static void release(unsigned of, unsigned first, unsigned step) {
    for (unsigned i = first; i < BLOCKS; i += step) {
        if (blocks[of][i] != NULL)
            must(holds(blocks[of][i], sizes[of][i], (unsigned char)(i % 250)), "contents");
        free(blocks[of][i]);
        blocks[of][i] = NULL;
    }
}

static void play(void) {
    errno = 0;
    for (unsigned number = 0; number < BLOCKS; number++)
        family(number);
    must(errno == 0, "errno");
    for (unsigned of = 0; of <= stage; of++) {
        release(of, stage, STAGES + 1);
        malloc_usable_size(blocks[of][BLOCKS - 1]);
    }
    stage++;
}

static int answer(void) {
    return 42;
}

static int (*resolve(void))(void) {
    if (stage == 0) /* called once more by a linker that asks for an address */
        play();
    return answer;
}
int resolved(void) __attribute__((ifunc("resolve")));

static void before_all(void) {
    play();
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_all;

__attribute__((constructor(101))) static void first(void) {
    play();
}

int main(void) {
    must(resolved() == 42 && stage == STAGES - 1, "stages");
    play();
    for (unsigned of = 0; of < STAGES; of++)
        release(of, 0, 1);
    malloc_trim(0); /* the guard build keeps freed blocks for a while */
    struct mallinfo2 info = mallinfo2();
    must(info.uordblks + info.hblkhd <= LEFT_MOST, "blocks are lost");
    puts(wrong == NULL ? "well" : wrong);
    return wrong != NULL;
}
