/*
 * seal.h - with HZ_LIST_FAILFAST=1: finds a write to a freed block, wherever the block rests.
 *
 * A free seals the block: its first words, HZ_SEAL_BYTES at most, get a pattern that depends on the address. malloc
 * breaks the seal, and ends the program if a word has changed. In between, each place checks the seal of a block that
 * leaves it: bins and remote buffers when they are emptied, depot batches when they are popped, lists when they are
 * sent or taken, pages when blocks come and when they are carved. While a block is in a list, its first word is the
 * link instead, which list_check.c checks, and which is mended when the block leaves the list.
 *
 * A bit for each possible block start (base/watch/livemap.h) says whether a block is sealed. Blocks that the program
 * never freed are not, nor blocks whose memory the operating system has taken back. All functions: any thread that
 * holds the block.
 */
#ifndef HZ_HEAP_SEAL_H
#define HZ_HEAP_SEAL_H

#include "base/watch/livemap.h"
#include "heap/knobs.h"
#include "heap/misuse.h"

enum {
    HZ_BLOCKS_SEALED = HZ_LIST_FAILFAST == 1,
    HZ_SEAL_BYTES = 64,
};

/* Seals a block that the program has given back. `bytes`: of the block. */
void hz_seal(void *block, size_t bytes);

/* Breaks the seal of a block that the program gets, if it has one. `block` may be NULL; it is returned. */
void *hz_seal_break(void *block);

/* Ends the program unless the seals of the blocks are whole. `found`: where they rested. */
void hz_seals_check(void *const *blocks, uint32_t count, const char *found);

/* The same for a block in a list: all words but the first. */
void hz_seal_check_linked(const void *block, const char *found);

/* Makes the seals whole again after the blocks were in lists. */
void hz_seals_mend(void *const *blocks, uint32_t count);

/* No block has a seal in this memory any more. */
void hz_seals_forget(const void *start, size_t bytes);

#endif
