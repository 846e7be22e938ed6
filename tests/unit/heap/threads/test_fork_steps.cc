/* A signal handler interrupts the heap at each instruction in turn and forks. The child returns from the handler, goes
   on where the parent was interrupted, and has lost nothing. HZ_SLOW=1 takes 16 times as many instructions. */
#include "unit/heap/fixture.h"
#include "unit/heap/threads/steps.h"
#include "unit/heap/worker.h"

extern "C" {
#include "heap/threads/zone.h"
}

namespace {

using children::require;
using support::KiB;
using support::MiB;
using unit::Blocks;

constexpr unsigned some_class = 14;
constexpr size_t held_max = 2000;

/* What the operations hold: no container, because each of its instructions would be a step. The tests call the heap
   below the check build's map of live blocks, since they also hold blocks that they took from pages. */
void *held[held_max];
size_t held_count;

void hold(size_t bytes) {
    void *block = hz_heap_malloc(bytes);
    require(block != nullptr, "a block can be allocated");
    support::fill(block, 16, reinterpret_cast<uintptr_t>(block));
    held[held_count++] = block;
}

void free_held() {
    while (held_count > 0) {
        void *block = held[--held_count];
        require(support::holds(block, 16, reinterpret_cast<uintptr_t>(block)), "contents are intact");
        hz_heap_free(block);
    }
}

/* Resizes the oldest held block if it can be. */
void resize(size_t bytes) {
    void *block = hz_resize(held[0], bytes, true, HZ_IN_REALLOC);
    if (block == nullptr)
        return;
    require(support::holds(block, 16, reinterpret_cast<uintptr_t>(held[0])), "contents are intact");
    support::fill(block, 16, reinterpret_cast<uintptr_t>(block));
    held[0] = block;
}

void detach() {
    hz_thread_detach(hz_thread_enter());
    hz_hooks_leave();
}

/* A zone comes and goes, with blocks that are freed one by one, blocks that go with it, and a look that takes its
   cursors meanwhile. */
void use_zone() {
    struct hz_zone *zone = hz_malloc_zone_make();
    require(zone != nullptr, "a zone can be made");
    void *blocks[70];
    for (size_t i = 0; i < 70; i++) {
        size_t bytes = i % 10 == 0 ? 3000 : 64;
        unsigned size_class = hz_zone_class(1, bytes);
        blocks[i] = hz_zone_pop(zone, size_class);
        if (blocks[i] == nullptr)
            blocks[i] = hz_malloc_in_zone(zone, 1, bytes, false);
        require(blocks[i] != nullptr, "a zone has a block");
        support::fill(blocks[i], 16, reinterpret_cast<uintptr_t>(blocks[i]));
        if (i == 30)
            hz_zones_settle(hz_self());
    }
    for (size_t i = 0; i < 70; i++) {
        require(support::holds(blocks[i], 16, reinterpret_cast<uintptr_t>(blocks[i])), "contents are intact");
        if (i % 3 == 0)
            hz_heap_free(blocks[i]);
    }
    hz_malloc_zone_drop(zone);
}

/* A few blocks of every class, and large ones. */
void use_heap() {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        for (int i = 0; i < 3; i++)
            hold(hz_class_bytes(size_class));
    hold(300 * KiB);
    hold(5 * MiB);
    free_held();
    use_zone();
}

/* Everything was freed. The only thread purges, and finds the heap empty and its figures exact. */
void require_empty_heap() {
    use_heap();
    struct hz_thread_block *self = unit::self();
    hz_heap_purge();
    require(support::live_bytes() == 0, "no block is live", support::live_bytes());
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        require(hz_class_blocks(size_class) == 0, "no page is left, of the class", size_class);
    require(hz_pages_bytes() == 0, "pages are counted");
    struct hz_arena_figures figures = unit::figures();
    require(figures.used_bytes == 0, "no run is in use", figures.used_bytes);
    require(figures.hollow_bytes == 0, "hollow bytes are counted", figures.hollow_bytes);
    require(hz_arena_used_bytes() == 0, "used bytes are counted", hz_arena_used_bytes());
    require(hz_arena_resting_bytes() == figures.free_dirty_bytes, "resting bytes are counted",
            hz_arena_resting_bytes());
    require(hz_allowance() == unit::allowance_of(1), "one thread shares");
    struct hz_shard *shard;
    for (unsigned index = 0; (shard = hz_shard_get(index)) != nullptr; index++) {
        require(hz_load_rlx(&shard->exclusive.word) == 0, "no lock is held");
        require(hz_load_rlx(&shard->threads) == (self->shard == shard), "one thread has a shard");
    }
    for (struct hz_registered *each = hz_registry_first(); each != nullptr; each = each->next)
        require(unit::state_of(each) == (each == hz_thread_registered(self) ? HZ_THREAD_USED : HZ_THREAD_FREE),
                "one thread has a thread block");
}

bool is_slow() {
    const char *slow = getenv("HZ_SLOW");
    return slow != nullptr && strcmp(slow, "1") == 0;
}

size_t stride_of(size_t stride) {
    return is_slow() ? stride / 16 + 1 : stride;
}

void free_and_require_empty_heap() {
    free_held();
    require_empty_heap();
}

class ForkSteps : public testing::Test {
  protected:
    void SetUp() override {
        if (!steps::possible)
            GTEST_SKIP() << "needs a trap after each instruction";
        if (support::sanitized)
            GTEST_SKIP() << "sanitizers' fork is not safe in handlers";
        own_ = unit::self()->shard;
        use_heap();
        hz_heap_purge();
    }
    /* Interrupts at every `stride`th instruction. */
    template <typename Operation> void interrupt(size_t stride, Operation operation) {
        EXPECT_EQ(steps::fork_at_each(stride_of(stride), operation, free_and_require_empty_heap), 0U);
        free_held();
    }
    /* `count` blocks of a shard that has no threads, on one page or more; they are held. */
    struct hz_shard *leave_page(unsigned size_class, uint32_t count) {
        struct hz_shard *left = hz_shard_claim();
        for (void *block : unit::take(left, size_class, count))
            hold_taken(block);
        unit::leave(left);
        return left;
    }
    static void hold_taken(void *block) {
        support::fill(block, 16, reinterpret_cast<uintptr_t>(block));
        held[held_count++] = block;
    }
    struct hz_shard *own_ = nullptr;
};

TEST_F(ForkSteps, RefillFromANewPage) {
    interrupt(17, [] { hold(hz_class_bytes(some_class)); });
}

TEST_F(ForkSteps, RefillFromAPurgedPage) {
    for (int i = 0; i < 40; i++)
        hold(8 * KiB);
    while (held_count > 1)
        hz_heap_free(held[--held_count]);
    hz_heap_purge();
    interrupt(307, [] { hold(8 * KiB); });
}

TEST_F(ForkSteps, AdoptedPages) {
    (void)leave_page(some_class, 3 * HZ_PAGE_BYTES / static_cast<uint32_t>(hz_class_bytes(some_class)));
    for (size_t i = 1; i < held_count; i++)
        if (i % 50 != 0) {
            hz_block_put(unit::self(), held[i]);
            held[i] = nullptr;
        }
    size_t kept = 0;
    for (size_t i = 0; i < held_count; i++)
        if (held[i] != nullptr)
            held[kept++] = held[i];
    held_count = kept;
    uint64_t before = unit::self()->counters.page_adopt;
    interrupt(23, [] { hold(hz_class_bytes(some_class)); });
    EXPECT_GT(unit::self()->counters.page_adopt, before);
}

TEST_F(ForkSteps, BinsFillAndEmpty) {
    interrupt(397, [] {
        for (size_t i = 0; i < 60; i++)
            hold(i % 3 == 0 ? 64 : 256);
        free_held();
    });
}

TEST_F(ForkSteps, MidBlocks) {
    interrupt(197, [] {
        for (size_t i = 0; i < 12; i++)
            hold(i % 2 == 0 ? 4000 : 30000);
        free_held();
    });
}

TEST_F(ForkSteps, Runs) {
    interrupt(199, [] {
        hold(300 * KiB);
        hold(100 * KiB);
        resize(200 * KiB);
        resize(500 * KiB);
        free_held();
    });
}

TEST_F(ForkSteps, DirectBlocks) {
    for (size_t bytes : {9 * MiB, 80 * MiB})
        interrupt(199, [=] {
            hold(bytes);
            resize(bytes + 7 * MiB);
            resize(bytes - MiB);
            free_held();
        });
}

TEST_F(ForkSteps, BlocksSentToAnotherShard) {
    unit::Worker other;
    for (unsigned size_class : {4U, some_class}) {
        struct hz_shard *theirs = other.block()->shard;
        static void *sent[60];
        Blocks blocks = unit::take(theirs, size_class, 60);
        std::copy(blocks.begin(), blocks.end(), sent);
        interrupt(97, [] { hz_blocks_send(unit::self(), sent, 60); });
    }
}

/* The free that finds the remote buffer full: in an engine that has such, the blocks go to the stack of their shard. */
TEST_F(ForkSteps, AFullRemoteBuffer) {
    constexpr unsigned home_class = 4;
    unit::Worker other;
    for (void *block : unit::take(other.block()->shard, home_class, HZ_REMOTE_COUNT + 1))
        hold_taken(block);
    while (held_count > 1)
        hz_heap_free(held[--held_count]);
    uint64_t before = unit::self()->counters.remote_flush_calls;
    interrupt(11, [] { free_held(); });
    EXPECT_EQ(unit::self()->counters.remote_flush_calls, before + 1);
}

TEST_F(ForkSteps, BlocksSentToThisShard) {
    for (unsigned size_class : {4U, some_class}) {
        Blocks blocks = unit::take(own_, size_class, 60);
        unit::Worker other; /* a thread sends nothing to its own shard */
        other.run([&] { unit::send(own_, blocks); });
        hz_thread_flush(unit::self());
        interrupt(199, [=] {
            for (int i = 0; i < 30; i++)
                hold(hz_class_bytes(size_class));
        });
    }
}

TEST_F(ForkSteps, AThreadComesAndGoes) {
    interrupt(101, [] {
        detach();
        hold(100);
    });
    own_ = unit::self()->shard;
}

TEST_F(ForkSteps, AThreadStarts) {
    std::thread([this] {
        interrupt(61, [] { hz_thread_start(); });
        detach();
    }).join();
}

TEST_F(ForkSteps, FreesOfAThreadThatHasNotAllocated) {
    for (size_t bytes : {size_t{100}, 30 * KiB, 300 * KiB, 9 * MiB}) {
        hold(bytes);
        std::thread([this] { interrupt(41, [] { free_held(); }); }).join();
    }
}

TEST_F(ForkSteps, AZoneComesAndGoes) {
    interrupt(101, use_zone);
}

/* Of a zone that the child goes on with, no block is lost or handed out twice. */
TEST_F(ForkSteps, ZonesAreUsedOn) {
    static struct hz_zone *zone;
    zone = hz_malloc_zone_make();
    size_t failures = steps::fork_at_each(
        stride_of(7),
        [] {
            for (size_t i = 0; i < 10; i++) {
                void *block = hz_zone_pop(zone, hz_zone_class(1, 200));
                held[held_count++] = block != nullptr ? block : hz_malloc_in_zone(zone, 1, 200, false);
                support::fill(held[held_count - 1], 16, reinterpret_cast<uintptr_t>(held[held_count - 1]));
            }
        },
        [] {
            struct hz_zone_figures figures;
            hz_zone_figures_get(zone, &figures);
            require(figures.live_blocks == held_count, "no block is lost", figures.live_blocks);
            for (size_t i = 0; i < 400; i++) {
                void *block = hz_malloc_in_zone(zone, 1, 200, false);
                for (size_t old = 0; old < held_count; old++)
                    require(block != held[old], "a block is handed out once");
            }
            free_held();
            hz_malloc_zone_drop(zone);
            require_empty_heap();
        });
    EXPECT_EQ(failures, 0U);
    free_held();
    hz_malloc_zone_drop(zone);
}

/* The parent of these children is itself a child, in which a thread has vanished whose bins are full. */
TEST_F(ForkSteps, OrphansAreReclaimed) {
    unit::Worker other;
    other.run([] {
        for (size_t i = 0; i < 200; i++)
            hold(i % 3 == 0 ? 64 : 256);
        free_held();
    });
    children::expect_good_end(children::start([this] {
        interrupt(503, [] {
            for (size_t i = 0; i < 20; i++)
                hold(2000);
        });
        return HasFailure() ? 1 : 0;
    }));
}

TEST_F(ForkSteps, AThreadOfTheChildGetsAnOrphansThreadBlock) {
    unit::Worker other;
    other.run([] {
        for (size_t i = 0; i < 200; i++)
            hold(i % 3 == 0 ? 64 : 256);
        free_held();
    });
    children::expect_good_end(children::start([this] {
        interrupt(997, [] {
            detach();
            hold(2000);
        });
        return HasFailure() ? 1 : 0;
    }));
}

TEST_F(ForkSteps, AnotherThreadIsParked) {
    if (!hz_os_barrier_prepare(true))
        GTEST_SKIP() << "the kernel has no membarrier";
    unit::Worker other;
    interrupt(101, [&] {
        if (hz_park(other.block()))
            hz_park_empty(unit::self(), other.block());
        hold(100);
    });
}

TEST_F(ForkSteps, Purge) {
    if (!is_slow())
        GTEST_SKIP() << "HZ_SLOW=1 runs it: a purge has very many instructions";
    unit::Worker other;
    interrupt(10007, [] {
        use_heap();
        hz_heap_purge();
    });
}

/* ---- another thread is caught at each of its instructions ---- */

/* A thread that stops at every `stride`th instruction of an operation until the test lets it go on. */
class Frozen {
  public:
    Frozen(size_t stride, std::function<void()> operation)
        : thread_([this, stride, operation] {
              unit::self();
              steps::walk(stride, operation, [this](size_t, uintptr_t) {
                  state_ = STOPPED;
                  while (state_ == STOPPED)
                      sched_yield();
                  return true;
              });
              detach();
              state_ = ENDED;
          }) {
    }
    ~Frozen() {
        thread_.join();
    }
    /* Calls `body` at each stop. */
    template <typename Body> void at_each(Body body) {
        while (state_ != ENDED) {
            if (state_ == STOPPED) {
                body();
                state_ = RUNS;
            }
            sched_yield();
        }
    }

