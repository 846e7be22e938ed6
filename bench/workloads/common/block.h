/*
 * block.h - allocation and release of one block with its contents checked.
 *
 * A live block of at least 8 bytes carries a seal: its first word is key(address) ^ owner << 32 ^ size, its
 * last byte repeats the last byte of that word (for 8-byte blocks they are the same byte). At release the
 * word gives the size back, so the workload stores nothing but the pointer, and a block handed out twice
 * to different owners, moved, overlapped at either end or overwritten is noticed. With --check=full all bytes between
 * are filled and verified, the alignment is checked, and a released block is marked so that a second release is noticed
 * too.
 *
 * The seal is not wiped on the timed path: that would dirty cache lines which an allocator
 * may leave alone.
 */
#ifndef WORKLOADS_BLOCK_H
#define WORKLOADS_BLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES_MIN = 8, BLOCK_BYTES_MAX = 1 << 30 };

/* What --check= offers; the order is that of block_check_words. */
enum { BLOCK_CHECK_EDGES = 0, BLOCK_CHECK_FULL = 1 };
extern const char *const block_check_words[];

struct block_rules {
    uint32_t size_min, size_max; /* sizes that the workload asks for */
    bool full;
};

/* The slow halves of --check=full. */
void block_fill(unsigned char *block, uint32_t size, uint64_t seal);
void block_verify_and_wipe(unsigned char *block, uint32_t size, uint64_t seal);

_Noreturn void block_fail_null(uint32_t size);
_Noreturn void block_fail_contents(const unsigned char *block, uint64_t seal, uint32_t owner);

static inline uint64_t block_key(const void *block) {
    return (uint64_t)(uintptr_t)block * UINT64_C(0x9E3779B97F4A7C15);
}

static inline unsigned char block_seal_tail(const uint64_t *seal) {
    return ((const unsigned char *)seal)[sizeof *seal - 1];
}

static inline void *block_new(const struct block_rules *rules, uint32_t size, uint32_t owner) {
    unsigned char *block = malloc(size);
    if (block == NULL) {
        block_fail_null(size);
    }
    uint64_t seal = block_key(block) ^ (uint64_t)owner << 32 ^ size;
    memcpy(block, &seal, sizeof seal);
    block[size - 1] = block_seal_tail(&seal);
    if (rules->full) {
        block_fill(block, size, seal);
    }
    return block;
}

/* `owner` is the one that block_new was called with. */
static inline void block_release(const struct block_rules *rules, void *memory, uint32_t owner) {
    unsigned char *block = memory;
    uint64_t seal;
    memcpy(&seal, block, sizeof seal);
    uint64_t size = seal ^ block_key(block) ^ (uint64_t)owner << 32;
    if (size - rules->size_min > rules->size_max - rules->size_min || block[size - 1] != block_seal_tail(&seal)) {
        block_fail_contents(block, seal, owner);
    }
    if (rules->full) {
        block_verify_and_wipe(block, (uint32_t)size, seal);
    }
    free(block);
}

#endif /* WORKLOADS_BLOCK_H */
