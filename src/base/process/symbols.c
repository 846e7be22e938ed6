/*
 * symbols.c - see symbols.h.
 */
#define _GNU_SOURCE
#include "base/process/symbols.h"

#include "base/os/atomic.h"
#include "base/os/os.h"
#include "base/process/elf.h"

static const char *const next_names[HZ_SYMBOLS] = {
    [HZ_SYMBOL_DLOPEN] = "dlopen",
    [HZ_SYMBOL_DLMOPEN] = "dlmopen",
    [HZ_SYMBOL_MADVISE] = "madvise",
    [HZ_SYMBOL_MBIND] = "mbind",
    [HZ_SYMBOL_MLOCK] = "mlock",
    [HZ_SYMBOL_MLOCK2] = "mlock2",
    [HZ_SYMBOL_MLOCKALL] = "mlockall",
    [HZ_SYMBOL_MMAP] = "mmap",
    [HZ_SYMBOL_MMAP64] = "mmap64",
    [HZ_SYMBOL_MPROTECT] = "mprotect",
    [HZ_SYMBOL_MREMAP] = "mremap",
    [HZ_SYMBOL_MUNLOCKALL] = "munlockall",
    [HZ_SYMBOL_MUNMAP] = "munmap",
    [HZ_SYMBOL_PKEY_MPROTECT] = "pkey_mprotect",
    [HZ_SYMBOL_PRCTL] = "prctl",
    [HZ_SYMBOL_SYSCALL] = "syscall",
    [HZ_SYMBOL_PTHREAD_CREATE] = "pthread_create",
    [HZ_SYMBOL_THRD_CREATE] = "thrd_create",
    [HZ_SYMBOL_PTHREAD_GET_MINSTACK] = "__pthread_get_minstack",
};

enum { NO_FUNCTION = 1 };

/* hint, all: every search has the same result; 0: not searched yet. The functions are there before any thread. */
static _Atomic(uintptr_t) next_functions[HZ_SYMBOLS];

struct search {
    struct hz_elf own; /* this library, or the program that contains it */
    bool is_found;     /* own is known */
};

static int this_library_find(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct search *search = context;
    search->is_found = hz_elf_open(&search->own, info) && hz_elf_contains(&search->own, (uintptr_t)&next_functions);
    return search->is_found;
}

/* Calls `visit` for each library until it returns a value other than 0. `context` begins with a struct search. A static
   program has no symbol table, so there is no call. */
static void libraries_visit(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context) {
    struct search *search = context;
    if (dl_iterate_phdr(this_library_find, search) != 0 && search->is_found)
        (void)dl_iterate_phdr(visit, context); /* the results are in the context */
}

/* ---- the next definition ------------------------------------------------------------------------------ */

struct next_search {
    struct search search;
    bool is_behind;               /* the library is behind ours */
    uintptr_t behind[HZ_SYMBOLS]; /* in the first one behind ours */
    uintptr_t linked[HZ_SYMBOLS]; /* in the first one that ours is linked with */
};

static int next_find(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct next_search *next = context;
    struct hz_elf elf;
    if (!hz_elf_open(&elf, info))
        return 0;
    if (elf.begin == next->search.own.begin) {
        next->is_behind = true;
        return 0;
    }
    uintptr_t *found = next->is_behind ? next->behind : next->linked;
    if (!next->is_behind && !hz_elf_needs(&next->search.own, &elf))
        return 0;
    unsigned missing = 0;
    for (unsigned i = 0; i < HZ_SYMBOLS; i++) {
        if (found[i] == 0)
            found[i] = hz_elf_function(&elf, next_names[i]);
        missing += found[i] == 0;
    }
    return next->is_behind && missing == 0;
}

void hz_symbols_load(void) {
    struct next_search next = {.is_behind = false};
    libraries_visit(next_find, &next);
    for (unsigned i = 0; i < HZ_SYMBOLS; i++) {
        uintptr_t found = next.behind[i] != 0 ? next.behind[i] : next.linked[i];
        hz_store_rlx(&next_functions[i], found != 0 ? found : NO_FUNCTION); /* relaxed: hint */
    }
}

uintptr_t hz_symbols_next(enum hz_symbol symbol) {
    uintptr_t found = hz_load_rlx(&next_functions[symbol]); /* relaxed, both: hint */
    if (HZ_UNLIKELY(found == 0)) {                          /* a library's constructor calls it before ours has run */
        hz_symbols_load();
        found = hz_load_rlx(&next_functions[symbol]);
    }
    return found != NO_FUNCTION ? found : 0;
}

uintptr_t hz_symbols_known(enum hz_symbol symbol) {
    uintptr_t found = hz_load_rlx(&next_functions[symbol]); /* relaxed: hint */
    return found != NO_FUNCTION ? found : 0;
}

/* ---- a function by its name --------------------------------------------------------------------------- */

struct find_search {
    struct search search;
    const char *soname;
    const char *name;
    uintptr_t found;
};

