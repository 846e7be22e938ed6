/*
 * profile.c - see profile.h.
 *
 * A node describes a sampled block. The nodes of a chunk follow one another, so a pool address leads to its node by
 * arithmetic. Nodes of large blocks are in a hash table. A table of counters beside it, by another part of the hash,
 * says without a lock that an address is not in the table: of most large blocks that are freed.
 *
 * A fork can copy all this between any two stores. The copy may lack a node, but has none twice.
 */
#include "base/profile/profile.h"

#include "base/lists/growing.h"
#include "base/lists/lock.h"
#include "base/os/anatomy.h"
#include "base/os/os.h"
#include "base/os/random.h"
#include "base/profile/callstack.h"
#include "base/profile/frames.h"
#include "base/profile/profile_events.h"
#include "base/profile/profile_flow.h"
#include "base/profile/profile_sites.h"

#include <link.h>

enum {
    POOL_CHUNK_LOG2 = 16,
    POOL_CHUNK_BYTES = 1 << POOL_CHUNK_LOG2,
    POOL_GRANULE_LOG2 = 4,
    POOL_SIZES = (POOL_CHUNK_BYTES >> POOL_GRANULE_LOG2) + 1, /* by block bytes in units of 16 */
    LARGE_BUCKETS_LOG2 = 14,
    LARGE_BUCKETS = 1 << LARGE_BUCKETS_LOG2,
    TABLES_SHARE_MAX = 64,
    OWN_FRAMES_MAX = 16,   /* the library's own calls of a call stack */
    PEAK_SHARE = 10,       /* a peak counts when it is this part above the last one, */
    PEAK_SAMPLES_MIN = 16, /* and so many times the rate */
};

#define POOL_BYTES  ((size_t)4 << 30)
#define NODES_BYTES ((size_t)512 << 20)

struct chunk {
    uint32_t first_node; /* const after publish */
    uint32_t block_bytes;
};

/* Nodes are numbered; 0: none. */
struct node {
    const char *block;      /* const after publish, in the pool; else lock */
    size_t size;            /* lock: as requested */
    uint32_t site;          /* lock; 0: not live */
    uint32_t next;          /* lock: of a free list, or of a bucket */
    uint32_t was_live : 1;  /* lock: it had a block of the pool that the program has freed */
    uint32_t listener : 31; /* lock: the registration that was told of the block; 0: none */
    uint32_t thread;        /* lock: the thread that allocated the block */
};

_Static_assert(sizeof(struct node) == 32, "two to a cache line");

struct hz_profile_state hz_profile_state;

static struct {
    struct hz_lock lock;           /* a leaf */
    struct hz_growing pool;        /* lock */
    struct hz_growing chunks;      /* lock; what a chunk says of itself does not change */
    struct hz_growing nodes;       /* lock */
    uint32_t chunk_count;          /* lock */
    uint32_t node_count;           /* lock; number 0 counts */
    uint32_t free_of[POOL_SIZES];  /* lock; by size: freed blocks of the pool */
    uint32_t fresh_of[POOL_SIZES]; /* lock; by size: the next node of the newest chunk that had no block yet; 0: none */
    uint32_t free_large;           /* lock: nodes without a block */
    uint32_t buckets[LARGE_BUCKETS]; /* lock: nodes of large blocks */
    _Atomic(uint32_t)
        filter[LARGE_BUCKETS];  /* counter: large blocks of this hash; the program orders a free after its malloc */
    _Atomic(size_t) live_bytes; /* counter, all */
    _Atomic(size_t) live_blocks;
    _Atomic(size_t) held_bytes;
    _Atomic(uint64_t) lost_blocks;
    uint64_t live_estimate;       /* lock: of the program, in bytes; counted only for peak_told */
    uint64_t peak_at;             /* lock: peak_told is called when the estimate reaches this */
    void (*peak_told)(void);      /* const after publish; NULL: nobody is told */
    uint64_t prepared_rate;       /* const after publish; 0: not prepared */
    bool by_frames;               /* const after publish: call stacks come by frame pointers */
    uintptr_t own_begin, own_end; /* const after publish: the library's code; empty if it is linked into the program */
} profile;

