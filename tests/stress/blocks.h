/*
 * blocks.h - blocks that describe their own contents, so that any thread or process can verify a block that another
 * one wrote. The first 8 bytes hold size and seed, from which the rest follows. Used by the stress suite.
 */
#ifndef HZ_TESTS_STRESS_BLOCKS_H
#define HZ_TESTS_STRESS_BLOCKS_H

#include "contract/api.h"
#include "contract/support.h"

#include <cstdint>
#include <cstring>

namespace blocks {

using support::KiB;
using support::MiB;
using support::Random;

struct Header {
    uint32_t size;
    uint32_t seed;
};

inline constexpr size_t least_size = sizeof(Header);
/* In long blocks only this many bytes at the front and at the end are written and verified. */
inline constexpr size_t front_bytes = 1024;
inline constexpr size_t end_bytes = 64;

inline void stamp(void *block, size_t size, uint64_t seed) {
    auto *bytes = static_cast<unsigned char *>(block);
    Header header = {static_cast<uint32_t>(size), static_cast<uint32_t>(seed)};
    memcpy(bytes, &header, sizeof header);
    size_t rest = size - sizeof header;
    support::fill(bytes + sizeof header, std::min(rest, front_bytes), header.seed);
    if (rest > front_bytes + end_bytes)
        support::fill(bytes + size - end_bytes, end_bytes, header.seed + size);
}

inline bool intact(const void *block) {
    const auto *bytes = static_cast<const unsigned char *>(block);
    Header header;
    memcpy(&header, bytes, sizeof header);
    size_t size = header.size;
    if (size < sizeof header || size > t_usable_size(block))
        return false;
    size_t rest = size - sizeof header;
    bool front = support::holds(bytes + sizeof header, std::min(rest, front_bytes), header.seed);
    bool has_end = rest > front_bytes + end_bytes;
    return front && (!has_end || support::holds(bytes + size - end_bytes, end_bytes, header.seed + size));
}

/* Allocates and stamps a block; NULL when there is no memory. */
inline void *make(size_t size, uint64_t seed) {
    void *block = t_malloc(size);
    if (block != nullptr)
        stamp(block, size, seed);
    return block;
}

/* Verifies and frees a block; NULL is fine. Returns false for a damaged block, which it does not free. */
inline bool drop(void *block) {
    if (block == nullptr)
        return true;
    if (!intact(block))
        return false;
    t_free(block);
    return true;
}

/* Sizes typical of programs: mostly small, some mid, few runs of pages, rarely 1 to 5 MiB. */
inline size_t pick_size(Random &random) {
    size_t dice = random.below(2000);
    if (dice < 1500)
        return random.between(least_size, 512);
    if (dice < 1900)
        return random.between(513, 4 * KiB);
    if (dice < 1990)
        return random.between(4 * KiB, 64 * KiB);
    if (dice < 1999)
        return random.between(64 * KiB, 700 * KiB);
    return random.between(MiB, 5 * MiB);
}

} // namespace blocks

#endif
