/*
 * space.h - where the arena's memory lies in the address space, and the table that leads from an address to a number.
 *
 * Owns the table of addresses (4 bytes for each 4 MiB of the user address space), and knows the range in which the
 * arena ever got space. What is reserved here has entries in that table and in the table of page tags.
 *
 * A program can limit its address space (RLIMIT_AS) while it runs. The limit counts the tables and whatever the arena
 * has reserved in advance. So the arena asks, before it makes more memory accessible, what the limit allows:
 * - The limit is lower than the tables alone. The program does not know of them. They are given up as far as possible
 *   when the system refuses memory, and what is reserved in advance is used.
 * - The limit leaves little beyond what is mapped. The program has looked at what is mapped, and added what it needs:
 *   the limit is "near". Then nothing that is reserved in advance is handed out, and nothing is given up: whatever is
 *   new gets a new mapping, so that the kernel counts it.
 * Where the limit is there from the start, nothing is reserved in advance (pagetag.h), and no question is asked.
 */
#ifndef HZ_BASE_MAP_SPACE_H
#define HZ_BASE_MAP_SPACE_H

#include "base/os/atomic.h"
#include "base/os/compiler.h"

enum { HZ_SPACE_LOG2 = 22 }; /* what an entry stands for, and the least alignment */

struct hz_space_table {
    _Atomic(uint32_t) *entries; /* const after init; sync: segment-publish: directory index + 1 */
    uintptr_t mask;             /* const after init */
};

extern HZ_HIDDEN struct hz_space_table hz_space_addresses;

/* The table's entry for an address. Addresses that differ only in bits above the mask share an entry. */
HZ_INLINE _Atomic(uint32_t) *hz_space_entry(uintptr_t address) {
    return &hz_space_addresses.entries[(address >> HZ_SPACE_LOG2) & hz_space_addresses.mask];
}

/* Maps the table. Once, after hz_pagetag_init. False when the OS refuses; a later call tries again. */
bool hz_space_init(void);

/* Reserves aligned space whose entry is free, and which has page tags; `open`: readable and writable, and zero. NULL
   when the OS refuses. Under the arena lock. */
char *hz_space_get_locked(size_t bytes, size_t alignment, bool open);

/* Space for segments is reserved in advance, 64 MiB in one call. Next: the next 4 MiB of it, which are not accessible
   yet; reserves more if none is left. NULL when the OS refuses, and near a limit. Take: takes them. Reserved: how many
   times 4 MiB are left. Drop: gives up what is left, except where address space is scarce. All under the arena lock. */
char *hz_space_next_locked(void);
void hz_space_take_locked(void);
size_t hz_space_reserved_locked(void);
void hz_space_drop_locked(void);

/* Puts what is reserved in advance into core files (hz_arena_show). Any thread. */
void hz_space_show_reserved(void);

/* Makes the entry of `base` and the page tags of [base, base + bytes) writable. False when the OS refuses. Under the
   arena lock. */
bool hz_space_tables_open_locked(const char *base, size_t bytes);

/* Whether the OS would give so much accessible memory now. A refusal costs one system call. Any thread. */
bool hz_space_can_map(size_t bytes);

/* Narrows [*first, *behind) to the range in which the arena ever got space. False if nothing is left, which is the
   usual case. Any addresses, any thread. */
bool hz_space_clip(uintptr_t *first, uintptr_t *behind);

/* Whether the limit is near. In a process that is known to have no filter, each call reads the limit, which the program
   can change. Elsewhere it answers as the limit was judged last. Any thread. */
bool hz_space_limit_is_near(void);

/* Whether the tables were given up, and address space is scarce. Any thread. */
bool hz_space_is_scarce(void);

/* Whether it is time for hz_space_give_up_locked: there is a limit now, and less is left than the tables take. */
bool hz_space_should_give_up(void);

/* Unmaps the parts of both tables for addresses that are not within 128 GiB of ours. False if that was done before.
   Under the arena lock. */
bool hz_space_give_up_locked(void);

#endif
