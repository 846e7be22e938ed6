/*
 * support.h - shared by the contract, stress and death suites: block contents that can be verified, the list of edge
 * sizes, seeded random numbers, resident memory. Only two functions call the allocator under test: edge_sizes finds out
 * where the allocator's classes end, and live_bytes reads its statistics.
 */
#ifndef HZ_TESTS_CONTRACT_SUPPORT_H
#define HZ_TESTS_CONTRACT_SUPPORT_H

#include "api.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define HZ_TEST_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define HZ_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HZ_TEST_ASAN 1
#elif __has_feature(thread_sanitizer)
#define HZ_TEST_TSAN 1
#endif
#endif
#ifndef HZ_TEST_ASAN
#define HZ_TEST_ASAN 0
#endif
#ifndef HZ_TEST_TSAN
#define HZ_TEST_TSAN 0
#endif

namespace support {

inline constexpr bool tsan = HZ_TEST_TSAN != 0;
/* Sanitizers are slow, hold on to freed memory, and their shadow counts as resident. */
inline constexpr bool sanitized = HZ_TEST_ASAN != 0 || tsan;

inline constexpr size_t KiB = 1024;
inline constexpr size_t MiB = 1024 * KiB;

/* Whether a block that malloc returned for `size` can have so many usable bytes. Above 8 KiB blocks begin at different
   multiples of 64 bytes, and have what is left. */
inline bool usable_fits(size_t usable, size_t size) {
    size_t good = t_good_size(size);
    return good <= 8 * KiB || t_config_has("fences=1") ? usable == good : usable >= good && usable % 64 == 0;
}

/* What the statistics count a live block with: all of its memory, though it begins a little behind the start of that.
   `is_large`: above 64 KiB, and of realloc or a zone. */
inline size_t taken_by(const void *block, bool is_large = false) {
    size_t usable = t_usable_size(block);
    if (usable <= 8 * KiB || t_table.good_size_fn == nullptr || t_config_has("fences=1"))
        return usable;
    size_t step = 1; /* of the class: an eighth of the power of two below */
    while (16 * step < usable)
        step *= 2;
    size_t grid = is_large || step > 64 * KiB ? 64 * KiB : step;
    return usable + reinterpret_cast<uintptr_t>(block) % grid;
}

inline constexpr uint64_t mix(uint64_t value) {
    value += 0x9e3779b97f4a7c15U;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
}

/* splitmix64 (Steele, Lea, Flood 2014), seeded so that a failure can be reproduced. */
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {
    }
    uint64_t next() {
        uint64_t value = mix(state_);
        state_ += 0x9e3779b97f4a7c15U;
        return value;
    }
    size_t below(size_t bound) {
        return static_cast<size_t>(next() % bound);
    }
    size_t between(size_t low, size_t high) {
        return low + below(high - low + 1);
    }

  private:
    uint64_t state_;
};

/* Tests are compiled without optimisation, but these loops over contents are where most of them spend their time. */
#ifndef __clang__
#pragma GCC push_options
#pragma GCC optimize("O2")
#endif

/* Word `index` of a block's contents. Each block has its own seed, so overlapping blocks are noticed. */
__attribute__((always_inline)) inline uint64_t word_at(uint64_t seed, size_t index) {
    return (seed + index) * 0x9e3779b97f4a7c15U;
}

inline void fill(void *block, size_t size, uint64_t seed) {
    auto *bytes = static_cast<unsigned char *>(block);
    uint64_t start = mix(seed);
    size_t words = size / 8;
    for (size_t i = 0; i < words; i++) {
        uint64_t word = word_at(start, i);
        memcpy(bytes + i * 8, &word, 8);
    }
    uint64_t last = word_at(start, words);
    memcpy(bytes + words * 8, &last, size % 8);
}

