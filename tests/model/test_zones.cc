/* Zones: one thread takes blocks without the lock while others take from the same zone, free, and relieve it. */
#include "model/heap.h"

extern "C" {
#include "heap/threads/park.h"
#include "heap/threads/zone.h"
}

namespace {

using model::Blocks;
using model::Heap;

/* A zone with a ledger. */
class Zone {
  public:
    Zone() {
        unit::self(); /* the hooks are installed, as in the products */
        zone_ = hz_zone_create();
        MODEL_CHECK(zone_ != nullptr);
    }
    /* As hz_zone_malloc with a keeper, which could relieve the user. */
    void *take(size_t bytes) {
        unsigned size_class = hz_zone_class(1, bytes);
        void *block = hz_zone_pop(zone_, size_class);
        struct hz_thread_block *self = block == nullptr ? hz_thread_enter() : nullptr;
        if (block == nullptr)
            block = hz_zone_claim(zone_, self, true, size_class);
        if (block == nullptr)
            block = hz_zone_alloc(zone_, self, true, 1, bytes, false);
        if (self != nullptr)
            hz_thread_leave(self);
        ledger.taken(block, bytes);
        return block;
    }
    void give(void *block) {
        ledger.given(block);
        hz_free(block);
    }
    size_t live() {
        struct hz_zone_stats stats;
        MODEL_CHECK(hz_zone_stats_get(zone_, &stats, sizeof(stats)) == 0);
        return stats.live_blocks;
    }
    /* Frees all blocks at once. Nobody else has the zone any more. */
    void destroy(const Blocks &left) {
        MODEL_CHECK(live() == left.size());
        for (void *block : left)
            ledger.given(block);
        hz_zone_destroy(zone_);
        zone_ = nullptr;
    }
    struct hz_zone *get() {
        return zone_;
    }
    model::Ledger ledger;

  private:
    struct hz_zone *zone_;
};

/* A thread without blocks in its bins, so that the pages of the common heap do not matter. */
void check_nothing_is_left(const Zone &zone) {
    MODEL_CHECK(zone.ledger.held() == 0);
    hz_purge();
    for (unsigned size_class = 1; size_class < unsigned{HZ_CLASS_COUNT}; size_class++)
        if (hz_class_blocks(size_class) != 0)
            model::fail("a page of class " + std::to_string(size_class) + " is left");
}

/* Takes the cursors of all zones, as a purge does. */
void settle() {
    struct hz_thread_block *self = hz_thread_enter();
    hz_zones_settle(self);
    hz_thread_leave(self);
}

TEST(Zones, AUserIsRelievedWhileItTakes) {
    enum Fact { RELIEVED };
    model::Explored found = model::explore("park lock", 1000, [] {
        Zone zone;
        Blocks left;
        auto user = [&] {
            unit::self();
            for (unsigned i = 0; i < 6; i++)
                left.push_back(zone.take(model::SMALL));
            zone.give(left.back());
            left.pop_back();
            left.push_back(zone.take(model::SMALL));
            model::detach();
        };
        auto other = [&] {
            unit::self();
            for (unsigned i = 0; i < 3; i++) {
                bool had_user = hz_load_rlx(&zone.get()->user) != nullptr;
                settle();
                if (had_user && hz_load_rlx(&zone.get()->user) == nullptr)
                    model::reached(RELIEVED);
            }
            model::detach();
        };
        model::together({user, other});
        zone.destroy(left);
        check_nothing_is_left(zone);
    });
    EXPECT_GT(found.facts[RELIEVED], 0U);
}

/* Two threads take, and free what a third one has taken. That one looks at the zone twice, as the keeper does. */
TEST(Zones, ThreadsTakeAndFreeInTheSameZone) {
    model::explore("park lock", 500, [] {
        Zone zone;
        Blocks first;
        for (unsigned i = 0; i < 4; i++)
            first.push_back(zone.take(i % 2 == 0 ? model::SMALL : model::SHARED));
        Blocks taken[2];
        auto taker = [&](unsigned index) {
            unit::self();
            taken[index].push_back(zone.take(model::SMALL));
            zone.give(first[2 * index]);
            taken[index].push_back(zone.take(model::SHARED));
            taken[index].push_back(zone.take(model::SMALL));
            zone.give(first[2 * index + 1]);
            model::detach();
        };
        auto looker = [&] {
            unit::self();
            for (unsigned i = 0; i < 2; i++) {
                struct hz_thread_block *self = hz_thread_enter();
                (void)hz_zones_look(self);
                hz_thread_leave(self);
                MODEL_CHECK(zone.live() <= 10);
            }
            model::detach();
        };
        model::together({[&] { taker(0); }, [&] { taker(1); }, looker});
        Blocks left = taken[0];
        left.insert(left.end(), taken[1].begin(), taken[1].end());
        zone.destroy(left);
        check_nothing_is_left(zone);
    });
}

/* A thread that finds another one to be the user becomes the user itself in the end, while the first one goes on. */
TEST(Zones, AStrangerBecomesTheUser) {
    enum Fact { CHANGED };
    model::Explored found = model::explore("park lock", 40, [] {
        Zone zone;
        Blocks taken[2];
        (void)zone.take(model::SMALL);
        struct hz_thread_block *first = hz_load_rlx(&zone.get()->user);
        auto taker = [&](unsigned index, unsigned count) {
            unit::self();
            for (unsigned i = 0; i < count; i++)
                taken[index].push_back(zone.take(model::SMALL));
            if (hz_load_rlx(&zone.get()->user) != first)
                model::reached(CHANGED);
            model::detach();
        };
        model::together({[&] { taker(0, 80); }, [&] { taker(1, 80); }});
        size_t count = taken[0].size() + taken[1].size() + 1;
        MODEL_CHECK(zone.live() == count);
        hz_zone_destroy(zone.get());
    });
    EXPECT_GT(found.facts[CHANGED], 0U);
}

/* A zone passes from a thread that ends to one that gets its thread block, while another one takes the cursors. */
TEST(Zones, AZoneOutlivesItsUser) {
    model::explore("park lock thread-claim", 500, [] {
        Zone zone;
        Blocks left = {zone.take(model::SMALL)};
        model::detach();
        auto user = [&] {
            unit::self();
            for (unsigned i = 0; i < 3; i++)
                left.push_back(zone.take(model::SMALL));
            model::detach();
        };
        auto other = [&] {
            unit::self();
            settle();
            settle();
            model::detach();
        };
        model::together({user, other});
        unit::self();
        zone.destroy(left);
        check_nothing_is_left(zone);
    });
}

} // namespace
