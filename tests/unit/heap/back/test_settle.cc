/* What rests of sparse classes goes home, and parts of pages are purged, while the pages hold much more than the blocks
   that are out of them. */
#include "unit/heap/back/sparse.h"

namespace {

using support::MiB;
using unit::Blocks;

class Settle : public unit::SparseShard {};

TEST_F(Settle, NothingIsSparseBelowTheBound) {
    std::vector<unsigned> classes = {1, 63, 64, unit::largest_short}; /* in both words of bits */
    Blocks live;
    for (unsigned size_class : classes)
        for (void *block : make_sparse(size_class))
            live.push_back(block);
    EXPECT_EQ(sparse_classes(), classes);
    (void)hz_settle_tick(self_, HZ_REMOTE_BIN, true);
    EXPECT_EQ(sparse_classes(), classes) << "with a keeper, ticks have a higher bound and leave this to it";
    hz_settle_all(self_);
    EXPECT_EQ(sparse_classes(), std::vector<unsigned>()) << "the keeper";
    for (unsigned size_class : classes)
        (void)hz_class_look(size_class);
    EXPECT_EQ(sparse_classes(), classes);
    (void)hz_settle_tick(self_, HZ_REMOTE_BIN, false);
    EXPECT_EQ(sparse_classes(), std::vector<unsigned>()) << "a tick without a keeper";
    unit::put(shard_, live);
}

/* The sum over the depot is not made in each tick. One from before a purge makes no class sparse. */
TEST_F(Settle, AnOldSumOverTheDepotDoesNotDecide) {
    unsigned size_class = unit::largest_short;
    if (HZ_DEPOT_BYTES == 0 || !hz_class_is_shared(size_class))
        GTEST_SKIP() << "nothing of this class rests in this lane's depot";
    unit::forbid_idle_looks(self_);
    Blocks live = make_sparse(hz_class_of(1024));
    /* as much as is too much without a keeper, even when there is no slack */
    while (hz_age_resting_bytes() <= 5 * MiB + hz_density_recent_out() / 8)
        unit::rest(self_, size_class--, 2);
    for (unsigned turn = 0; turn % 8 != 0 || turn < unit::class_count; turn++) /* some of these sum up */
        (void)hz_settle_tick(self_, HZ_REMOTE_BIN, true);
    EXPECT_GT(hz_depot_blocks(unit::largest_short), 0U) << "the bound with a keeper is higher";
    hz_heap_purge();
    hz_classes_forget_sparse();
    ASSERT_FALSE(hz_density_is_low(0, {4 * MiB, 8}));
    EXPECT_FALSE(hz_settle_tick(self_, hz_class_of(1024), false));
    EXPECT_EQ(sparse_classes(), std::vector<unsigned>());
    unit::put(shard_, live);
}

/* The keeper does it for all classes at once. Above a soft limit almost any slack is too much. */
TEST_F(Settle, TheKeeperSettlesAllSparseClasses) {
    std::vector<unsigned> classes = unit::some_classes();
    Blocks live;
    for (unsigned size_class : classes) {
        if (HZ_DEPOT_BYTES > 0 && hz_class_is_shared(size_class))
            unit::rest(self_, size_class, 1);
        Blocks one_a_page = make_sparse(size_class);
        struct hz_list list = unit::list_of(one_a_page, 0, 1);
        unit::forget_sparse();
        hz_shard_send(self_, shard_, size_class, &list);
        live.insert(live.end(), one_a_page.begin() + 1, one_a_page.end());
    }
    hz_settle_all(self_);
    EXPECT_EQ(sparse_classes(), std::vector<unsigned>()) << "so little slack is fine";
    for (unsigned size_class : classes)
        EXPECT_EQ(unit::waiting(shard_, size_class), 1U);
    hz_heap_limit_set(1, 0);
    hz_settle_all(self_);
    hz_heap_limit_set(0, 0);
    EXPECT_EQ(sparse_classes(), classes);
    for (unsigned size_class : classes) {
        EXPECT_EQ(hz_depot_blocks(size_class), 0U) << "class " << size_class;
        EXPECT_EQ(unit::waiting(shard_, size_class), 0U) << "class " << size_class;
    }
    unit::put(shard_, live);
}

/* Above 32 MiB and a quarter of what is out. */
TEST_F(Settle, IsLooseWithMuchSlack) {
    for (bool is_loose : {false, true}) {
        EXPECT_FALSE(hz_settle_is_loose());
        Blocks live = one_of_sixteen(hz_class_of(1024), (is_loose ? 40 : 32) * MiB);
        EXPECT_EQ(hz_settle_is_loose(), is_loose);
        unit::put(shard_, live);
        hz_heap_purge();
    }
}

TEST_F(Settle, AWalkPurgesWhatHasNotChangedSinceTheWalkBefore) {
    auto walk = [&] {
        while (!hz_settle_walk(self_)) {
        }
    };
    walk(); /* the next one begins with the first segment */
    size_t before = hz_density_slack();
    Blocks live = make_sparse(hz_class_of(1024));
    size_t slack = hz_density_slack();
    walk();
    EXPECT_EQ(hz_density_slack(), slack) << "the pages have changed";
    walk();
    EXPECT_LT(hz_density_slack() - before, (slack - before) / 2);
    unit::put(shard_, live);
}

} // namespace
