/* When the OS refuses calls, the sampling guard's pool returns no block, or gives up a slot, and does no harm. */
#include "unit/base/faulty.h"
#include "unit/base/watch/guarded.h"

#include <gtest/gtest.h>

namespace {

using guarded::require;

void *take() {
    return hz_guard_alloc(100, 16);
}

enum hz_guard_answer give(void *block) {
    struct hz_guard_slot slot;
    return hz_guard_pool_free(block, &slot);
}

size_t slots_left() {
    size_t count = 0;
    while (take() != nullptr)
        count++;
    return count;
}

TEST(GuardPoolFaulty, IsNotMadeWithoutMemory) {
    for (uint64_t after : {uint64_t{0}, uint64_t{1}})
        children::expect_good_end(children::start([=] {
            hz_os_faulty_fail(after, 1);
            require(!hz_guard_pool_make(7), "there is no memory");
            require(hz_guard_rate() == 0, "there is no pool");
            unit::os_works_again();
            require(hz_guard_pool_make(7), "a second attempt succeeds");
            require(slots_left() == HZ_GUARD_SLOTS, "and is whole");
            return 0;
        }));
}

TEST(GuardPoolFaulty, NoBlockWithoutMemory) {
    guarded::with_pool([] {
        hz_os_faulty_fail(0, UINT64_MAX);
        for (int i = 0; i < 1000; i++)
            require(take() == nullptr, "the OS refuses to make the pages accessible");
        unit::os_works_again();
        require(slots_left() == HZ_GUARD_SLOTS, "no slot was lost");
    });
}

/* A slot whose pages stay accessible would not be watched. */
TEST(GuardPoolFaulty, ASlotThatCannotBeClosedIsNotUsedAgain) {
    guarded::with_pool([] {
        auto *block = static_cast<char *>(take());
        hz_os_faulty_fail(0, UINT64_MAX);
        require(give(block) == HZ_GUARD_OK, "the block is freed");
        require(give(block) == HZ_GUARD_TWICE, "once");
        unit::os_works_again();
        size_t seen = 0;
        for (void *other = take(); other != nullptr; other = take(), seen++)
            require(guarded::slot_of(other) != guarded::slot_of(block), "the slot is not used again");
        require(seen == HZ_GUARD_SLOTS - 1, "the others are", seen);
    });
}

} // namespace