HZ_ANATOMY(profile, HZ_ANATOMY_OBJECT(profile.live_bytes, profile.live_bytes),
           HZ_ANATOMY_OBJECT(profile.live_blocks, profile.live_blocks),
           HZ_ANATOMY_OBJECT(profile.held_bytes, profile.held_bytes));

static HZ_TLS bool
    is_in_profile; /* owner; the thread is in this module: the unwinder, and signal handlers, can allocate */

/* owner; the kernel's id at the thread's first sample or free of one. A fork's child keeps it, since the thread that
   has forked goes on there, with its blocks. 0: none yet */
static HZ_TLS uint32_t sampled_thread;

/* Outside the lock: the C library's lock can be the program's own. */
static void thread_note(void) {
    if (sampled_thread == 0)
        sampled_thread = hz_os_thread_id();
}

/* ---- start ------------------------------------------------------------------------------------------- */

/* dl_iterate_phdr calls it for the program first, then for each library. */
static int find_own(struct dl_phdr_info *info, size_t size, void *is_first) {
    uintptr_t here = (uintptr_t)&hz_profile_prepare;
    bool is_program = *(bool *)is_first;
    *(bool *)is_first = false;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || here - begin >= info->dlpi_phdr[i].p_memsz)
            continue;
        if (!is_program) {
            profile.own_begin = begin;
            profile.own_end = begin + info->dlpi_phdr[i].p_memsz;
        }
        return 1;
    }
    return 0;
}

static void own_find(void) {
    bool is_first = true;
    (void)dl_iterate_phdr(find_own, &is_first); /* returns what find_own does */
}

/* If the library is linked into the program's own file, it cannot tell its own calls from the program's. */
bool hz_profile_use_frames(void) {
    hz_callstack_prime();
    own_find();
    profile.by_frames = profile.own_begin != profile.own_end && hz_frames_start(profile.own_begin, profile.own_end);
    return profile.by_frames;
}

static bool tables_make(size_t share) {
    if (hz_growing_make(&profile.pool, POOL_BYTES / share) &&
        hz_growing_make(&profile.chunks, POOL_BYTES / share / POOL_CHUNK_BYTES * sizeof(struct chunk)) &&
        hz_growing_make(&profile.nodes, NODES_BYTES / share) && hz_profile_sites_make(share))
        return true;
    hz_growing_drop(&profile.pool);
    hz_growing_drop(&profile.chunks);
    hz_growing_drop(&profile.nodes);
    return false;
}

bool hz_profile_prepare(uint64_t rate) {
    hz_callstack_prime();
    bool is_small = hz_os_address_space_limit() != SIZE_MAX;
    size_t share = is_small ? TABLES_SHARE_MAX : 1;
    while (!tables_make(share)) {
        if (share == TABLES_SHARE_MAX)
            return false;
        share *= 2;
    }
    own_find();
    profile.node_count = 1;
    hz_profile_flow_start();
    /* relaxed, all: there is one thread */
    hz_store_rlx(&hz_profile_state.begin, (uintptr_t)profile.pool.start);
    hz_store_rlx(&hz_profile_state.bytes, profile.pool.reserved_bytes);
    profile.prepared_rate = rate;
    return true;
}

uint64_t hz_profile_prepared_rate(void) {
    return profile.prepared_rate;
}

void hz_profile_switch(bool is_on) {
    if (is_on) /* relaxed, both: hints; what is sampled uses prepared_rate */
        hz_store_rlx(&hz_profile_state.rate, profile.prepared_rate);
    hz_store_rlx(&hz_profile_state.is_on, is_on);
}

bool hz_profile_start(uint64_t rate) {
    bool is_prepared = hz_profile_prepare(rate);
    if (is_prepared)
        hz_profile_switch(true);
    return is_prepared;
}

/* ---- call stacks --------------------------------------------------------------------------------------- */

/* The caller's call stack without the library's own calls; also notes the thread. `room`: HZ_PROFILE_DEPTH +
   OWN_FRAMES_MAX addresses. */
static struct hz_profile_stack stack_take(void **room) {
    uint32_t most = HZ_PROFILE_DEPTH + OWN_FRAMES_MAX;
    uint32_t depth = profile.by_frames ? hz_frames_take(room, most) : hz_os_backtrace(room, (int)most);
    uint32_t own = 0;
    thread_note();
    while (own < depth && (uintptr_t)room[own] - profile.own_begin < profile.own_end - profile.own_begin)
        own++;
    return (struct hz_profile_stack){.depth = (uint32_t)hz_min(depth - own, HZ_PROFILE_DEPTH),
                                     .addresses = (const void *const *)(room + own)};
}