  private:
    enum State { RUNS, STOPPED, ENDED };
    std::atomic<State> state_{RUNS};
    std::thread thread_;
};

/* What the frozen threads hold. */
void *theirs[100];

void frozen_take(size_t count, size_t bytes) {
    for (size_t i = 0; i < count; i++)
        theirs[i] = hz_heap_malloc(bytes);
}

void frozen_give(size_t count) {
    for (size_t i = 0; i < count; i++) {
        void *block = theirs[i];
        theirs[i] = nullptr;
        hz_heap_free(block);
    }
}

/* In the child of a process with a frozen thread: frees what both threads held. At most what the thread had in its
   hands is lost. */
void require_little_lost(size_t in_hands) {
    free_held();
    for (void *&block : theirs)
        if (block != nullptr) {
            void *freed = block;
            block = nullptr;
            hz_heap_free(freed);
        }
    use_heap();
    hz_heap_purge();
    require(support::live_bytes() <= in_hands, "more is lost than the thread had in its hands", support::live_bytes());
    require(hz_allowance() == unit::allowance_of(1), "one thread shares");
    struct hz_thread_block *self = unit::self();
    struct hz_shard *shard;
    for (unsigned index = 0; (shard = hz_shard_get(index)) != nullptr; index++) {
        require(hz_load_rlx(&shard->exclusive.word) == 0, "no lock is held");
        require(hz_load_rlx(&shard->threads) == (self->shard == shard), "one thread has a shard");
    }
    for (struct hz_registered *each = hz_registry_first(); each != nullptr; each = each->next)
        require(unit::state_of(each) == (each == hz_thread_registered(self) ? HZ_THREAD_USED : HZ_THREAD_FREE),
                "one thread has a thread block");
    for (int i = 0; i < 3; i++)
        use_heap();
    hz_heap_purge();
    require(support::live_bytes() <= in_hands, "no more is lost later", support::live_bytes());
}

struct Caught {
    const char *name;
    size_t stride;
    size_t in_hands; /* most bytes that the thread can have in its hands */
    void (*operation)();
};

/* A batch moves in one step: half a bin, or a batch of the depot. A page or a run is lost as a whole. */
const Caught caught[] = {
    {"small blocks", 601, 2 * HZ_PAGE_BYTES,
     [] {
         frozen_take(40, 64);
         frozen_give(40);
     }},
    {"shared blocks", 601, 2 * HZ_PAGE_BYTES,
     [] {
         frozen_take(40, 256);
         frozen_give(40);
     }},
    {"mid blocks", 401, 40 * 4 * KiB + 2 * HZ_PAGE_BYTES,
     [] {
         frozen_take(12, 4000);
         frozen_give(12);
     }},
    {"runs", 211, 320 * KiB + HZ_PAGE_BYTES,
     [] {
         frozen_take(1, 300 * KiB);
         frozen_give(1);
     }},
    {"direct blocks", 211, 12 * MiB,
     [] {
         frozen_take(1, 9 * MiB);
         frozen_give(1);
     }},
    {"a zone", 401, 4 * HZ_PAGE_BYTES, use_zone},
    {"a thread that comes and goes", 601, 2 * HZ_PAGE_BYTES,
     [] {
         frozen_take(1, 200);
         frozen_give(1);
         detach();
         frozen_take(1, 200);
         frozen_give(1);
     }},
};

TEST_F(ForkSteps, AnotherThreadIsCaughtAnywhere) {
    for (const Caught &each : caught) {
        SCOPED_TRACE(each.name);
        hz_heap_purge(); /* otherwise the thread may be caught while it purges what the case before has left */
        Frozen frozen(stride_of(each.stride), each.operation);
        unit::self();
        frozen.at_each([&] {
            if (HasFailure())
                return;
            hold(500);
            children::expect_good_end(children::start([&] {
                alarm(30);
                require_little_lost(each.in_hands);
                return 0;
            }));
            free_held();
        });
    }
}

/* Both at once: the forking thread is interrupted, and the other one is anywhere. */
TEST_F(ForkSteps, TwoThreadsAreCaughtAnywhere) {
    for (const Caught &each : caught)
        for (size_t bytes : {size_t{64}, size_t{256}, size_t{4000}, size_t{300000}}) {
            SCOPED_TRACE(each.name);
            hz_heap_purge(); /* as above */
            Frozen frozen(stride_of(each.stride) * 401, each.operation);
            unit::self();
            frozen.at_each([&] {
                if (HasFailure())
                    return;
                EXPECT_EQ(steps::fork_at_each(
                              stride_of(997),
                              [=] {
                                  hold(bytes);
                                  free_held();
                                  hz_thread_flush(unit::self());
                              },
                              [&] { require_little_lost(each.in_hands); }),
                          0U);
                free_held();
            });
        }
}

/* Whether the frozen thread holds the lock of a shard, for which a flush of its blocks would wait. */
bool is_a_shard_locked() {
    struct hz_shard *shard;
    for (unsigned index = 0; (shard = hz_shard_get(index)) != nullptr; index++) {
        if (!hz_lock_try_acquire(&shard->exclusive))
            return true;
        hz_lock_release(&shard->exclusive);
    }
    return false;
}

/* Pages change hands under both: each shard was left with pages of the class. */
TEST_F(ForkSteps, TwoThreadsAdoptPages) {
    constexpr size_t bytes = 200;
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 2; i++)
            (void)leave_page(hz_class_of(bytes), 3);
        Frozen frozen(stride_of(1009), [] {
            frozen_take(1, bytes);
            frozen_give(1);
        });
        unit::self();
        frozen.at_each([&] {
            if (HasFailure())
                return;
            EXPECT_EQ(steps::fork_at_each(
                          stride_of(97), [] { hold(bytes); }, [] { require_little_lost(2 * HZ_PAGE_BYTES); }),
                      0U);
            hz_heap_free(held[--held_count]);
            if (!is_a_shard_locked())
                hz_thread_flush(unit::self());
        });
        free_held();
    }
}

} // namespace
