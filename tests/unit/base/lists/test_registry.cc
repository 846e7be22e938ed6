/* The registry of thread blocks: one holder each, recycled, orphaned by fork. Also the hooks. */
#include "stress/children.h"
#include "unit/base/fixture.h"

#include <gtest/gtest.h>
#include <map>
#include <set>

namespace {

using children::require;

struct hz_registered *add() {
    struct hz_registered *made = new hz_registered(); /* never freed, since the list only grows */
    hz_registry_add(made);
    return made;
}

std::vector<struct hz_registered *> registered() {
    std::vector<struct hz_registered *> all;
    for (struct hz_registered *thread = hz_registry_first(); thread != nullptr; thread = thread->next)
        all.push_back(thread);
    return all;
}

/* There is one registry per process, so each test has a fresh one in a child. */
template <typename Body> void with_registry(Body body) {
    children::expect_good_end(children::start([&] {
        body();
        return 0;
    }));
}

TEST(Registry, StartsEmpty) {
    with_registry([] {
        require(hz_registry_first() == nullptr, "there is no block");
        require(hz_registry_claim() == nullptr, "there is nothing to claim");
        require(hz_registry_claim_orphan() == nullptr, "there is no orphan");
    });
}

TEST(Registry, AddedBlocksAreClaimedAndNumbered) {
    with_registry([] {
        struct hz_registered *made[3];
        for (uint32_t i = 0; i < 3; i++) {
            made[i] = add();
            require(unit::state_of(made[i]) == HZ_THREAD_USED, "the block is claimed for the caller");
            require(made[i]->number == i, "blocks are numbered in order");
            require(hz_registry_first() == made[i], "the newest block is first");
            require(hz_registry_claim() == nullptr, "a used block cannot be claimed");
        }
        require(registered() == (std::vector<struct hz_registered *>{made[2], made[1], made[0]}),
                "all blocks are listed");
    });
}

TEST(Registry, ReleasedBlocksAreClaimedOnceEach) {
    with_registry([] {
        struct hz_registered *a = add();
        struct hz_registered *b = add();
        hz_registry_release(a);
        hz_registry_release(b);
        require(unit::state_of(a) == HZ_THREAD_FREE, "a released block is free");
        struct hz_registered *first = hz_registry_claim();
        require(first == a || first == b, "a released block comes back");
        require(unit::state_of(first) == HZ_THREAD_USED, "the block is used now");
        struct hz_registered *second = hz_registry_claim();
        require(second == (first == a ? b : a), "then the other block comes back");
        require(hz_registry_claim() == nullptr, "then there is none");
        require(registered().size() == 2, "recycling makes no block");
    });
}

TEST(Registry, ALabelEndsWithItsThread) {
    with_registry([] {
        struct hz_registered *self = add();
        struct hz_registered *other = add();
        require(hz_load_rlx(&self->label) == 0, "a new block has none");
        for (struct hz_registered *block : {self, other})
            hz_store_rlx(&block->label, 5);
        hz_registry_after_fork(self);
        require(hz_load_rlx(&self->label) == 5, "the thread that forks keeps its label");
        require(hz_load_rlx(&other->label) == 0, "the vanished thread's is gone");
        hz_registry_release(self);
        require(hz_load_rlx(&self->label) == 0, "and so is that of a thread that gives its block up");
    });
}

TEST(Registry, ForkOrphansBlocksOfOtherThreads) {
    with_registry([] {
        struct hz_registered *self = add();
        struct hz_registered *other = add();
        struct hz_registered *unused = add();
        hz_registry_release(unused);
        hz_registry_after_fork(self);
        require(unit::state_of(self) == HZ_THREAD_USED, "the forking thread keeps its block");
        require(unit::state_of(other) == HZ_THREAD_ORPHAN, "the block of a vanished thread is an orphan");
        require(unit::state_of(unused) == HZ_THREAD_FREE, "a free block stays free");
        require(hz_registry_claim() == other, "orphans come first");
        require(hz_registry_claim_orphan() == nullptr, "there was one orphan");
        require(hz_registry_claim() == unused, "free blocks come next");
        hz_registry_after_fork(nullptr);
        require(unit::state_of(self) == HZ_THREAD_ORPHAN, "without a self every used block is an orphan");
        hz_registry_after_fork(nullptr);
        for (int i = 0; i < 3; i++)
            require(hz_registry_claim_orphan() != nullptr, "an orphan stays an orphan in a second fork");
        require(hz_registry_claim_orphan() == nullptr, "there were three orphans");
    });
}

TEST(Registry, ThreadsNeverShareABlock) {
    with_registry([] {
        constexpr unsigned threads = 4;
        std::atomic<bool> good{true};
        std::atomic<unsigned> claims{0};
        std::map<struct hz_registered *, unsigned>
            holders; /* filled before the threads start, so that lookups change nothing */
        std::atomic<unsigned> held[threads * 2] = {};
        for (unsigned i = 0; i < threads; i++)
            holders[add()] = i;
        for (auto &entry : holders)
            hz_registry_release(entry.first);
        unit::together(threads, [&](unsigned) {
            for (unsigned i = 0; i < unit::rounds(20000); i++) {
                struct hz_registered *claimed = hz_registry_claim();
                if (claimed == nullptr) /* another thread is just releasing one; there is a block for each thread */
                    continue;
                std::atomic<unsigned> &holder = held[holders.at(claimed)];
                good = good && holder.fetch_add(1) == 0;
                claims++;
                holder--;
                hz_registry_release(claimed);
            }
        });
        require(good, "a block has one holder at a time");
        require(claims > threads, "blocks were claimed");
        for (unsigned i = 0; i < threads; i++)
            require(hz_registry_claim() != nullptr, "all blocks are there at the end");
        require(hz_registry_claim() == nullptr, "there are no more blocks");
    });
}

TEST(Registry, ThreadsAddAtTheSameTime) {
    with_registry([] {
        constexpr unsigned threads = 4;
        constexpr unsigned each = 500;
        unit::together(threads, [&](unsigned) {
            for (unsigned i = 0; i < each; i++)
                add();
        });
        std::set<uint32_t> numbers;
        std::set<struct hz_registered *> blocks;
        for (struct hz_registered *thread : registered()) {
            numbers.insert(thread->number);
            blocks.insert(thread);
        }
        require(blocks.size() == threads * each && numbers.size() == threads * each, "no block is lost");
        require(*numbers.rbegin() == threads * each - 1, "numbers have no gaps");
    });
}

/* ---- hooks: they are installed once per process, so they have one test ---- */

std::atomic<unsigned> exits{0};
std::atomic<void *> exit_value{nullptr};
std::atomic<unsigned> forks{0};
std::atomic<unsigned> settles{0};

void count_exit(void *value) {
    exits++;
    exit_value = value;
}

void count_fork() {
    forks++;
}

void count_settle() {
    settles++;
}

void never(void *) {
    abort();
}

TEST(Hooks, RunAtThreadExitAndInTheChildOfAFork) {
    int value = 0;
    std::thread([&] { EXPECT_FALSE(hz_hooks_arm_exit(&value)); }).join();
    EXPECT_EQ(exits, 0U) << "nothing is installed yet";
    hz_hooks_install(count_exit, count_fork, count_settle);
    hz_hooks_install(never, abort, abort); /* the first hooks stay */
    std::thread([&] { EXPECT_TRUE(hz_hooks_arm_exit(&value)); }).join();
    EXPECT_EQ(exits, 1U);
    EXPECT_EQ(exit_value, &value);
    std::thread([] {}).join();
    EXPECT_EQ(exits, 1U) << "only armed threads have an exit hook";
    children::expect_good_end(children::start([] {
        require(forks == 1, "the fork hook runs in the child");
        require(settles == 1, "so does the other one, since the thread is outside");
        return 0;
    }));
    hz_hooks_enter();
    hz_hooks_enter();
    children::expect_good_end(children::start([] {
        require(forks == 1 && settles == 0, "the other one waits while the thread is inside");
        hz_hooks_leave();
        require(settles == 0, "as long as it is inside");
        hz_hooks_leave();
        require(settles == 1, "until it has left");
        hz_hooks_enter();
        hz_hooks_leave();
        require(forks == 1 && settles == 1, "once");
        return 0;
    }));
    hz_hooks_leave();
    hz_hooks_leave();
    EXPECT_EQ(forks, 0U) << "the fork hook does not run in the parent";
}

} // namespace
