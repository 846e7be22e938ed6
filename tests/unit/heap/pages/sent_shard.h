/*
 * sent_shard.h - a shard of the test's own, to which the test sends blocks and which it refills from.
 */
#ifndef HZ_TESTS_UNIT_HEAP_PAGES_SENT_SHARD_H
#define HZ_TESTS_UNIT_HEAP_PAGES_SENT_SHARD_H

#include "unit/heap/fixture.h"

#include <algorithm>

namespace unit {

inline Blocks sorted(Blocks blocks) {
    std::sort(blocks.begin(), blocks.end());
    return blocks;
}

class SentShard : public OwnShard {
  protected:
    Blocks refill(unsigned size_class, uint32_t want) {
        return unit::refill(shard_, size_class, want);
    }
    void send(const Blocks &blocks) {
        forget_sparse(); /* blocks of a sparse class are not sent */
        unit::send(shard_, blocks);
    }
    uint32_t waiting(unsigned size_class) {
        return unit::waiting(shard_, size_class);
    }
    struct hz_counters counters() {
        return self_->counters;
    }
};

} // namespace unit

#endif