static void count_lost(void) {
    hz_add_rlx(&profile.lost_blocks, 1); /* relaxed: counter */
}

/* For how many blocks a sampled one stands. */
static double scale_of(uint32_t site) {
    return 1 / hz_random_chance(hz_profile_site_at(site)->weight, profile.prepared_rate);
}

static void flow_count_locked(const struct hz_profile_record *record, uint32_t to, bool is_undone) {
    hz_profile_flow_count_locked(record->thread, to, record->size, scale_of(record->site), is_undone);
}

/* What the program is told of the block. */
static void notice_make_locked(struct hz_profile_notice *notice, enum hz_sampling_kind kind, const void *block,
                               const struct hz_profile_record *record) {
    if (record->listener == 0)
        return;
    struct hz_profile_stack stack = hz_profile_site_stack(hz_profile_site_at(record->site));
    struct hz_sampling_event event = {
        .kind = kind,
        .block = block,
        .bytes = record->size,
        .stands_for = scale_of(record->site),
        .thread_id = sampled_thread,
        .allocated_by = record->thread,
        .stack = stack.addresses,
        .depth = stack.depth,
    };
    hz_profile_notice_make_locked(notice, record->listener, &event);
}

/* For how many bytes of the program a sampled block stands. */
static uint64_t estimate_of(const struct hz_profile_record *record) {
    return (uint64_t)((double)record->size * scale_of(record->site));
}

static void peak_look_locked(const struct hz_profile_record *record) {
    if (profile.peak_told == NULL)
        return;
    profile.live_estimate += estimate_of(record);
    if (profile.live_estimate < profile.peak_at)
        return;
    profile.peak_at = profile.live_estimate + profile.live_estimate / PEAK_SHARE;
    profile.peak_told();
}

void hz_profile_watch_peak(void (*told)(void)) {
    profile.peak_at = PEAK_SAMPLES_MIN * profile.prepared_rate;
    profile.peak_told = told;
}

static void count_allocated_locked(const struct hz_profile_record *record) {
    struct hz_profile_site *site = hz_profile_site_at(record->site);
    hz_add_rlx(&site->allocated_bytes, record->size); /* relaxed, both: counter */
    hz_add_rlx(&site->allocated_blocks, 1);
    peak_look_locked(record);
    flow_count_locked(record, HZ_PROFILE_NOBODY, false);
}

/* A block that the calling thread frees. is_undone: it did not free the block. */
static void count_freed_locked(const struct hz_profile_record *record, bool is_undone) {
    struct hz_profile_site *site = hz_profile_site_at(record->site);
    uint64_t sign = is_undone ? UINT64_MAX : 1;
    hz_add_rlx(&site->freed_bytes, sign * record->size); /* relaxed, all: counter */
    hz_add_rlx(&site->freed_blocks, sign);
    if (profile.peak_told != NULL && is_undone)
        profile.live_estimate += estimate_of(record);
    else if (profile.peak_told != NULL) /* a block that was sampled before the watch began is not in it */
        profile.live_estimate -= hz_min(estimate_of(record), profile.live_estimate);
    if (record->thread != sampled_thread) {
        hz_add_rlx(&site->passed_bytes, sign * record->size);
        hz_add_rlx(&site->passed_blocks, sign);
    }
    flow_count_locked(record, sampled_thread, is_undone);
}

/* ---- nodes ------------------------------------------------------------------------------------------- */

static struct node *node_at(uint32_t number) {
    return (struct node *)(void *)profile.nodes.start + number;
}

static struct hz_profile_record record_of(const struct node *node) {
    return (struct hz_profile_record){
        .size = node->size, .site = node->site, .thread = node->thread, .listener = node->listener};
}

/* The first of `count` new nodes; 0 when there is no memory. */
static uint32_t nodes_new_locked(uint32_t count) {
    uint32_t first = profile.node_count;
    if (!hz_growing_reach_locked(&profile.nodes, ((size_t)first + count) * sizeof(struct node)))
        return 0;
    profile.node_count = first + count;
    return first;
}

