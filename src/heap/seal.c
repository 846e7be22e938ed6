/*
 * seal.c - see seal.h.
 *
 * A block's seal travels with the block: the edge that passes the block on publishes the words and the bit.
 */
#include "heap/seal.h"

#include "base/arena/arena.h"
#include "heap/sizeclass.h"

/* An address that is neither mapped nor aligned, and differs from word to word. */
static uintptr_t seal_word(const uintptr_t *word) {
    return (uintptr_t)word ^ UINT64_C(0xdead5ea1ed5ea1ed);
}

static size_t seal_words(const void *block) {
    unsigned size_class = hz_pagetag_class(block);
    return hz_min(hz_class_bytes(size_class), HZ_SEAL_BYTES) / sizeof(uintptr_t);
}

void hz_seal(void *block, size_t bytes) {
    uintptr_t *words = block;
    for (size_t i = 0; i < hz_min(bytes, HZ_SEAL_BYTES) / sizeof(*words); i++)
        words[i] = seal_word(&words[i]);
    hz_livemap_seal(block);
}

/* `first`: the first word to look at. */
static void seal_check(const void *block, size_t first, const char *found) {
    const uintptr_t *words = block;
    if (!hz_livemap_is_sealed(block))
        return;
    for (size_t i = first; i < seal_words(block); i++)
        if (HZ_UNLIKELY(words[i] != seal_word(&words[i])))
            hz_misuse(HZ_TEXT_AFTER_FREE, block, found);
}

void *hz_seal_break(void *block) {
    if (block == NULL)
        return NULL;
    seal_check(block, 0, HZ_FOUND_IN_MALLOC);
    hz_livemap_unseal(block, HZ_GRANULE_BYTES);
    return block;
}

void hz_seals_check(void *const *blocks, uint32_t count, const char *found) {
    for (uint32_t i = 0; i < count; i++)
        if (blocks[i] != NULL)
            seal_check(blocks[i], 0, found);
}

void hz_seal_check_linked(const void *block, const char *found) {
    seal_check(block, 1, found);
}

void hz_seals_mend(void *const *blocks, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uintptr_t *first = blocks[i];
        if (hz_livemap_is_sealed(first))
            *first = seal_word(first);
    }
}

/* A seal that begins before `start` can reach into the memory. */
void hz_seals_forget(const void *start, size_t bytes) {
    size_t before = hz_min((uintptr_t)start % HZ_SEGMENT_BYTES, HZ_SEAL_BYTES - HZ_GRANULE_BYTES);
    hz_livemap_unseal((const char *)start - before, before + bytes);
}
