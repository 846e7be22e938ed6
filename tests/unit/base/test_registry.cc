/* The registry of thread blocks: one holder each, recycled, orphaned by fork; the hooks. */
#include "stress/children.h"
#include "unit/base/shim.h"
#include "unit/together.h"

#include <gtest/gtest.h>
#include <map>
#include <set>

namespace {

using children::require;

struct hz_registered *publish() {
    struct hz_registered *made = unit_thread_new(); /* never freed, as in the engine: the list only grows */
    hz_registry_add(made);
    return made;
}

std::vector<struct hz_registered *> registered() {
    std::vector<struct hz_registered *> all;
    for (struct hz_registered *thread = hz_registry_first(); thread != nullptr; thread = unit_thread_next(thread))
        all.push_back(thread);
    return all;
}

/* The registry is one per process: each test has a fresh one in a child. */
template <typename Body> void with_registry(Body body) {
    children::expect_good_end(children::start([&] {
        body();
        return 0;
    }));
}

TEST(Registry, StartsEmpty) {
    with_registry([] {
        require(hz_registry_first() == nullptr, "no block");
        require(hz_registry_claim() == nullptr, "nothing to claim");
        require(hz_registry_claim_orphan() == nullptr, "no orphan");
    });
}

TEST(Registry, PublishedBlocksAreClaimedAndNumbered) {
    with_registry([] {
        struct hz_registered *made[3];
        for (uint32_t i = 0; i < 3; i++) {
            made[i] = publish();
            require(unit_thread_state_of(made[i]) == UNIT_THREAD_USED, "claimed for its maker");
            require(unit_thread_number(made[i]) == i, "numbered in order");
            require(hz_registry_first() == made[i], "the newest is first");
            require(hz_registry_claim() == nullptr, "used ones cannot be claimed");
        }
        require(registered() == (std::vector<struct hz_registered *>{made[2], made[1], made[0]}), "all are listed");
    });
}

TEST(Registry, ReleasedBlocksAreClaimedOnceEach) {
    with_registry([] {
        struct hz_registered *a = publish();
        struct hz_registered *b = publish();
        hz_registry_release(a);
        hz_registry_release(b);
        require(unit_thread_state_of(a) == UNIT_THREAD_FREE, "released is free");
        struct hz_registered *first = hz_registry_claim();
        require(first == a || first == b, "a released block comes back");
        require(unit_thread_state_of(first) == UNIT_THREAD_USED, "and is used");
        struct hz_registered *second = hz_registry_claim();
        require(second == (first == a ? b : a), "then the other one");
        require(hz_registry_claim() == nullptr, "then none");
        require(registered().size() == 2, "recycling makes none");
    });
}

TEST(Registry, ForkOrphansWhatOthersHeld) {
    with_registry([] {
        struct hz_registered *self = publish();
        struct hz_registered *other = publish();
        struct hz_registered *unused = publish();
        hz_registry_release(unused);
        hz_registry_after_fork(self);
        require(unit_thread_state_of(self) == UNIT_THREAD_USED, "the forking thread keeps its block");
        require(unit_thread_state_of(other) == UNIT_THREAD_ORPHAN, "a vanished thread's is an orphan");
        require(unit_thread_state_of(unused) == UNIT_THREAD_FREE, "free ones stay free");
        require(hz_registry_claim() == other, "orphans come first");
        require(hz_registry_claim_orphan() == nullptr, "there was one");
        require(hz_registry_claim() == unused, "then free ones");
        hz_registry_after_fork(nullptr);
        require(unit_thread_state_of(self) == UNIT_THREAD_ORPHAN, "without a self all are orphans");
        hz_registry_after_fork(nullptr);
        for (int i = 0; i < 3; i++)
            require(hz_registry_claim_orphan() != nullptr, "orphans of two forks are still orphans");
        require(hz_registry_claim_orphan() == nullptr, "three in all");
    });
}

TEST(Registry, ThreadsNeverShareABlock) {
    with_registry([] {
        constexpr unsigned threads = 4;
        std::atomic<bool> good{true};
        std::atomic<unsigned> published{0};
        std::map<struct hz_registered *, unsigned> holders; /* filled before, so that lookups change nothing */
        std::atomic<unsigned> held[threads * 2] = {};
        for (unsigned i = 0; i < threads; i++)
            holders[publish()] = i;
        for (auto &entry : holders)
            hz_registry_release(entry.first);
        unit::together(threads, [&](unsigned) {
            for (unsigned i = 0; i < unit::rounds(20000); i++) {
                struct hz_registered *claimed = hz_registry_claim();
                if (claimed == nullptr) /* a moment of somebody's release; there is one for each of us */
                    continue;
                std::atomic<unsigned> &holder = held[holders.at(claimed)];
                good = good && holder.fetch_add(1) == 0;
                published++;
                holder--;
                hz_registry_release(claimed);
            }
        });
        require(good, "one holder at a time");
        require(published > threads, "blocks were claimed");
        for (unsigned i = 0; i < threads; i++)
            require(hz_registry_claim() != nullptr, "all are there at the end");
        require(hz_registry_claim() == nullptr, "and no more");
    });
}

TEST(Registry, ThreadsPublishAtOnce) {
    with_registry([] {
        constexpr unsigned threads = 4;
        constexpr unsigned each = 500;
        unit::together(threads, [&](unsigned) {
            for (unsigned i = 0; i < each; i++)
                publish();
        });
        std::set<uint32_t> numbers;
        std::set<struct hz_registered *> blocks;
        for (struct hz_registered *thread : registered()) {
            numbers.insert(unit_thread_number(thread));
            blocks.insert(thread);
        }
        require(blocks.size() == threads * each && numbers.size() == threads * each, "none is lost");
        require(*numbers.rbegin() == threads * each - 1, "numbers have no gaps");
    });
}

/* ---- hooks: once per process, so one test has them all ---- */

std::atomic<unsigned> exits{0};
std::atomic<void *> exit_value{nullptr};
std::atomic<unsigned> forks{0};

void count_exit(void *value) {
    exits++;
    exit_value = value;
}

void count_fork() {
    forks++;
}

void never(void *) {
    abort();
}

TEST(Hooks, RunAtThreadExitAndInTheChildOfAFork) {
    int value = 0;
    std::thread([&] { EXPECT_FALSE(hz_hooks_arm_exit(&value)); }).join();
    EXPECT_EQ(exits, 0U) << "nothing is installed yet";
    hz_hooks_install(count_exit, count_fork);
    hz_hooks_install(never, abort); /* the first ones stay */
    std::thread([&] { EXPECT_TRUE(hz_hooks_arm_exit(&value)); }).join();
    EXPECT_EQ(exits, 1U);
    EXPECT_EQ(exit_value, &value);
    std::thread([] {}).join();
    EXPECT_EQ(exits, 1U) << "only armed threads have an exit hook";
    children::expect_good_end(children::start([] {
        require(forks == 1, "the hook runs in the child");
        return 0;
    }));
    EXPECT_EQ(forks, 0U) << "and not in the parent";
}

} // namespace
