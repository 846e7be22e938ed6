/*
 * deep_behind.c - a library that is preloaded behind ours and takes memory from the next malloc, the C library's, as
 * tools do that must not see their own calls. EARLY: it looks both functions up in its constructor, else when it needs
 * them first.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

typedef void *malloc_function(size_t);
typedef void free_function(void *);

void behind_work(void);

static malloc_function *next_malloc;
static free_function *next_free;

static void look(void) {
    next_malloc = (malloc_function *)(uintptr_t)dlsym(RTLD_NEXT, "malloc");
    next_free = (free_function *)(uintptr_t)dlsym(RTLD_NEXT, "free");
}

__attribute__((constructor)) static void begin(void) {
    if (EARLY)
        behind_work();
}

static void *kept;

/* Frees what the call before has allocated. */
void behind_work(void) {
    if (next_malloc == NULL)
        look();
    next_free(kept);
    for (size_t size = 1; size < 1000000; size = size * 2 + 1)
        next_free(next_malloc(size));
    kept = next_malloc(100);
}
