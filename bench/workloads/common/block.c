/*
 * block.c - the parts of block.h that stay off the timed path.
 */
#include "block.h"

#include <inttypes.h>
#include <stddef.h>

#include "machine.h"

const char *const block_check_words[] = {"edges", "full", NULL};

_Noreturn void block_fail_null(uint32_t size) {
    machine_fail("malloc(%" PRIu32 ") returned NULL", size);
}

_Noreturn void block_fail_contents(const unsigned char *block, uint64_t seal, uint32_t owner) {
    uint64_t decoded = seal ^ block_key(block);
    machine_fail("content check failed: block %p of owner %" PRIu32 " holds the seal of owner %" PRIu64
                 ", size %" PRIu64,
                 (const void *)block, owner, decoded >> 32, decoded & UINT32_MAX);
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

void block_verify_and_wipe(unsigned char *block, uint32_t size, uint64_t seal) {
    for (uint32_t i = sizeof seal; i + 1 < size; i++) {
        if (block[i] != pattern_at(seal, i)) {
            machine_fail("content check failed: block %p of %" PRIu32 " bytes was changed at offset %" PRIu32,
                         (void *)block, size, i);
        }
    }
    memset(block, 0, sizeof seal);
    /* without this the compiler drops the store: it knows that free ends the block's life */
    __asm__ volatile("" : : "r"(block) : "memory");
}
