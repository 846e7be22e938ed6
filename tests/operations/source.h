/*
 * source.h - where operations get their choices from: a byte string (a fuzzer's input), or endless bytes that follow
 * from a seed. Both are read in the same way, so a seeded run is nothing but a run on random bytes.
 */
#ifndef HZ_TESTS_OPERATIONS_SOURCE_H
#define HZ_TESTS_OPERATIONS_SOURCE_H

#include "contract/support.h"

#include <cstddef>
#include <cstdint>

namespace operations {

class Source {
  public:
    /* Endless. */
    explicit Source(uint64_t seed) : random_(seed), endless_(true) {
    }
    /* The bytes must outlive the source. When they are used up, every choice is 0. */
    Source(const uint8_t *bytes, size_t count) : random_(0), at_(bytes), end_(bytes + count), endless_(false) {
    }

    bool more() const {
        return endless_ || at_ < end_;
    }

    /* A number from 0 to bound - 1; bound: 1 to 2^32. Takes one, two or four bytes. */
    size_t below(size_t bound) {
        size_t value = byte();
        if (bound > 256)
            value |= byte() << 8;
        if (bound > 65536)
            value |= byte() << 16 | byte() << 24;
        return value % bound;
    }

    size_t between(size_t low, size_t high) {
        return low + below(high - low + 1);
    }

  private:
    size_t byte() {
        if (endless_)
            return random_.next() >> 56;
        return at_ < end_ ? *at_++ : 0;
    }

    support::Random random_;
    const uint8_t *at_ = nullptr;
    const uint8_t *end_ = nullptr;
    bool endless_;
};

} // namespace operations

#endif
