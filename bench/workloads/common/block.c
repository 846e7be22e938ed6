/*
 * block.c - the parts of block.h that are not on the timed path.
 */
#include "block.h"

#include <inttypes.h>
#include <stddef.h>

#include "machine.h"

const char *const block_check_words[] = {"edges", "full", NULL};

_Noreturn void block_fail_address(const void *block, uint32_t size) {
    machine_fail("malloc(%" PRIu32 ") returned %s%p", size, block == NULL ? "NULL, " : "an address above 48 bits, ",
                 block);
}

_Noreturn void block_fail_contents(block_ticket ticket, uint64_t seal) {
    uint64_t address = ticket & BLOCK_ADDRESS_MASK;
    uint64_t decoded = seal ^ block_key(address);
    machine_fail("content check failed: block 0x%" PRIx64 " with tag %" PRIu64 " holds the seal of tag %" PRIu64
                 ", size %" PRIu64,
                 address, ticket >> BLOCK_TAG_SHIFT, decoded >> 32, decoded & UINT32_MAX);
}

static unsigned char pattern_at(uint64_t seal, uint32_t offset) {
    return (unsigned char)(seal >> (offset % 8 * 8)) ^ (unsigned char)(offset >> 3);
}

void block_fill(unsigned char *block, uint32_t size, uint64_t seal) {
    size_t alignment = size >= 16 ? 16 : 8;
    if ((uintptr_t)block % alignment != 0) {
        machine_fail("malloc(%" PRIu32 ") returned %p, which is not aligned to %zu", size, (void *)block, alignment);
    }
    for (uint32_t i = sizeof seal; i + 1 < size; i++) {
        block[i] = pattern_at(seal, i);
    }
}

void block_verify(const unsigned char *block, uint32_t size, uint64_t seal) {
    for (uint32_t i = sizeof seal; i + 1 < size; i++) {
        if (block[i] != pattern_at(seal, i)) {
            machine_fail("content check failed: block %p of %" PRIu32 " bytes was changed at offset %" PRIu32,
                         (const void *)block, size, i);
        }
    }
}