/* Takes a node off a list that is not empty. */
static uint32_t node_pop_locked(uint32_t *list) {
    uint32_t number = *list;
    *list = node_at(number)->next;
    hz_signal_fence(); /* fork: a child must not have it in the list and in use */
    return number;
}

static void node_push_locked(uint32_t *list, uint32_t number) {
    node_at(number)->next = *list;
    hz_signal_fence();
    *list = number;
}

/* ---- the pool ---------------------------------------------------------------------------------------- */

static struct chunk *chunk_at(size_t index) {
    return (struct chunk *)(void *)profile.chunks.start + index;
}

static bool chunk_make_locked(size_t block_bytes) {
    uint32_t index = profile.chunk_count;
    if (!hz_growing_reach_locked(&profile.chunks, (index + 1) * sizeof(struct chunk)) ||
        !hz_growing_reach_locked(&profile.pool, (size_t)(index + 1) << POOL_CHUNK_LOG2))
        return false;
    /* last: nodes are never given back, and large blocks need some too when the pool is full */
    uint32_t first = nodes_new_locked((uint32_t)(POOL_CHUNK_BYTES / block_bytes));
    if (first == 0)
        return false;
    *chunk_at(index) = (struct chunk){.first_node = first, .block_bytes = (uint32_t)block_bytes};
    hz_signal_fence();
    profile.chunk_count = index + 1;
    hz_signal_fence();
    profile.fresh_of[block_bytes >> POOL_GRANULE_LOG2] = first;
    node_at(first)->block = profile.pool.start + ((size_t)index << POOL_CHUNK_LOG2);
    hz_add_rlx(&profile.held_bytes, POOL_CHUNK_BYTES); /* relaxed: counter */
    return true;
}

/* The next node of the newest chunk of its size. */
static uint32_t fresh_take_locked(size_t block_bytes) {
    uint32_t *fresh = &profile.fresh_of[block_bytes >> POOL_GRANULE_LOG2];
    if (*fresh == 0 && !chunk_make_locked(block_bytes))
        return 0;
    uint32_t number = *fresh;
    const char *block = node_at(number)->block;
    const char *behind = block + 2 * block_bytes;
    bool has_next = ((uintptr_t)block >> POOL_CHUNK_LOG2) == (uintptr_t)(behind - 1) >> POOL_CHUNK_LOG2;
    if (has_next)
        node_at(number + 1)->block = block + block_bytes;
    hz_signal_fence();
    *fresh = has_next ? number + 1 : 0;
    hz_signal_fence(); /* fork: a child must not have the node as fresh and in use */
    return number;
}

/* The node of a pool address; NULL when no block was ever there. */
static struct node *pool_node_locked(const void *address, const struct chunk **of) {
    size_t offset = (size_t)((const char *)address - profile.pool.start);
    if (offset >> POOL_CHUNK_LOG2 >= profile.chunk_count)
        return NULL;
    const struct chunk *chunk = chunk_at(offset >> POOL_CHUNK_LOG2);
    uint32_t index = (uint32_t)(offset % POOL_CHUNK_BYTES) / chunk->block_bytes;
    *of = chunk;
    if (index >= POOL_CHUNK_BYTES / chunk->block_bytes)
        return NULL;
    struct node *node = node_at(chunk->first_node + index);
    return node->site != 0 || node->was_live ? node : NULL;
}

static void *pool_alloc_locked(size_t block_bytes, size_t size, const struct hz_profile_stack *stack, uint64_t hash,
                               struct hz_profile_notice *notice) {
    uint32_t *list = &profile.free_of[block_bytes >> POOL_GRANULE_LOG2];
    uint32_t site = hz_profile_site_get_locked(stack, block_bytes, hash);
    if (site == 0)
        return NULL;
    uint32_t number = *list != 0 ? node_pop_locked(list) : fresh_take_locked(block_bytes);
    if (number == 0)
        return NULL;
    struct node *node = node_at(number);
    node->size = size;
    node->site = site;
    node->thread = sampled_thread;
    node->listener = hz_profile_listener_locked() & INT32_MAX;
    struct hz_profile_record record = record_of(node);
    count_allocated_locked(&record);
    notice_make_locked(notice, HZ_SAMPLING_ALLOC, node->block, &record);
    hz_add_rlx(&profile.live_bytes, block_bytes); /* relaxed, both: counter */
    hz_add_rlx(&profile.live_blocks, 1);
    return (void *)(uintptr_t)node->block;
}

