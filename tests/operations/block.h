/*
 * block.h - a block under test and its contents. What the block should contain is kept outside of it, so blocks of
 * every size can be verified, and damage to one block does not mislead the test.
 */
#ifndef HZ_TESTS_OPERATIONS_BLOCK_H
#define HZ_TESTS_OPERATIONS_BLOCK_H

#include "contract/support.h"

namespace operations {

/* Which functions may free a block. */
enum class Origin : uint8_t {
    plain,   /* malloc, calloc, realloc: free, free_sized, realloc */
    aligned, /* aligned_alloc: free, free_aligned_sized, realloc */
    other,   /* posix_memalign and relatives: free, realloc */
    object   /* operator new: operator delete */
};

struct Block {
    void *address; /* NULL: no block */
    size_t size;   /* bytes with contents */
    size_t asked;  /* the size that the program asked for; less than `size` when it also uses the usable rest */
    size_t usable;
    size_t alignment;
    uint64_t id; /* decides the contents */
    Origin origin;
    size_t taken; /* what the statistics count it with, at least */

    /* Above 64 KiB only the heap knows whether the block has a class, and so how far behind the start of its memory it
       can begin: the statistics may count it with less than this more. */
    size_t unsure() const {
        return usable > 64 * support::KiB ? 64 * support::KiB : 0;
    }
};

/* Contents cover blocks up to this size in full. A longer block has them at both ends and once in each system page. */
inline constexpr size_t full_bytes = 64 * support::KiB;
inline constexpr size_t page_bytes = 4096;
inline constexpr size_t end_bytes = 64;

inline void block_fill(const Block &block) {
    auto *bytes = static_cast<unsigned char *>(block.address);
    if (block.size <= full_bytes) {
        support::fill(bytes, block.size, block.id);
        return;
    }
    support::fill(bytes, page_bytes, block.id);
    for (size_t at = page_bytes; at + sizeof(uint64_t) <= block.size; at += page_bytes) {
        uint64_t word = support::word_at(block.id, at);
        memcpy(bytes + at, &word, sizeof word);
    }
    support::fill(bytes + block.size - end_bytes, end_bytes, block.id + 1);
}

/* True when the first `size` bytes at `address` are those of the block, which may have moved there. */
inline bool block_holds(const Block &block, const void *address, size_t size) {
    const auto *bytes = static_cast<const unsigned char *>(address);
    if (block.size <= full_bytes)
        return support::holds(bytes, size, block.id);
    if (!support::holds(bytes, std::min(size, page_bytes), block.id))
        return false;
    size_t end = block.size - end_bytes; /* the last words may have been overwritten by the contents of the end */
    for (size_t at = page_bytes; at + sizeof(uint64_t) <= std::min(size, end); at += page_bytes) {
        uint64_t word;
        memcpy(&word, bytes + at, sizeof word);
        if (word != support::word_at(block.id, at))
            return false;
    }
    return size < block.size || support::holds(bytes + end, end_bytes, block.id + 1);
}

} // namespace operations

#endif
