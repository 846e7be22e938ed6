/*
 * vdso.c - finds a function by its name in the kernel's ELF image. See vdso.h.
 *
 * The addresses in the image are relative to where it is loaded. Its symbols are few, so each is looked at, and a hash
 * table only says how many there are: an image has DT_HASH, DT_GNU_HASH or both.
 */
#include "base/os/vdso.h"

#include <elf.h>
#include <string.h>

struct tables {
    const char *base; /* what the image's addresses are relative to */
    const Elf64_Sym *symbols;
    const char *strings;
    const uint32_t *hash;
    const uint32_t *gnu_hash;
};

static const Elf64_Dyn *dynamic_of(const char *image, struct tables *tables) {
    const Elf64_Ehdr *header = (const void *)image;
    const Elf64_Dyn *dynamic = NULL;
    bool is_loaded = false;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        const Elf64_Phdr *part = (const void *)(image + header->e_phoff + i * (size_t)header->e_phentsize);
        if (part->p_type == PT_LOAD && !is_loaded) {
            is_loaded = true;
            tables->base = (const char *)((uintptr_t)image + part->p_offset - part->p_vaddr);
        }
        if (part->p_type == PT_DYNAMIC)
            dynamic = (const void *)(image + part->p_offset);
    }
    return is_loaded ? dynamic : NULL;
}

static void tables_find(const Elf64_Dyn *entry, struct tables *tables) {
    for (; entry->d_tag != DT_NULL; entry++) {
        const void *address = tables->base + entry->d_un.d_ptr;
        if (entry->d_tag == DT_SYMTAB)
            tables->symbols = address;
        else if (entry->d_tag == DT_STRTAB)
            tables->strings = address;
        else if (entry->d_tag == DT_HASH)
            tables->hash = address;
        else if (entry->d_tag == DT_GNU_HASH)
            tables->gnu_hash = address;
    }
}

/* The GNU table has the first symbol of each bucket. Those of a bucket follow each other, and the last one is marked
   in the chain, which leaves out the first `offset` symbols. */
static uint32_t symbols_count(const struct tables *tables) {
    if (tables->hash != NULL)
        return tables->hash[1]; /* buckets, chains; there is a chain for each symbol */
    if (tables->gnu_hash == NULL)
        return 0;
    uint32_t buckets = tables->gnu_hash[0];
    uint32_t offset = tables->gnu_hash[1];
    uint32_t bloom_words = tables->gnu_hash[2] * 2;
    const uint32_t *bucket = tables->gnu_hash + 4 + bloom_words;
    const uint32_t *chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < offset)
        return 0;
    while ((chain[last - offset] & 1) == 0)
        last++;
    return last + 1;
}

uintptr_t hz_vdso_find(const void *image, const char *name) {
    struct tables tables = {.base = NULL};
    if (image == NULL || memcmp(image, ELFMAG, SELFMAG) != 0 || ((const unsigned char *)image)[EI_CLASS] != ELFCLASS64)
        return 0;
    const Elf64_Dyn *dynamic = dynamic_of(image, &tables);
    if (dynamic == NULL)
        return 0;
    tables_find(dynamic, &tables);
    if (tables.symbols == NULL || tables.strings == NULL)
        return 0;
    uint32_t count = symbols_count(&tables);
    for (uint32_t i = 0; i < count; i++) {
        const Elf64_Sym *symbol = &tables.symbols[i];
        unsigned type = ELF64_ST_TYPE(symbol->st_info);
        if (symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_NOTYPE) &&
            strcmp(tables.strings + symbol->st_name, name) == 0)
            return (uintptr_t)(tables.base + symbol->st_value);
    }
    return 0;
}
