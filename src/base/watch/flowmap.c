/*
 * flowmap.c - see flowmap.h.
 */
#include "base/watch/flowmap.h"

#include "base/arena/arena.h"
#include "base/arena/spread.h"
#include "base/map/meta.h"
#include "base/os/os.h"

enum {
    FLOW_WORDS = HZ_SEGMENT_BYTES / HZ_GRANULE_BYTES,
    FLOW_NOBODY = 0,
    FLOW_SERIAL_MAX = UINT16_MAX, /* later threads get the numbers of earlier ones */
    FLOW_SERIALS = HZ_CONFIG_STATS == 1 ? FLOW_SERIAL_MAX + 1 : 1,
    FLOW_STRIPES = HZ_CONFIG_STATS == 1 ? 16 : 1, /* copies of the counters, so that threads seldom share lines */
    FLOW_PAIRS_LOG2 = HZ_CONFIG_STATS == 1 ? 12 : 0,
    FLOW_PAIRS = 1 << FLOW_PAIRS_LOG2,
    FLOW_TRIES = 32, /* entries that a search for a pair looks at */
    FLOW_SIZE_BITS = 8,
};

_Static_assert((int)HZ_FLOWMAP_SIZES < 1 << FLOW_SIZE_BITS, "a key has room for a size");

typedef _Atomic(uint16_t) thread_word; /* relaxed, all: the program orders a block's free after its malloc */

struct flow_counters {
    _Atomic(uint64_t) freed_blocks; /* counter, all */
    _Atomic(uint64_t) freed_bytes;
    _Atomic(uint64_t) passed_blocks;
    _Atomic(uint64_t) passed_bytes;
};

struct flow_pair {
    _Atomic(uint64_t) key;    /* cas; 0: empty, else set once */
    _Atomic(uint64_t) blocks; /* counter, both */
    _Atomic(uint64_t) bytes;
};

/* Stands for the map of a segment for which there was no memory. */
static thread_word flow_unwatched[1];

static HZ_ALIGNED(HZ_CACHE_LINE_BYTES) struct flow_counters flow_counted[FLOW_STRIPES][HZ_FLOWMAP_SIZES];
static struct flow_pair flow_pairs[FLOW_PAIRS];
static struct flow_pair pairs_beyond; /* the sum of all pairs that found no room */

static _Atomic(uint32_t) thread_ids[FLOW_SERIALS]; /* counter: the kernel's id of the thread with the serial number */
static _Atomic(uint32_t) serials;                  /* counter */
static HZ_TLS uint16_t own_serial;                 /* owner. A fork's child keeps it, with the blocks */

static uint16_t flow_serial(void) {
    if (HZ_UNLIKELY(own_serial == FLOW_NOBODY)) {
        uint16_t serial = (uint16_t)(hz_add_rlx(&serials, 1) % FLOW_SERIAL_MAX + 1); /* relaxed, both: counter */
        hz_store_rlx(&thread_ids[serial % FLOW_SERIALS], hz_os_thread_id());
        own_serial = serial;
    }
    return own_serial;
}

static bool flow_is_direct(const struct hz_segment *segment) {
    return hz_load_rlx(&segment->kind) == HZ_SEGMENT_DIRECT; /* relaxed: constant while the caller has the block */
}

/* The word of a block start in a map. NULL if there is no map, or the address cannot be a block start. */
static thread_word *flow_word_in(thread_word *map, const void *block) {
    if (map == NULL || map == flow_unwatched || (uintptr_t)block % HZ_GRANULE_BYTES != 0)
        return NULL;
    return &map[((uintptr_t)block & (HZ_SEGMENT_BYTES - 1)) / HZ_GRANULE_BYTES];
}

static thread_word *flow_map_make(struct hz_segment *segment) {
    thread_word *map = hz_load_acq(&segment->flowmap); /* sync: livemap-publish, partner the CAS below */
    if (map == NULL) {
        thread_word *made = hz_meta_alloc(FLOW_WORDS * sizeof(thread_word));
        if (made == NULL)
            made = flow_unwatched;
        /* sync: livemap-publish, partner flow_word_find. A thread that loses the race wastes the map it made */
        if (hz_cas_strong_ar_acq(&segment->flowmap, &map, made))
            map = made;
    }
    return map;
}

void hz_flowmap_add(const void *block) {
    struct hz_segment *segment = hz_segment_get(block);
    thread_word *word = flow_is_direct(segment) ? &segment->flow_thread : flow_word_in(flow_map_make(segment), block);
    if (word != NULL)
        hz_store_rlx(word, flow_serial());
}