static int function_find(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct find_search *find = context;
    struct hz_elf elf;
    bool is_wanted = hz_elf_open(&elf, info) && (find->soname == NULL || hz_elf_has_soname(&elf, find->soname));
    if (is_wanted)
        find->found = hz_elf_function(&elf, find->name);
    return find->found != 0;
}

uintptr_t hz_symbols_find(const char *soname, const char *name) {
    struct find_search find = {.soname = soname, .name = name};
    libraries_visit(function_find, &find);
    return find.found;
}

struct linked_search {
    struct search search;
    const char *const *names;
    uintptr_t *found;
    size_t count;
};

static int linked_find(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct linked_search *linked = context;
    struct hz_elf elf;
    if (!hz_elf_open(&elf, info) || !hz_elf_needs(&linked->search.own, &elf) ||
        hz_elf_function(&elf, linked->names[0]) == 0)
        return 0;
    for (size_t i = 0; i < linked->count; i++)
        linked->found[i] = hz_elf_function(&elf, linked->names[i]);
    return 1;
}

void hz_symbols_linked(const char *const *names, uintptr_t *found, size_t count) {
    struct linked_search linked = {.names = names, .found = found, .count = count};
    for (size_t i = 0; i < count; i++)
        found[i] = 0;
    libraries_visit(linked_find, &linked);
}

/* ---- redirection -------------------------------------------------------------------------------------- */

struct redirection {
    struct search search;
    const char *const *names;
    size_t count;
    uintptr_t only; /* unless it is 0: names[0] must still lead there */
    bool is_done;
};

/* The value that leads from a library's table to our function; 0: we have none. */
static ElfW(Addr) own_value(const struct redirection *to, const struct hz_elf *elf, const char *name) {
    uintptr_t own = hz_elf_function(&to->search.own, name);
    return own != 0 ? own - elf->base : 0;
}

struct span {
    uintptr_t begin, end;
};

/* Where the entries lie that do not lead to our functions yet. Stores them too if `is_writable`. */
static struct span entries_pass(const struct redirection *to, const struct hz_elf *elf, bool is_writable) {
    struct span span = {UINTPTR_MAX, 0};
    for (size_t i = 0; i < to->count; i++) {
        ElfW(Addr) value = own_value(to, elf, to->names[i]);
        for (uint32_t index = 0; value != 0 && (index = hz_elf_symbol(elf, to->names[i], index)) != 0;) {
            ElfW(Addr) *entry = (ElfW(Addr) *)(uintptr_t)&elf->symbols[index].st_value;
            if (*entry == value)
                continue;
            span.begin = hz_min(span.begin, (uintptr_t)entry);
            span.end = hz_max(span.end, (uintptr_t)(entry + 1));
            if (is_writable)
                hz_slot_store_rlx(entry, value); /* relaxed: as the comment below says */
        }
    }
    return span;
}

/* The dynamic linker of another thread can read an entry meanwhile. It sees the old value or the new one, since each is
   one word, and both are functions that do the same. Two threads cannot be here: dl_iterate_phdr takes a lock. The
   pages stay readable, and executable if they were. */
static int library_redirect(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct redirection *to = context;
    struct hz_elf elf;
    uintptr_t first = 0;
    if (hz_elf_open(&elf, info) && hz_elf_needs(&to->search.own, &elf))
        first = hz_elf_function(&elf, to->names[0]);
    if (first == 0)
        return 0;
    if (to->only != 0 && to->only != first)
        return 1;
    struct span span = entries_pass(to, &elf, false);
    if (span.end == 0) {
        to->is_done = true;
        return 1;
    }
    const ElfW(Phdr) *segment = hz_elf_segment(&elf, span.begin);
    if (segment == NULL || segment != hz_elf_segment(&elf, span.end - 1) || (segment->p_flags & PF_W) != 0)
        return 1; /* not as the linkers lay it out */
    uintptr_t begin = span.begin & ~(hz_os_page_bytes() - 1);
    size_t bytes = hz_round_up(span.end, hz_os_page_bytes()) - begin;
    bool is_code = (segment->p_flags & PF_X) != 0;
    if (!hz_os_protect((void *)begin, bytes, true, is_code)) /* NOLINT(performance-no-int-to-ptr) */
        return 1;
    (void)entries_pass(to, &elf, true);
    (void)hz_os_protect((void *)begin, bytes, false, is_code); /* NOLINT. If refused, the pages stay writable */
    to->is_done = true;
    return 1;
}

bool hz_symbols_redirect(const char *const *wanted, size_t count) {
    struct redirection to = {.names = wanted, .count = count};
    libraries_visit(library_redirect, &to);
    return to.is_done;
}

void hz_symbols_redirect_next(enum hz_symbol symbol) {
    uintptr_t next = hz_symbols_next(symbol);
    struct redirection to = {.names = &next_names[symbol], .count = 1, .only = next};
    if (next != 0)
        libraries_visit(library_redirect, &to);
}
