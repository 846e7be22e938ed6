/*
 * elf.c - see elf.h. The tables are those of the System V ABI; DT_GNU_HASH is GNU's.
 */
#define _GNU_SOURCE
#include "base/process/elf.h"

#include <elf.h>
#include <string.h>

enum {
    VERSION_LOCAL = 0,       /* of a symbol that other libraries cannot use */
    VERSION_HIDDEN = 0x8000, /* bit: not the default version */
};

/* glibc has added the base to the addresses in most dynamic sections; musl has not, nor has the kernel in its vDSO's.
 */
static uintptr_t table_at(const struct hz_elf *elf, ElfW(Addr) value) {
    return hz_elf_contains(elf, value) ? value : elf->base + value;
}

static void segments_measure(struct hz_elf *elf) {
    elf->begin = UINTPTR_MAX;
    elf->end = 0;
    for (unsigned i = 0; i < elf->header_count; i++) {
        const ElfW(Phdr) *header = &elf->headers[i];
        uintptr_t at = elf->base + header->p_vaddr;
        if (header->p_type == PT_DYNAMIC)
            elf->dynamic = (const void *)at; /* NOLINT(performance-no-int-to-ptr) */
        if (header->p_type != PT_LOAD)
            continue;
        elf->begin = hz_min(elf->begin, at);
        elf->end = hz_max(elf->end, at + header->p_memsz);
    }
}

bool hz_elf_open(struct hz_elf *elf, const struct dl_phdr_info *info) {
    *elf = (struct hz_elf){
        .base = info->dlpi_addr, .headers = info->dlpi_phdr, .header_count = (unsigned)info->dlpi_phnum};
    segments_measure(elf);
    if (elf->dynamic == NULL)
        return false;
    for (const ElfW(Dyn) *entry = elf->dynamic; entry->d_tag != DT_NULL; entry++) {
        const void *table = (const void *)table_at(elf, entry->d_un.d_ptr); /* NOLINT(performance-no-int-to-ptr) */
        switch (entry->d_tag) {
        case DT_SYMTAB:
            elf->symbols = table;
            break;
        case DT_STRTAB:
            elf->strings = table;
            break;
        case DT_VERSYM:
            elf->versions = table;
            break;
        case DT_GNU_HASH:
            elf->gnu_hash = table;
            break;
        case DT_HASH:
            elf->hash = table;
            break;
        default:
            break;
        }
    }
    return elf->symbols != NULL && elf->strings != NULL && (elf->gnu_hash != NULL || elf->hash != NULL);
}

const ElfW(Phdr) * hz_elf_segment(const struct hz_elf *elf, uintptr_t address) {
    for (unsigned i = 0; i < elf->header_count; i++) {
        const ElfW(Phdr) *header = &elf->headers[i];
        if (header->p_type == PT_LOAD && address - (elf->base + header->p_vaddr) < header->p_memsz)
            return header;
    }
    return NULL;
}

/* ---- hash tables ----------------------------------------------------------------------------------- */

/* DT_GNU_HASH: four words, a Bloom filter, the buckets, and a chain of hashes for the symbols from `first` on. The
   symbols of a bucket follow one another, and the last one's hash has bit 0 set. */
struct gnu_table {
    uint32_t bucket_count, first, filter_count, shift;
    const ElfW(Addr) * filter;
    const uint32_t *buckets;
    const uint32_t *chain;
};

static struct gnu_table gnu_table(const struct hz_elf *elf) {
    const uint32_t *words = elf->gnu_hash;
    struct gnu_table table = {.bucket_count = words[0], .first = words[1], .filter_count = words[2], .shift = words[3]};
    table.filter = (const void *)(words + 4);
    table.buckets = (const void *)(table.filter + table.filter_count);
    table.chain = table.buckets + table.bucket_count;
    return table;
}

