/*
 * next.c - see next.h.
 */
#define _GNU_SOURCE
#include "next.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { EARLY_BYTES = 1 << 16, EARLY_ALIGN = 16 };

static struct next g_next;   /* const after publish: g_ready */
static _Atomic bool g_ready; /* sync: release after g_next is filled in, acquire before it is read */
static _Alignas(EARLY_ALIGN) unsigned char g_early[EARLY_BYTES];
static _Atomic size_t g_early_used; /* each byte is handed out once */

/* Set while this thread is in dlsym: an allocation of dlsym must not look up the next malloc again. */
static __thread bool t_looking __attribute__((tls_model("initial-exec")));

/* ISO C cannot convert an object pointer to a function pointer; POSIX guarantees that both have the same bits. */
static void look_up(const char *name, void *function) {
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(function, &symbol, sizeof symbol);
}

static void *valloc_by_memalign(size_t size) {
    return g_next.memalign((size_t)sysconf(_SC_PAGESIZE), size);
}

static void *pvalloc_by_memalign(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return size > SIZE_MAX - page ? NULL : g_next.memalign(page, (size + page - 1) / page * page);
}

/* Several threads may look up at the same time: all find the same functions, and the first one stores them. */
static void look_up_all(void) {
    struct next found;
    look_up("malloc", &found.malloc);
    look_up("calloc", &found.calloc);
    look_up("realloc", &found.realloc);
    look_up("memalign", &found.memalign);
    look_up("posix_memalign", &found.posix_memalign);
    look_up("aligned_alloc", &found.aligned_alloc);
    look_up("valloc", &found.valloc);
    look_up("pvalloc", &found.pvalloc);
    look_up("free", &found.free);
    found.valloc = found.valloc != NULL ? found.valloc : valloc_by_memalign;
    found.pvalloc = found.pvalloc != NULL ? found.pvalloc : pvalloc_by_memalign;
    static atomic_flag filling = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set_explicit(&filling, memory_order_acquire)) {
    }
    if (!atomic_load_explicit(&g_ready, memory_order_relaxed)) {
        g_next = found;
        /* sync: next table; partner: the acquire load in next_get */
        atomic_store_explicit(&g_ready, true, memory_order_release);
    }
    atomic_flag_clear_explicit(&filling, memory_order_release);
}

const struct next *next_get(void) {
    if (atomic_load_explicit(&g_ready, memory_order_acquire)) {
        return &g_next;
    }
    if (t_looking || environ == NULL) {
        return NULL;
    }
    t_looking = true;
    look_up_all();
    t_looking = false;
    return &g_next;
}

void *next_early(size_t alignment, size_t size) {
    alignment = alignment < EARLY_ALIGN ? EARLY_ALIGN : alignment;
    if (size > EARLY_BYTES || alignment > EARLY_BYTES) {
        return NULL;
    }
    /* The size is stored in front of the block; `alignment` extra bytes leave space to move the block up. */
    size_t bytes = (EARLY_ALIGN + alignment + size + EARLY_ALIGN - 1) / EARLY_ALIGN * EARLY_ALIGN;
    size_t used = atomic_fetch_add_explicit(&g_early_used, bytes, memory_order_relaxed);
    if (used > EARLY_BYTES || bytes > EARLY_BYTES - used) {
        return NULL;
    }
    uintptr_t start = (uintptr_t)(g_early + used + EARLY_ALIGN);
    unsigned char *block = g_early + used + EARLY_ALIGN + ((alignment - start % alignment) % alignment);
    memcpy(block - EARLY_ALIGN, &size, sizeof size);
    return block;
}

bool next_is_early(const void *block) {
    return (uintptr_t)block - (uintptr_t)g_early < EARLY_BYTES;
}

size_t next_early_size(const void *block) {
    size_t size;
    memcpy(&size, (const unsigned char *)block - EARLY_ALIGN, sizeof size);
    return size;
}