static void *pool_alloc(size_t block_bytes, size_t size, struct hz_profile_notice *notice) {
    void *room[HZ_PROFILE_DEPTH + OWN_FRAMES_MAX];
    struct hz_profile_stack stack = stack_take(room);
    uint64_t hash = hz_profile_hash(&stack, block_bytes);
    hz_lock_acquire(&profile.lock);
    void *block = pool_alloc_locked(block_bytes, size, &stack, hash, notice);
    hz_lock_release(&profile.lock);
    return block;
}

void *hz_profile_alloc(size_t block_bytes, size_t size) {
    struct hz_profile_notice notice = {.callback = NULL};
    void *block = NULL;
    if (!is_in_profile) {
        is_in_profile = true;
        hz_signal_fence();
        block = pool_alloc(block_bytes, size, &notice);
        hz_signal_fence();
        is_in_profile = false;
    }
    if (block == NULL)
        count_lost();
    hz_profile_notice_give(&notice);
    return block;
}

static enum hz_profile_answer pool_judge_locked(const void *block, const struct node *node) {
    if (node == NULL)
        return HZ_PROFILE_NO_BLOCK;
    if (node->block != block)
        return HZ_PROFILE_INSIDE;
    return node->site != 0 ? HZ_PROFILE_OK : HZ_PROFILE_TWICE;
}

static enum hz_profile_answer pool_free_locked(const void *block) {
    const struct chunk *chunk = NULL;
    struct node *node = pool_node_locked(block, &chunk);
    enum hz_profile_answer answer = pool_judge_locked(block, node);
    if (answer != HZ_PROFILE_OK)
        return answer;
    struct hz_profile_record record = record_of(node);
    count_freed_locked(&record, false);
    node->was_live = true;
    node->site = 0;
    hz_sub_rlx(&profile.live_bytes, chunk->block_bytes); /* relaxed, both: counter */
    hz_sub_rlx(&profile.live_blocks, 1);
    node_push_locked(&profile.free_of[chunk->block_bytes >> POOL_GRANULE_LOG2], (uint32_t)(node - node_at(0)));
    return HZ_PROFILE_OK;
}

static const struct node *large_node_locked(const void *block);

static void notice_free_locked(struct hz_profile_notice *notice, const void *block) {
    const struct chunk *chunk;
    const struct node *node = hz_profile_has(block) ? pool_node_locked(block, &chunk) : large_node_locked(block);
    if (node == NULL || node->site == 0 || node->block != block)
        return;
    struct hz_profile_record record = record_of(node);
    notice_make_locked(notice, HZ_SAMPLING_FREE, block, &record);
}

/* The caller still has the block, so no other thread can be told of an allocation at this address before. */
static void tell_free(const void *block) {
    struct hz_profile_notice notice = {.callback = NULL};
    is_in_profile = true;
    hz_signal_fence();
    thread_note();
    hz_lock_acquire(&profile.lock);
    notice_free_locked(&notice, block);
    hz_lock_release(&profile.lock);
    hz_signal_fence();
    is_in_profile = false;
    hz_profile_notice_give(&notice);
}

/* A signal handler of a thread that is inside must not wait for the lock, which its own thread may hold. */
enum hz_profile_answer hz_profile_free(const void *block) {
    if (is_in_profile) {
        count_lost();
        return HZ_PROFILE_OK;
    }
    if (HZ_UNLIKELY(hz_profile_is_heard()))
        tell_free(block);
    is_in_profile = true;
    hz_signal_fence();
    thread_note();
    hz_lock_acquire(&profile.lock);
    enum hz_profile_answer answer = pool_free_locked(block);
    hz_lock_release(&profile.lock);
    hz_signal_fence();
    is_in_profile = false;
    return answer;
}

/* Without the lock: a live block's chunk and node do not change. */
enum hz_profile_answer hz_profile_look(const void *block, size_t *block_bytes) {
    const struct chunk *chunk = NULL;
    bool is_free = !is_in_profile;
    is_in_profile = true;
    hz_signal_fence();
    if (is_free)
        hz_lock_acquire(&profile.lock);
    enum hz_profile_answer answer = pool_judge_locked(block, pool_node_locked(block, &chunk));
    if (is_free)
        hz_lock_release(&profile.lock);
    hz_signal_fence();
    is_in_profile = !is_free;
    if (answer == HZ_PROFILE_OK)
        *block_bytes = chunk->block_bytes;
    return answer;
}