static uint32_t gnu_begin(const struct hz_elf *elf, const char *name) {
    enum { WORD_BITS = 8 * sizeof(ElfW(Addr)) };
    uint32_t hash = 5381;
    for (const unsigned char *at = (const unsigned char *)name; *at != '\0'; at++)
        hash = hash * 33 + *at;
    struct gnu_table table = gnu_table(elf);
    if (table.bucket_count == 0 || table.filter_count == 0)
        return 0;
    ElfW(Addr) bits = (ElfW(Addr))1 << hash % WORD_BITS | (ElfW(Addr))1 << (hash >> table.shift) % WORD_BITS;
    if ((table.filter[hash / WORD_BITS % table.filter_count] & bits) != bits)
        return 0;
    return table.buckets[hash % table.bucket_count];
}

static uint32_t gnu_next(const struct hz_elf *elf, uint32_t index) {
    struct gnu_table table = gnu_table(elf);
    return (table.chain[index - table.first] & 1) != 0 ? 0 : index + 1;
}

/* DT_HASH: the numbers of buckets and of symbols, the buckets, and for each symbol the next one of its bucket. */
static uint32_t sysv_begin(const struct hz_elf *elf, const char *name) {
    uint32_t hash = 0;
    for (const unsigned char *at = (const unsigned char *)name; *at != '\0'; at++) {
        hash = (hash << 4) + *at;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    uint32_t bucket_count = elf->hash[0];
    return bucket_count != 0 ? elf->hash[2 + hash % bucket_count] : 0;
}

static uint32_t sysv_next(const struct hz_elf *elf, uint32_t index) {
    return elf->hash[2 + elf->hash[0] + index];
}

static bool is_function(const struct hz_elf *elf, uint32_t index, const char *name) {
    const ElfW(Sym) *symbol = &elf->symbols[index];
    return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
           (elf->versions == NULL || (elf->versions[index] & ~VERSION_HIDDEN) != VERSION_LOCAL) &&
           strcmp(elf->strings + symbol->st_name, name) == 0;
}

static uint32_t bucket_begin(const struct hz_elf *elf, const char *name) {
    return elf->gnu_hash != NULL ? gnu_begin(elf, name) : sysv_begin(elf, name);
}

static uint32_t bucket_next(const struct hz_elf *elf, uint32_t index) {
    return elf->gnu_hash != NULL ? gnu_next(elf, index) : sysv_next(elf, index);
}

uint32_t hz_elf_symbol(const struct hz_elf *elf, const char *name, uint32_t after) {
    uint32_t index = after == 0 ? bucket_begin(elf, name) : bucket_next(elf, after);
    while (index != 0 && !is_function(elf, index, name))
        index = bucket_next(elf, index);
    return index;
}

uintptr_t hz_elf_function(const struct hz_elf *elf, const char *name) {
    uintptr_t any = 0;
    for (uint32_t index = 0; (index = hz_elf_symbol(elf, name, index)) != 0;) {
        uintptr_t address = elf->base + elf->symbols[index].st_value;
        if (elf->versions == NULL || (elf->versions[index] & VERSION_HIDDEN) == 0)
            return address;
        any = address;
    }
    return any;
}

/* ---- names of libraries ------------------------------------------------------------------------------ */

static bool entry_names(const struct hz_elf *elf, ElfW(Sxword) tag, const char *name) {
    for (const ElfW(Dyn) *entry = elf->dynamic; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == tag && strcmp(elf->strings + entry->d_un.d_val, name) == 0)
            return true;
    return false;
}

bool hz_elf_has_soname(const struct hz_elf *elf, const char *soname) {
    return entry_names(elf, DT_SONAME, soname);
}

bool hz_elf_needs(const struct hz_elf *user, const struct hz_elf *library) {
    for (const ElfW(Dyn) *entry = library->dynamic; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_SONAME)
            return entry_names(user, DT_NEEDED, library->strings + entry->d_un.d_val);
    return false;
}