/* True when the first `size` bytes are those that fill wrote with this seed. fill may have written more than that. */
inline bool holds(const void *block, size_t size, uint64_t seed) {
    const auto *bytes = static_cast<const unsigned char *>(block);
    uint64_t start = mix(seed);
    size_t words = size / 8;
    uint64_t difference = 0;
    for (size_t i = 0; i < words; i++) {
        uint64_t word;
        memcpy(&word, bytes + i * 8, 8);
        difference |= word ^ word_at(start, i);
    }
    uint64_t last = word_at(start, words);
    return difference == 0 && memcmp(bytes + words * 8, &last, size % 8) == 0;
}

#ifndef __clang__
#pragma GCC pop_options
#endif

inline bool is_zero(const void *block, size_t size) {
    const auto *bytes = static_cast<const unsigned char *>(block);
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

inline bool aligned_to(const void *block, size_t alignment) {
    return (reinterpret_cast<uintptr_t>(block) & (alignment - 1)) == 0;
}

inline void push_edge(std::vector<size_t> &sizes, size_t edge) {
    for (size_t size : {edge - 1, edge, edge + 1})
        sizes.push_back(size);
}

/*
 * All sizes 0..2048, then three sizes around the end of each class, as the allocator itself reports it, up to
 * `limit`. Where classes are closer together than 1/64 (glibc, page-rounded mappings), one step per 1/64 instead.
 * Also three sizes around each power of two. Sorted, without duplicates.
 */
inline std::vector<size_t> edge_sizes(size_t limit = 4 * MiB + 1) {
    std::vector<size_t> sizes;
    for (size_t size = 0; size <= 2048; size++)
        sizes.push_back(size);
    for (size_t size = 2049; size <= limit;) {
        void *block = t_malloc(size);
        if (block == nullptr)
            break;
        size_t end = std::max(t_usable_size(block), size);
        t_free(block);
        push_edge(sizes, end);
        size = std::max(end + 1, size + size / 64);
    }
    for (size_t power = 4 * KiB; power <= limit; power *= 2)
        push_edge(sizes, power);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    while (!sizes.empty() && sizes.back() > limit)
        sizes.pop_back();
    return sizes;
}

/* A few sizes of each kind: small, mid, runs of pages, direct mappings. */
inline std::vector<size_t> sample_sizes() {
    return {1,      8,         16,      17,          100,      256,          1000,        1024,
            2048,   2049,      4 * KiB, 10000,       32 * KiB, 64 * KiB - 1, 64 * KiB,    64 * KiB + 1,
            100000, 256 * KiB, 1 * MiB, 2 * MiB - 1, 2 * MiB,  2 * MiB + 1,  4 * MiB + 1, 9 * MiB};
}

/* One figure of a /proc/self file in bytes, for example ("/proc/self/status", "VmHWM:"); 0 when the file lacks it.
   Allocates nothing, because tests call it between two measurements of the heap. */
inline size_t proc_bytes(const char *path, const char *key) {
    static char text[16384];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    size_t length = 0;
    ssize_t got;
    while (length < sizeof text - 1 && (got = read(fd, text + length, sizeof text - 1 - length)) > 0)
        length += static_cast<size_t>(got);
    close(fd);
    text[length] = '\0';
    const char *at = strstr(text, key);
    return at == nullptr ? 0 : strtoul(at + strlen(key), nullptr, 10) * KiB;
}

/* Prefers smaps_rollup, which counts page by page; VmRSS of newer kernels may be off by a few pages per CPU. */
inline size_t resident_bytes() {
    size_t rollup = proc_bytes("/proc/self/smaps_rollup", "\nRss:");
    return rollup != 0 ? rollup : proc_bytes("/proc/self/status", "VmRSS:");
}

/* Live bytes of our library; 0 for other allocators. */
inline size_t live_bytes() {
    struct hz_stats stats = {};
    if (t_config_has("fences=1")) /* blocks in the quarantine count as live */
        t_give_back();
    if (t_table.stats_get_fn != nullptr && t_stats_get(&stats) == 0)
        return stats.live_bytes;
    return 0;
}

} // namespace support

#endif