/* ---- large blocks ------------------------------------------------------------------------------------ */

size_t hz_profile_weight(size_t size) {
    enum { STEPS_LOG2 = 3 };
    size_t atleast = hz_max(size, POOL_CHUNK_BYTES);
    return hz_round_up(atleast, (size_t)1 << (hz_log2(atleast) - STEPS_LOG2));
}

/* No two large blocks begin in the same system page. */
static uint32_t large_bucket_of(const void *block) {
    return (uint32_t)(((uintptr_t)block >> 12) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - LARGE_BUCKETS_LOG2));
}

static bool large_add_locked(const void *block, const struct hz_profile_record *record) {
    uint32_t number = profile.free_large != 0 ? node_pop_locked(&profile.free_large) : nodes_new_locked(1);
    if (number == 0)
        return false;
    struct node *node = node_at(number);
    node->block = block;
    node->size = record->size;
    node->site = record->site;
    node->thread = record->thread;
    node->listener = record->listener & INT32_MAX;
    hz_add_rlx(&profile.filter[large_bucket_of(block)], 1); /* relaxed: the program orders a free after its malloc */
    node_push_locked(&profile.buckets[large_bucket_of(block)], number);
    return true;
}

static bool large_add(const void *block, size_t size, size_t weight, struct hz_profile_notice *notice) {
    void *room[HZ_PROFILE_DEPTH + OWN_FRAMES_MAX];
    struct hz_profile_stack stack = stack_take(room);
    uint64_t hash = hz_profile_hash(&stack, weight);
    hz_lock_acquire(&profile.lock);
    struct hz_profile_record record = {.size = size,
                                       .site = hz_profile_site_get_locked(&stack, weight, hash),
                                       .thread = sampled_thread,
                                       .listener = hz_profile_listener_locked()};
    bool is_added = record.site != 0 && large_add_locked(block, &record);
    if (is_added) {
        count_allocated_locked(&record);
        notice_make_locked(notice, HZ_SAMPLING_ALLOC, block, &record);
    }
    hz_lock_release(&profile.lock);
    return is_added;
}

void hz_profile_add(const void *block, size_t size, size_t weight) {
    struct hz_profile_notice notice = {.callback = NULL};
    bool is_added = false;
    if (!is_in_profile) {
        is_in_profile = true;
        hz_signal_fence();
        is_added = large_add(block, size, weight, &notice);
        hz_signal_fence();
        is_in_profile = false;
    }
    if (!is_added)
        count_lost();
    hz_profile_notice_give(&notice);
}

/* The link to the block's node; it is 0 if the block was not sampled. */
static uint32_t *large_find_locked(const void *block) {
    uint32_t *link = &profile.buckets[large_bucket_of(block)];
    while (*link != 0 && node_at(*link)->block != block)
        link = &node_at(*link)->next;
    return link;
}

static const struct node *large_node_locked(const void *block) {
    uint32_t number = *large_find_locked(block);
    return number != 0 ? node_at(number) : NULL;
}

static bool large_remove_locked(const void *block, struct hz_profile_record *record) {
    uint32_t *link = large_find_locked(block);
    uint32_t number = *link;
    if (number == 0)
        return false;
    struct node *node = node_at(number);
    *record = record_of(node);
    *link = node->next;
    hz_signal_fence();                                      /* fork: a child must not have the node in both lists */
    hz_sub_rlx(&profile.filter[large_bucket_of(block)], 1); /* relaxed: counter */
    node_push_locked(&profile.free_large, number);
    count_freed_locked(record, false);
    return true;
}

void hz_profile_tell_free(const void *block) {
    /* relaxed: the program orders a free after its malloc */
    if (hz_load_rlx(&profile.filter[large_bucket_of(block)]) != 0 && hz_profile_is_heard() && !is_in_profile)
        tell_free(block);
}

