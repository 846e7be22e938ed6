/*
 * auditor.c - a library for LD_AUDIT that allocates in each of its calls. The dynamic linker calls it before it loads
 * anything else, and while it relocates the program.
 */
#include <link.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 64 };

static char *kept[KEPT];
static unsigned calls;

static void allocate(void) {
    for (size_t size = 1; size < 200000; size = size * 3 + 1)
        free(memset(realloc(malloc(size), size * 2), 1, size * 2));
    free(kept[calls % KEPT]);
    kept[calls % KEPT] = strdup("a block that the auditor keeps for some time");
    calls++;
}

unsigned la_version(unsigned version);
unsigned la_version(unsigned version) {
    allocate();
    return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie) {
    (void)map;
    (void)namespace;
    (void)cookie;
    allocate();
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

void la_preinit(uintptr_t *cookie) {
    (void)cookie;
    allocate();
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                       const char *name) {
    (void)index;
    (void)from;
    (void)to;
    (void)flags;
    (void)name;
    allocate();
    return symbol->st_value;
}
