/* Where a refill takes blocks from: pages with free blocks, a new page. */
#include "unit/heap/pages/sent_shard.h"

namespace {

using unit::Blocks;

class Supply : public unit::SentShard {};

TEST_F(Supply, OneRefillMakesOnePage) {
    for (unsigned size_class : unit::some_classes()) {
        uint64_t created = counters().page_create;
        Blocks blocks = refill(size_class, hz_batch_count(size_class));
        EXPECT_GE(blocks.size(), 1U);
        EXPECT_LE(blocks.size(), hz_batch_count(size_class));
        EXPECT_EQ(counters().page_create, created + 1);
        unit::put(shard_, blocks);
    }
}

} // namespace
