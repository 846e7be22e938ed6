/*
 * livemap.c - one bitmap per segment, made when the segment's first block is handed out. See livemap.h.
 */
#include "base/watch/livemap.h"

#include "base/arena/arena.h"
#include "base/map/meta.h"

enum {
    MAP_BITS = HZ_SEGMENT_BYTES / HZ_GRANULE_BYTES,
    MAP_WORDS = MAP_BITS / 64,
    MAP_BYTES = 2 * MAP_BITS / 8, /* live, then sealed */
};

/* The map of each segment that could get no memory for one. The blocks of such a segment are never watched. */
static _Atomic(uint64_t) unwatched[1];

static uintptr_t bit_of(const void *block) {
    return ((uintptr_t)block & (HZ_SEGMENT_BYTES - 1)) / HZ_GRANULE_BYTES;
}

/* The map of the block's segment, made if there is none. */
static _Atomic(uint64_t) *map_of(const void *block) {
    struct hz_segment *segment = hz_segment_get(block);
    _Atomic(uint64_t) *map = hz_load_acq(&segment->livemap); /* sync: livemap-publish, partner the CAS below */
    if (map == NULL) {
        _Atomic(uint64_t) *made = hz_meta_alloc(MAP_BYTES);
        if (made == NULL)
            made = unwatched;
        /* sync: livemap-publish, partner word_of. The loser of a race wastes its map */
        if (hz_cas_strong_ar_acq(&segment->livemap, &map, made))
            map = made;
    }
    return map;
}

void hz_livemap_add(const void *block) {
    _Atomic(uint64_t) *map = map_of(block);
    if (map == unwatched)
        return;
    uintptr_t bit = bit_of(block);
    /* relaxed: the program orders a block's free after its malloc */
    hz_or_rlx(&map[bit / 64], UINT64_C(1) << (bit % 64));
}

/* The word and the mask of a block's bit. NULL, and an answer, if there is none. */
static _Atomic(uint64_t) *word_of(const void *block, uint64_t *mask, enum hz_livemap_answer *answer) {
    struct hz_segment *segment = hz_segment_find(block);
    *answer = HZ_LIVEMAP_FOREIGN;
    if (segment == NULL)
        return NULL;
    _Atomic(uint64_t) *map = hz_load_acq(&segment->livemap); /* sync: livemap-publish, partner map_of */
    *answer = HZ_LIVEMAP_OK;
    if (map == NULL || map == unwatched)
        return NULL;
    *answer = HZ_LIVEMAP_NOT_LIVE;
    if ((uintptr_t)block % HZ_GRANULE_BYTES != 0)
        return NULL;
    uintptr_t bit = bit_of(block);
    *mask = UINT64_C(1) << (bit % 64);
    return &map[bit / 64];
}

enum hz_livemap_answer hz_livemap_remove(const void *block) {
    uint64_t mask;
    enum hz_livemap_answer answer;
    _Atomic(uint64_t) *word = word_of(block, &mask, &answer);
    if (word == NULL)
        return answer;
    return (hz_and_rlx(word, ~mask) & mask) != 0 ? HZ_LIVEMAP_OK
                                                 : HZ_LIVEMAP_NOT_LIVE; /* relaxed: as in hz_livemap_add */
}

enum hz_livemap_answer hz_livemap_find(const void *block) {
    uint64_t mask;
    enum hz_livemap_answer answer;
    _Atomic(uint64_t) *word = word_of(block, &mask, &answer);
    if (word == NULL)
        return answer;
    return (hz_load_rlx(word) & mask) != 0 ? HZ_LIVEMAP_OK : HZ_LIVEMAP_NOT_LIVE; /* relaxed: as in hz_livemap_add */
}

/* Relaxed, in all functions below: the holder of a block changes its bit, and passes it on with the block. */
void hz_livemap_seal(const void *block) {
    _Atomic(uint64_t) *map = map_of(block);
    uintptr_t bit = bit_of(block);
    if (map != unwatched)
        hz_or_rlx(&map[MAP_WORDS + bit / 64], UINT64_C(1) << (bit % 64));
}

/* The map of a segment that may be none of ours, or have no map; NULL in that case. */
static _Atomic(uint64_t) *map_find(const void *address) {
    struct hz_segment *segment = hz_segment_find(address);
    if (segment == NULL)
        return NULL;
    _Atomic(uint64_t) *map = hz_load_acq(&segment->livemap); /* sync: livemap-publish, partner map_of */
    return map == unwatched ? NULL : map;
}

bool hz_livemap_is_sealed(const void *block) {
    _Atomic(uint64_t) *map = map_find(block);
    uintptr_t bit = bit_of(block);
    return map != NULL && (hz_load_rlx(&map[MAP_WORDS + bit / 64]) >> (bit % 64) & 1) != 0;
}

/* `first_word`: of the half of the map that is meant. */
static void bits_clear(const void *start, size_t bytes, size_t first_word) {
    _Atomic(uint64_t) *map = map_find(start);
    uintptr_t bit = bit_of(start);
    uintptr_t end = bit + bytes / HZ_GRANULE_BYTES;
    while (map != NULL && bit < end) {
        uintptr_t count = hz_min(end - bit, 64 - bit % 64);
        uint64_t mask = UINT64_MAX >> (64 - count) << (bit % 64);
        if ((hz_load_rlx(&map[first_word + bit / 64]) & mask) != 0)
            hz_and_rlx(&map[first_word + bit / 64], ~mask);
        bit += count;
    }
}

void hz_livemap_unseal(const void *start, size_t bytes) {
    bits_clear(start, bytes, MAP_WORDS);
}

void hz_livemap_forget(const void *start, size_t bytes) {
    bits_clear(start, bytes, 0);
}
