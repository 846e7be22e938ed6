/*
 * block.h - allocation and release of one block, with a check of its contents.
 *
 * A workload holds a block as a ticket: the address, and from bit 48 on a tag from a counter of the allocating thread.
 * A live block has at least 8 bytes and carries a seal: the first word is key(address) ^ tag << 32 ^ size, and the last
 * byte repeats the last byte of that word (in a block of 8 bytes it is that byte). At release the size is computed from
 * the word and the ticket's tag; a wrong tag gives an impossible size. So the check notices a block that was handed
 * out twice, moved, overlapped at either end or overwritten. --check=full also fills and verifies all bytes in between,
 * and checks the alignment.
 *
 * The release does not wipe the seal: that would dirty cache lines that an allocator may leave untouched.
 */
#ifndef WORKLOADS_BLOCK_H
#define WORKLOADS_BLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES_MIN = 8, BLOCK_BYTES_MAX = 1 << 30, BLOCK_PAGE_BYTES = 4096 };

/* The values of --check=, in the order of block_check_words. */
enum { BLOCK_CHECK_EDGES = 0, BLOCK_CHECK_FULL = 1 };
extern const char *const block_check_words[];

struct block_rules {
    uint32_t size_min, size_max; /* range of the sizes that the workload requests */
    bool full;
};

/* A block as the workload holds it; 0: no block. */
typedef uint64_t block_ticket;

enum { BLOCK_TAG_SHIFT = 48 };
#define BLOCK_ADDRESS_MASK ((UINT64_C(1) << BLOCK_TAG_SHIFT) - 1)

/* The work of --check=full at allocation and at release. */
void block_fill(unsigned char *block, uint32_t size, uint64_t seal);
void block_verify(const unsigned char *block, uint32_t size, uint64_t seal);

/* Fails for a `block` returned by malloc(size) that is NULL, or too high for a ticket. */
_Noreturn void block_fail_address(const void *block, uint32_t size);
_Noreturn void block_fail_contents(block_ticket ticket, uint64_t seal);

static inline uint64_t block_key(uint64_t address) {
    return address * UINT64_C(0x9E3779B97F4A7C15);
}

static inline unsigned char block_seal_tail(const uint64_t *seal) {
    return ((const unsigned char *)seal)[sizeof *seal - 1];
}

/* The first tag of thread `index`, far enough from those of others that two threads rarely use one tag at a time. */
static inline uint32_t block_first_tag(uint32_t index) {
    return index * 641;
}

/* The ticket of `block`, which malloc(size) has returned. `tags` is the calling thread's counter. */
static inline block_ticket block_sealed(const struct block_rules *rules, unsigned char *block, uint32_t size,
                                        uint32_t *tags) {
    uint64_t address = (uint64_t)(uintptr_t)block;
    if (address - 1 >= BLOCK_ADDRESS_MASK) {
        block_fail_address(block, size);
    }
    uint64_t tag = (*tags)++ & UINT16_MAX;
    uint64_t seal = block_key(address) ^ tag << 32 ^ size;
    memcpy(block, &seal, sizeof seal);
    block[size - 1] = block_seal_tail(&seal);
    if (rules->full) {
        block_fill(block, size, seal);
    }
    return address | tag << BLOCK_TAG_SHIFT;
}

static inline block_ticket block_new(const struct block_rules *rules, uint32_t size, uint32_t *tags) {
    return block_sealed(rules, malloc(size), size, tags);
}

/* The size that a live block was requested with. */
static inline uint64_t block_bytes(block_ticket ticket) {
    uint64_t address = ticket & BLOCK_ADDRESS_MASK;
    uint64_t seal;
    memcpy(&seal, (const unsigned char *)(uintptr_t)address, sizeof seal);
    return seal ^ block_key(address) ^ ticket >> BLOCK_TAG_SHIFT << 32;
}

/* Writes to each system page of a live block: a page that nothing has written is not resident. Returns the block. */
static inline block_ticket block_touched(block_ticket ticket) {
    volatile unsigned char *block = (volatile unsigned char *)(uintptr_t)(ticket & BLOCK_ADDRESS_MASK);
    uint64_t bytes = block_bytes(ticket);
    for (uint64_t at = BLOCK_PAGE_BYTES; at + 1 < bytes; at += BLOCK_PAGE_BYTES) {
        block[at] = block[at];
    }
    return ticket;
}

/* Checks a live block; the caller frees what it returns. */
static inline unsigned char *block_checked(const struct block_rules *rules, block_ticket ticket) {
    uint64_t address = ticket & BLOCK_ADDRESS_MASK;
    unsigned char *block = (unsigned char *)(uintptr_t)address;
    uint64_t seal;
    memcpy(&seal, block, sizeof seal);
    uint64_t size = seal ^ block_key(address) ^ ticket >> BLOCK_TAG_SHIFT << 32;
    if (size - rules->size_min > rules->size_max - rules->size_min || block[size - 1] != block_seal_tail(&seal)) {
        block_fail_contents(ticket, seal);
    }
    if (rules->full) {
        block_verify(block, (uint32_t)size, seal);
    }
    return block;
}

static inline void block_release(const struct block_rules *rules, block_ticket ticket) {
    free(block_checked(rules, ticket));
}

#endif /* WORKLOADS_BLOCK_H */
