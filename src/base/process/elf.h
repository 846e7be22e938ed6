/*
 * elf.h - the dynamic symbol table of a loaded library or program, as the dynamic linker reads it.
 *
 * All calls take what dl_iterate_phdr shows, and are valid during its call only: afterwards the library may be
 * unloaded.
 */
#ifndef HZ_BASE_PROCESS_ELF_H
#define HZ_BASE_PROCESS_ELF_H

#include "base/os/compiler.h"

#include <link.h>

struct hz_elf {
    uintptr_t base;       /* what the addresses in its tables are relative to */
    uintptr_t begin, end; /* of all its segments */
    const ElfW(Phdr) * headers;
    unsigned header_count;
    const ElfW(Dyn) * dynamic;
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint16_t *versions; /* for each symbol; NULL: it has none */
    const uint32_t *gnu_hash; /* NULL: it has the other table only */
    const uint32_t *hash;     /* NULL: it has the other table only */
};

/* False when it has no symbol table. */
bool hz_elf_open(struct hz_elf *elf, const struct dl_phdr_info *info);

HZ_INLINE bool hz_elf_contains(const struct hz_elf *elf, uintptr_t address) {
    return address - elf->begin < elf->end - elf->begin;
}

/* The segment that has the address; NULL when none has it. */
const ElfW(Phdr) * hz_elf_segment(const struct hz_elf *elf, uintptr_t address);

/* The index of a symbol that defines the function: the first one, or the one behind `after` if that is not 0. A
   function has a symbol for each of its versions. 0 when there is no further one. */
uint32_t hz_elf_symbol(const struct hz_elf *elf, const char *name, uint32_t after);

/* The address of the function's default version, or else of any version; 0 when it is not defined. */
uintptr_t hz_elf_function(const struct hz_elf *elf, const char *name);

bool hz_elf_has_soname(const struct hz_elf *elf, const char *soname);

/* Whether `user` is linked with the library, and not only with another one that is. */
bool hz_elf_needs(const struct hz_elf *user, const struct hz_elf *library);

#endif