bool hz_profile_remove(const void *block, struct hz_profile_record *record) {
    /* relaxed: the program orders a free after its malloc */
    if (hz_load_rlx(&profile.filter[large_bucket_of(block)]) == 0 || is_in_profile)
        return false;
    is_in_profile = true;
    hz_signal_fence();
    thread_note();
    hz_lock_acquire(&profile.lock);
    bool was_sampled = large_remove_locked(block, record);
    hz_lock_release(&profile.lock);
    hz_signal_fence();
    is_in_profile = false;
    return was_sampled;
}

void hz_profile_restore(const void *block, const struct hz_profile_record *record) {
    struct hz_profile_notice notice = {.callback = NULL};
    is_in_profile = true;
    hz_signal_fence();
    hz_lock_acquire(&profile.lock);
    if (large_add_locked(block, record)) {
        count_freed_locked(record, true);
        notice_make_locked(&notice, HZ_SAMPLING_ALLOC, block, record);
    }
    hz_lock_release(&profile.lock);
    hz_signal_fence();
    is_in_profile = false;
    hz_profile_notice_give(&notice);
}

/* ---- the rest ---------------------------------------------------------------------------------------- */

void hz_profile_show(void) {
    hz_growing_show(&profile.pool);
}

void hz_profile_figures_get(struct hz_profile_figures *figures) {
    *figures = (struct hz_profile_figures){
        .live_bytes = hz_load_rlx(&profile.live_bytes), /* relaxed, all: figures */
        .live_blocks = hz_load_rlx(&profile.live_blocks),
        .held_bytes = hz_load_rlx(&profile.held_bytes),
        .lost_blocks = hz_load_rlx(&profile.lost_blocks),
    };
}

void hz_profile_listen(hz_sampling_callback *callback, void *context) {
    bool was_in_profile = is_in_profile; /* a handler may have interrupted a sample */
    is_in_profile = true;
    hz_signal_fence();
    hz_lock_acquire(&profile.lock);
    hz_profile_callback_set_locked(callback, context);
    hz_lock_release(&profile.lock);
    hz_signal_fence();
    is_in_profile = was_in_profile;
}

bool hz_profile_is_inside(void) {
    return is_in_profile;
}

/* exit can be called by a signal handler that has interrupted this module. */
static uint32_t profile_count(uint32_t (*count_locked)(void)) {
    bool is_mine = hz_lock_is_mine(&profile.lock);
    if (!is_mine)
        hz_lock_acquire(&profile.lock);
    uint32_t count = count_locked();
    if (!is_mine)
        hz_lock_release(&profile.lock);
    return count;
}

uint32_t hz_profile_site_count(void) {
    return profile_count(hz_profile_site_count_locked);
}

uint32_t hz_profile_pair_count(void) {
    return profile_count(hz_profile_pair_count_locked);
}

bool hz_profile_block_at(const void *address, struct hz_profile_block *block) {
    const struct chunk *chunk = NULL;
    const struct node *node = pool_node_locked(address, &chunk);
    if (node == NULL || node->site == 0)
        return false;
    *block = (struct hz_profile_block){.start = node->block, .bytes = chunk->block_bytes, .site = node->site};
    return true;
}

size_t hz_profile_pool_bytes(void) {
    return (size_t)profile.chunk_count << POOL_CHUNK_LOG2;
}

bool hz_profile_block_get(const void *start, struct hz_profile_block *block) {
    bool is_mine = hz_lock_is_mine(&profile.lock); /* as in profile_count */
    if (hz_profile_rate() == 0)
        return false;
    if (!is_mine)
        hz_lock_acquire(&profile.lock);
    bool is_found = hz_profile_has(start) && hz_profile_block_at(start, block);
    const struct node *node = hz_profile_has(start) ? NULL : large_node_locked(start);
    if (node != NULL)
        *block = (struct hz_profile_block){.start = node->block, .bytes = node->size, .site = node->site};
    if (!is_mine)
        hz_lock_release(&profile.lock);
    return is_found || node != NULL;
}

void hz_profile_memory_walk(void (*visit)(void *context, const void *memory, size_t bytes), void *context) {
    const struct hz_growing *tables[] = {&profile.pool, &profile.chunks, &profile.nodes};
    for (size_t i = 0; i < HZ_ARRAY_LENGTH(tables); i++)
        if (tables[i]->start != NULL)
            visit(context, tables[i]->start, tables[i]->reserved_bytes);
}

void hz_profile_after_fork(void) {
    if (hz_profile_rate() != 0)
        hz_lock_settle(&profile.lock);
}