static thread_word *flow_word_find(const void *block) {
    struct hz_segment *segment = hz_segment_find(block);
    if (segment == NULL)
        return NULL;
    if (flow_is_direct(segment))
        return (uintptr_t)block % HZ_SEGMENT_BYTES < HZ_SPREAD_BYTES ? &segment->flow_thread : NULL;
    return flow_word_in(hz_load_acq(&segment->flowmap), block); /* sync: livemap-publish, partner flow_map_make */
}

bool hz_flowmap_has(const void *block) {
    thread_word *word = flow_word_find(block);
    return word != NULL && hz_load_rlx(word) != FLOW_NOBODY;
}

/* Finds the pair of a key, or makes it in an empty entry near the key's place. `pairs_beyond` if there is none. */
static struct flow_pair *flow_pair_of(uint64_t key) {
    uint32_t place = (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> (63 - FLOW_PAIRS_LOG2) >> 1);
    for (uint32_t tries = 0; tries < FLOW_TRIES; tries++) {
        struct flow_pair *pair = &flow_pairs[(place + tries) % FLOW_PAIRS];
        uint64_t seen = hz_load_rlx(&pair->key); /* relaxed, all: cas; a key publishes nothing */
        while (seen == 0 && !hz_cas_rlx_rlx(&pair->key, &seen, key)) {
        }
        if (seen == 0 || seen == key)
            return pair;
    }
    return &pairs_beyond;
}

void hz_flowmap_remove(const void *block, unsigned size, size_t bytes) {
    thread_word *word = flow_word_find(block);
    uint16_t to = flow_serial();
    uint16_t from = word != NULL ? hz_load_rlx(word) : to;
    struct flow_counters *counters = &flow_counted[to % FLOW_STRIPES][size];
    if (word != NULL)
        hz_store_rlx(word, FLOW_NOBODY);
    hz_add_rlx(&counters->freed_blocks, 1); /* relaxed, all: counter */
    hz_add_rlx(&counters->freed_bytes, bytes);
    if (from == to)
        return;
    hz_add_rlx(&counters->passed_blocks, 1);
    hz_add_rlx(&counters->passed_bytes, bytes);
    struct flow_pair *pair = flow_pair_of(((uint64_t)from << 16 | to) << FLOW_SIZE_BITS | size);
    hz_add_rlx(&pair->blocks, 1);
    hz_add_rlx(&pair->bytes, bytes);
}

void hz_flowmap_sums_get(unsigned size, struct hz_flowmap_sums *sums) {
    *sums = (struct hz_flowmap_sums){0};
    for (unsigned stripe = 0; stripe < FLOW_STRIPES; stripe++) {
        struct flow_counters *counters = &flow_counted[stripe][size];
        sums->passed_blocks += hz_load_rlx(&counters->passed_blocks); /* relaxed, all: counter */
        sums->passed_bytes += hz_load_rlx(&counters->passed_bytes);
        sums->freed_blocks += hz_load_rlx(&counters->freed_blocks);
        sums->freed_bytes += hz_load_rlx(&counters->freed_bytes);
    }
}

uint32_t hz_flowmap_pair_count(void) {
    return FLOW_PAIRS + 1;
}

bool hz_flowmap_pair_get(uint32_t index, struct hz_flowmap_pair *out) {
    struct flow_pair *pair = index < FLOW_PAIRS ? &flow_pairs[index] : &pairs_beyond;
    uint64_t key = hz_load_rlx(&pair->key); /* relaxed, all: counter */
    *out = (struct hz_flowmap_pair){
        .from = HZ_FLOWMAP_OTHERS,
        .to = HZ_FLOWMAP_OTHERS,
        .size = HZ_FLOWMAP_SIZES,
        .blocks = hz_load_rlx(&pair->blocks),
        .bytes = hz_load_rlx(&pair->bytes),
    };
    if (key != 0) {
        out->from = hz_load_rlx(&thread_ids[(key >> (FLOW_SIZE_BITS + 16)) % FLOW_SERIALS]);
        out->to = hz_load_rlx(&thread_ids[(key >> FLOW_SIZE_BITS) % FLOW_SERIALS]);
        out->size = (unsigned)(key & ((1U << FLOW_SIZE_BITS) - 1));
    }
    return out->blocks > 0;
}
