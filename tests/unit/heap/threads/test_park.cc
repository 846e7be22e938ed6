/* Another thread empties the bins of a thread that does not use them, wherever that thread has stopped. */
#include "stress/blocks.h"
#include "stress/children.h"
#include "unit/heap/worker.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <pthread.h>
#include <set>

namespace {

using children::require;
using unit::Blocks;
using unit::Worker;

/* Most blocks that stay in the bin of a parked thread. */
uint32_t kept(unsigned index) {
    return hz_bin_pops_are_seen(index) ? 0 : 1;
}

uint32_t count_of(struct hz_thread_block *thread, unsigned index) {
    return hz_bin_count(&thread->cache, index, &thread->parking.gone[index]);
}

/* Each block is written, so that one which is handed out twice loses its contents. */
void allocate(Blocks &blocks, unsigned size_class, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        blocks.push_back(blocks::make(hz_class_bytes(size_class), blocks.size()));
}

void free_all(Blocks &blocks) {
    for (void *block : blocks)
        require(blocks::drop(block), "a block holds what was written to it");
    blocks.clear();
}

/* Leaves more blocks in every bin of the calling thread than stay while it is parked. */
void fill_bins() {
    Blocks blocks;
    unit::grow_bins(hz_thread_mine);
    unit::forbid_idle_looks(hz_thread_mine);
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        allocate(blocks, size_class, hz_bin_capacity(size_class) / 2);
    free_all(blocks);
}

/* More blocks of each class than any bin has, all at a time. */
void use_every_class() {
    Blocks blocks;
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++)
        allocate(blocks, size_class, hz_bin_capacity(size_class) + 1);
    require(std::set<void *>(blocks.begin(), blocks.end()).size() == blocks.size(), "no block is handed out twice");
    free_all(blocks);
}

/* Parks a thread and empties its bins, as the keeper does. */
bool empty(struct hz_thread_block *thread) {
    struct hz_thread_block *self = hz_thread_enter();
    bool parked = hz_park(thread);
    if (parked)
        hz_park_empty(self, thread);
    hz_thread_leave(self);
    return parked;
}

bool is_parked(struct hz_thread_block *thread) {
    return hz_load_rlx(&thread->parking.parked);
}

/* Parks a thread that is not parked yet, and empties its bins. */
bool empty_anew(struct hz_thread_block *thread) {
    return !is_parked(thread) && empty(thread);
}

std::vector<uint32_t> held(struct hz_thread_block *thread) {
    std::vector<uint32_t> counts;
    for (unsigned index = 0; index < HZ_BINS; index++)
        counts.push_back(index == 0 ? 0 : unit::bin_count(thread, index));
    return counts;
}

/* How often a test repeats what may go wrong: so many times, or as often as a busy machine allows in a second. */
class Effort {
  public:
    explicit Effort(unsigned count) : count_(unit::rounds(count)) {
    }
    bool goes_on(unsigned done) const {
        return done < count_ && (done == 0 || std::chrono::steady_clock::now() < until_);
    }

  private:
    unsigned count_;
    std::chrono::steady_clock::time_point until_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(800);
};

class Park : public testing::Test {
  protected:
    void SetUp() override {
        if (!hz_os_barrier_prepare(true))
            GTEST_SKIP() << "this kernel has no membarrier";
        self_ = unit::self();
        hz_heap_purge();
        unit::forget_sparse();
    }
    void TearDown() override {
        if (self_ == nullptr)
            return;
        hz_heap_purge();
        EXPECT_EQ(support::live_bytes(), 0U) << "a block was lost, or handed out twice";
        EXPECT_EQ(hz_pages_bytes(), 0U) << "a block did not come home";
        EXPECT_EQ(hz_allowance(), unit::allowance_of(1)) << "only this thread shares";
    }
    struct hz_thread_block *self_ = nullptr;
};

/* ---- what goes and what stays ---- */

TEST_F(Park, OneBlockOfEachSmallClassStays) {
    Worker worker;
    struct hz_thread_block *thread = worker.block();
    Blocks foreign; /* for the remote buffer, in lanes whose small blocks go home */
    allocate(foreign, 1, 20);
    worker.run([&] {
        fill_bins();
        free_all(foreign);
    });
    std::vector<uint32_t> before = held(thread);
    uint64_t home = self_->counters.home_blocks;
    ASSERT_TRUE(empty(thread));
    EXPECT_TRUE(is_parked(thread));
    uint32_t taken = 0;
    for (unsigned index = 1; index < HZ_BINS; index++) {
        EXPECT_TRUE(index == HZ_REMOTE_BIN || before[index] > kept(index)) << "bin " << index;
        EXPECT_EQ(count_of(thread, index), std::min(before[index], kept(index))) << "bin " << index;
        taken += before[index] - std::min(before[index], kept(index));
    }
    EXPECT_EQ(self_->counters.home_blocks - home, taken) << "all others are home";
    EXPECT_EQ(support::live_bytes(), 0U) << "statistics do not count what is gone as live";
    EXPECT_TRUE(empty(thread)) << "it is parked already";
    EXPECT_EQ(self_->counters.home_blocks - home, taken) << "no block is taken twice";
}

TEST_F(Park, TheThreadGoesOnAsBefore) {
    Worker worker;
    struct hz_thread_block *thread = worker.block();
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        worker.run(fill_bins);
        ASSERT_TRUE(empty(thread));
        worker.run([&] {
            EXPECT_EQ(hz_self(), &hz_thread_none);
            void *block = blocks::make(hz_class_bytes(size_class), 1);
            EXPECT_EQ(hz_self(), thread) << "it has resumed";
            for (unsigned index = 1; index < HZ_BINS; index++)
                EXPECT_EQ(count_of(thread, index), unit::bin_count(thread, index)) << "no bin has holes";
            if (kept(size_class) > 0) {
                EXPECT_EQ(unit::bin_count(thread, size_class), kept(size_class) - 1);
            }
            EXPECT_TRUE(blocks::drop(block));
        });
        EXPECT_FALSE(is_parked(thread));
        worker.run(use_every_class);
    }
}

TEST_F(Park, AFreeResumesToo) {
    Worker worker;
    void *block = nullptr;
    worker.run([&] {
        fill_bins();
        block = t_malloc(100);
    });
    ASSERT_TRUE(empty(worker.block()));
    worker.run([&] {
        t_free(block);
        EXPECT_EQ(hz_self(), hz_thread_mine);
        EXPECT_EQ(unit::bin_count(hz_thread_mine, hz_class_of(100)), kept(hz_class_of(100)) + 1);
        use_every_class();
    });
}

TEST_F(Park, TakingEndsWhenTheThreadResumes) {
    constexpr unsigned size_class = 3;
    Worker worker;
    struct hz_thread_block *thread = worker.block();
    worker.run(fill_bins);
    uint32_t before = unit::bin_count(thread, size_class);
    ASSERT_TRUE(hz_park(thread));
    Blocks taken(HZ_BIN_COUNT + HZ_PARK_STEP);
    uint32_t count = 0;
    uint32_t step;
    do {
        step = hz_park_take(thread, size_class, taken.data() + count);
        count += step;
    } while (step == HZ_PARK_STEP);
    EXPECT_EQ(count, before - kept(size_class));
    worker.run([] { t_free(t_malloc(1)); });
    uint32_t more = unit::bin_count(thread, size_class + 1);
    ASSERT_GT(more, kept(size_class + 1));
    Blocks none(HZ_PARK_STEP);
    EXPECT_EQ(hz_park_take(thread, size_class + 1, none.data()), 0U);
    EXPECT_EQ(unit::bin_count(thread, size_class + 1), more);
    hz_blocks_send(self_, taken.data(), count);
}

/* A thread that only frees a little what others gave it needs no bins. */
TEST_F(Park, AThreadBeginsParked) {
    constexpr unsigned at_once = 16; /* frees without bins */
    constexpr unsigned size_class = 30;
    Blocks given;
    allocate(given, size_class, at_once + 1);
    Worker worker;
    struct hz_thread_block *thread = worker.block();
    EXPECT_TRUE(is_parked(thread));
    EXPECT_TRUE(empty(thread));
    EXPECT_EQ(hz_allowance(), unit::allowance_of(1)) << "it does not share";
    worker.run([&] {
        for (unsigned i = 0; i < at_once; i++) {
            t_free(given[i]);
            EXPECT_EQ(hz_self(), &hz_thread_none);
        }
        t_free(given[at_once]);
        EXPECT_EQ(hz_self(), thread);
        EXPECT_EQ(unit::bin_count(thread, hz_class_is_home(size_class) ? unsigned{HZ_REMOTE_BIN} : size_class), 1U);
    });
    EXPECT_EQ(hz_allowance(), unit::allowance_of(2));
    EXPECT_EQ(support::live_bytes(), 0U) << "the others are home";
    Worker other;
    other.run([&] {
        t_free(t_malloc(1));
        EXPECT_EQ(hz_self(), other.block()) << "an allocation needs bins at once";
        use_every_class();
    });
}

/* Between the moment from which a new thread can be parked and the one at which it parks itself. */
TEST_F(Park, AnotherThreadMayBeFasterToParkANewOne) {
    Worker worker;
    struct hz_thread_block *thread = worker.block();
    worker.run([] { t_free(t_malloc(1)); });
    ASSERT_TRUE(hz_park(thread));
    worker.run([thread] { hz_park_begin(thread); });
    EXPECT_TRUE(is_parked(thread));
    EXPECT_EQ(hz_allowance(), unit::allowance_of(1)) << "it has ceased to share once";
    worker.run(use_every_class);
    EXPECT_EQ(hz_allowance(), unit::allowance_of(2));
}

/* ---- who is not parked ---- */

TEST_F(Park, AThreadInASlowPathIsNotParked) {
    Worker worker;
    struct hz_thread_block *thread = worker.block();
    worker.run([] {
        hz_thread_enter();
        hz_thread_leave(hz_thread_enter()); /* slow paths may be nested */
    });
    EXPECT_FALSE(hz_park(thread));
    EXPECT_FALSE(is_parked(thread));
    worker.run([thread] {
        EXPECT_EQ(hz_self(), thread) << "it has kept its bins";
        hz_thread_leave(thread);
    });
    EXPECT_TRUE(hz_park(thread));
    EXPECT_TRUE(is_parked(thread));
    worker.run([thread] {
        EXPECT_EQ(hz_self(), &hz_thread_none);
        EXPECT_EQ(hz_thread_enter(), thread);
        hz_thread_leave(thread);
        EXPECT_EQ(hz_self(), thread);
    });
    EXPECT_FALSE(is_parked(thread));
    EXPECT_EQ(hz_load_rlx(&thread->busy), 0U);
}

/* The other one has looked for slow paths, and found none, before this one begins. */
TEST_F(Park, ASlowPathMayBeginAtTheLastMoment) {
    Worker worker;
    Worker other;
    struct hz_thread_block *thread = worker.block();
    struct hz_lock *lock = &hz_thread_registered(thread)->lock;
    worker.run(fill_bins);
    bool parked = true;
    hz_lock_acquire(lock);
    other.begin([&] { parked = hz_park(thread); });
    while (hz_load_rlx(&lock->word) != 2) /* until it sleeps, or is about to */
        std::this_thread::yield();
    worker.run([] { hz_thread_enter(); });
    hz_lock_release(lock);
    other.wait();
    EXPECT_FALSE(parked);
    EXPECT_FALSE(is_parked(thread));
    worker.run([thread] {
        EXPECT_EQ(hz_self(), thread) << "it has its bins again";
        hz_thread_leave(thread);
        use_every_class();
    });
}

/* However close the thread's slow paths and the other's attempts come to each other. */
TEST_F(Park, NoSlowPathRunsWhileItsThreadIsParked) {
    Worker worker;
    struct hz_thread_block *thread = worker.block();
    std::atomic<bool> over{false};
    std::atomic<uint64_t> bad{0};
    worker.begin([&] {
        for (unsigned round = 0; !over; round++) {
            struct hz_thread_block *entered = hz_thread_enter();
            for (unsigned i = 0; i < (round % 2 == 0 ? 1 : 300); i++) /* also longer than it takes to park a thread */
                bad += entered != thread || is_parked(thread);
            hz_thread_leave(entered);
        }
    });
    Effort effort(5000);
    for (unsigned parked = 0; effort.goes_on(parked);) {
        if (is_parked(thread))
            std::this_thread::yield();
        else
            parked += hz_park(thread);
    }
    over = true;
    worker.wait();
    EXPECT_EQ(bad, 0U);
}

TEST_F(Park, AThreadThatAttachedLateIsNotParked) {
    struct hz_thread_block *thread = nullptr;
    std::thread([&] {
        t_free(t_malloc(1)); /* attaches in a slow path: perhaps at the thread's end, for all that the heap knows */
        thread = hz_self();
        Worker().run([&] { EXPECT_FALSE(empty(thread)); });
        EXPECT_EQ(hz_self(), thread);
        hz_thread_start();
        EXPECT_EQ(hz_self(), thread) << "it has a thread block already, and uses it";
        Worker().run([&] { EXPECT_TRUE(empty(thread)); });
    }).join();
    EXPECT_FALSE(empty(thread)) << "the thread has ended";
}

/* ---- the end of a thread ---- */

TEST_F(Park, AThreadEndsWhileItIsParked) {
    auto worker = std::make_unique<Worker>();
    struct hz_thread_block *thread = worker->block();
    worker->run(fill_bins);
    ASSERT_TRUE(empty(thread));
    worker->end();
    EXPECT_EQ(unit::state_of(hz_thread_registered(thread)), HZ_THREAD_FREE);
    EXPECT_EQ(hz_allowance(), unit::allowance_of(1));
    EXPECT_FALSE(is_parked(thread));
    EXPECT_FALSE(empty(thread)) << "its word does not exist any more";
    for (unsigned index = 1; index < HZ_BINS; index++)
        EXPECT_EQ(unit::bin_count(thread, index), 0U);
    worker = std::make_unique<Worker>();
    ASSERT_EQ(worker->block(), thread) << "the next thread gets the thread block";
    worker->run(use_every_class);
    EXPECT_EQ(hz_allowance(), unit::allowance_of(2));
    ASSERT_TRUE(empty(thread));
    worker->run(use_every_class);
}

TEST_F(Park, ThreadsEndWhileAnotherParksThem) {
    constexpr unsigned threads = 3;
    std::atomic<unsigned> working{threads};
    std::atomic<unsigned> parked{0};
    Effort effort(2000);
    unit::together(threads + 1, [&](unsigned index) {
        if (index == threads) {
            struct hz_thread_block *self = unit::self();
            while (working > 0)
                for (struct hz_registered *each = hz_registry_first(); each != nullptr; each = each->next)
                    if (hz_load_rlx(&each->state) == HZ_THREAD_USED && hz_thread_block_from(each) != self)
                        parked += empty_anew(hz_thread_block_from(each));
            return;
        }
        for (support::Random random(index); effort.goes_on(parked);)
            std::thread([&] {
                hz_thread_start();
                Blocks blocks;
                for (unsigned j = 0; j < 40; j++)
                    blocks.push_back(blocks::make(random.between(blocks::least_size, 2000), j));
                free_all(blocks);
            }).join();
        working--;
    });
    EXPECT_GT(parked, 0U);
}

/* ---- at full speed ---- */

/* A thread that works in bursts over blocks of every class, and leaves some blocks to the other threads. */
class Churn {
  public:
    explicit Churn(uint64_t seed) : random_(seed) {
    }
    void burst(std::atomic<void *> (&passed)[16]) {
        for (int i = 0; i < 50; i++) {
            void *&slot = held_[random_.below(64)];
            require(blocks::drop(slot), "a block holds what was written to it");
            slot = blocks::make(random_.between(blocks::least_size, pick_limit()), random_.next());
            if (random_.below(8) == 0)
                slot = passed[random_.below(16)].exchange(slot);
        }
    }
    void end() {
        for (void *&slot : held_)
            require(blocks::drop(slot), "a block holds what was written to it");
    }

  private:
    size_t pick_limit() {
        return random_.below(500) == 0  ? hz_class_bytes(unit::class_count - 1)
               : random_.below(20) == 0 ? hz_class_bytes(unit::largest_short)
               : random_.below(4) == 0  ? 2048
                                        : 200;
    }
    support::Random random_;
    void *held_[64] = {};
};

TEST_F(Park, ThreadsAtFullSpeedLoseNothing) {
    constexpr unsigned threads = 3;
    std::atomic<void *> passed[16] = {};
    std::atomic<bool> over{false};
    std::vector<std::unique_ptr<Worker>> workers;
    for (unsigned index = 0; index < threads; index++)
        workers.push_back(std::make_unique<Worker>());
    for (unsigned index = 0; index < threads; index++)
        workers[index]->begin([&, index] {
            Churn churn(index);
            while (!over)
                churn.burst(passed);
            churn.end();
        });
    uint64_t home = self_->counters.home_blocks;
    Effort effort(10000);
    for (unsigned parked = 0; effort.goes_on(parked); std::this_thread::yield())
        for (auto &worker : workers)
            parked += empty_anew(worker->block());
    over = true;
    for (auto &worker : workers)
        worker->wait();
    for (auto &slot : passed)
        require(blocks::drop(slot), "a block holds what was written to it");
    EXPECT_GT(self_->counters.home_blocks, home) << "blocks were taken out of the bins";
}

/* ---- fork ---- */

TEST_F(Park, AForkFindsAnotherThreadParked) {
    Worker worker;
    struct hz_thread_block *thread = worker.block();
    worker.run(fill_bins);
    ASSERT_TRUE(empty(thread));
    children::expect_good_end(children::start([&] {
        use_every_class();
        while (hz_orphan_reclaim(unit::self())) {
        }
        for (unsigned index = 1; index < HZ_BINS; index++)
            require(unit::bin_count(thread, index) == 0, "what stayed in the vanished thread's bins is home");
        use_every_class();
        hz_purge();
        require(support::live_bytes() == 0, "nothing is lost");
        require(hz_pages_bytes() == 0, "everything is home");
        return 0;
    }));
    worker.run(use_every_class);
}

TEST_F(Park, AParkedThreadForks) {
    Worker worker;
    worker.run(fill_bins);
    ASSERT_TRUE(empty(worker.block()));
    worker.run([&] {
        children::expect_good_end(children::start([] {
            require(hz_self() == &hz_thread_none, "the fork's child is parked");
            use_every_class();
            require(hz_self() == hz_thread_mine, "it has resumed");
            hz_purge();
            require(support::live_bytes() == 0, "nothing is lost");
            require(hz_pages_bytes() == 0, "everything is home");
            return 0;
        }));
        use_every_class();
    });
}

/* As if the fork came while another thread was emptying the bins of the forking one, and had only half parked it. */
TEST_F(Park, AForkInterruptsTheParkingOfItsOwnThread) {
    constexpr unsigned small = 3;
    constexpr unsigned none = 0;
    for (unsigned size_class : {none, small, unsigned{HZ_MID_CLASS_FIRST}}) {
        bool parked = size_class != none;
        Worker worker;
        struct hz_thread_block *thread = worker.block();
        worker.run(fill_bins);
        ASSERT_TRUE(!parked || hz_park(thread));
        hz_lock_acquire(&hz_thread_registered(thread)->lock);
        hz_store_rlx(hz_load_rlx(&thread->parking.self_word), &hz_thread_none);
        Blocks taken(HZ_BIN_COUNT);
        uint32_t count = 0;
        if (parked)
            count = hz_bin_take_old(&thread->cache, size_class, &thread->parking.gone[size_class], taken.data(),
                                    HZ_BIN_COUNT);
        worker.run([&] {
            children::expect_good_end(children::start([] {
                use_every_class();
                require(hz_self() == hz_thread_mine, "it has resumed");
                size_t alone = hz_allowance();
                hz_pressure_join();
                require(hz_allowance() < alone, "this thread counts as one that shares");
                return 0;
            }));
        });
        thread->parking.has_holes |= count > 0;
        if (!parked)
            hz_store_rlx(hz_load_rlx(&thread->parking.self_word), thread);
        hz_lock_release(&hz_thread_registered(thread)->lock);
        hz_blocks_send(self_, taken.data(), count);
        worker.run(use_every_class);
    }
}

/* ---- a signal handler in the middle of an operation ---- */

std::atomic<uint32_t> handler_sleeps{0};
std::atomic<uint32_t> handler_may_go{0};

/* Sleeps until the test lets it go. Calls no malloc. */
void sleep_in_handler(int) {
    handler_sleeps = 1;
    hz_os_wake(&handler_sleeps, 1);
    while (handler_may_go == 0)
        hz_os_wait(&handler_may_go, 0);
    handler_may_go = 0;
}

/* A thread allocates and frees blocks of `bytes`, and is parked and emptied again and again while a handler has
   interrupted it. */
class InterruptedPark : public Park, public testing::WithParamInterface<size_t> {};

INSTANTIATE_TEST_SUITE_P(Sizes, InterruptedPark, testing::Values(40, 3000));

/* The steps of a pop (hz_bin_pop), with the keeper between two of them. */
TEST_F(Park, APopUnderWayBringsBackNoBlockThatIsHome) {
    constexpr unsigned size_class = 3;
    for (bool is_emptied_again : {false, true}) {
        Worker worker;
        struct hz_thread_block *thread = worker.block();
        worker.run(fill_bins);
        struct hz_bin *bin = &thread->cache.bins[size_class];
        void *popped = hz_slot_load_rlx(&bin->newest);
        void *second = hz_slot_load_rlx(hz_slot_at(&thread->cache, hz_load_rlx(&bin->top)) - 1);
        ASSERT_TRUE(empty(thread));
        hz_owner_add_rel(&bin->top, -static_cast<int>(sizeof(void *)));
        hz_slot_store_rlx(&bin->newest, second);
        EXPECT_EQ(count_of(thread, size_class), 0U) << "statistics do not count what is home";
        if (is_emptied_again) {
            ASSERT_TRUE(empty(thread));
        }
        popped = hz_malloc_unseal(popped);
        memset(popped, 0x5A, hz_class_bytes(size_class));
        worker.run(use_every_class);
        EXPECT_EQ(static_cast<unsigned char *>(popped)[hz_class_bytes(size_class) - 1], 0x5A);
        hz_heap_free(popped);
    }
}

/* The steps of a push (hz_bin_push), with the keeper after the first, or after the second one. */
TEST_F(Park, APushUnderWayLosesNoBlock) {
    for (unsigned size_class : {3U, unsigned{HZ_MID_CLASS_FIRST}})
        for (unsigned done : {1U, 2U}) {
            Worker worker;
            struct hz_thread_block *thread = worker.block();
            void *pushed = nullptr;
            worker.run([&] {
                pushed = hz_heap_malloc(hz_class_bytes(size_class));
                fill_bins();
                if (HZ_BLOCKS_SEALED)
                    hz_free_seal(pushed);
            });
            struct hz_bin *bin = &thread->cache.bins[size_class];
            hz_slot_store_rlx(hz_slot_at(&thread->cache, hz_load_rlx(&bin->top)), hz_slot_load_rlx(&bin->newest));
            if (done == 2)
                hz_slot_store_rel(&bin->newest, pushed);
            ASSERT_TRUE(empty(thread));
            if (done == 1)
                hz_slot_store_rel(&bin->newest, pushed);
            hz_owner_add_rel(&bin->top, static_cast<int>(sizeof(void *)));
            ASSERT_TRUE(empty(thread));
            worker.run(use_every_class);
        }
}

TEST_P(InterruptedPark, AnOperationThatASignalInterruptsFindsWhatItNeeds) {
    if (support::tsan)
        GTEST_SKIP() << "ThreadSanitizer puts signals off until the thread is in no operation";
    size_t bytes = GetParam();
    struct sigaction action = {};
    struct sigaction before = {};
    action.sa_handler = sleep_in_handler;
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    Worker worker;
    struct hz_thread_block *thread = worker.block();
    std::atomic<bool> over{false};
    pthread_t handle = {};
    worker.run([&] { handle = pthread_self(); });
    worker.begin([&] {
        uint64_t *held[64] = {}; /* each names itself, and little time goes to anything but malloc and free */
        unit::grow_bins(thread);
        for (uint64_t number = 1; !over; number++) {
            uint64_t *&slot = held[support::mix(number) % 64];
            if (slot == nullptr) {
                slot = static_cast<uint64_t *>(t_malloc(bytes));
                *slot = reinterpret_cast<uintptr_t>(&slot);
            } else {
                require(*slot == reinterpret_cast<uintptr_t>(&slot), "no block is handed out twice");
                t_free(slot);
                slot = nullptr;
            }
        }
        for (uint64_t *block : held)
            t_free(block);
    });
    unsigned parked = 0;
    uint64_t home = self_->counters.home_blocks;
    Effort effort(20000);
    for (unsigned i = 0; effort.goes_on(i); i++) {
        EXPECT_EQ(pthread_kill(handle, SIGUSR1), 0);
        while (handler_sleeps == 0)
            hz_os_wait(&handler_sleeps, 0);
        handler_sleeps = 0;
        bool anew = empty_anew(thread);
        parked += anew;
        handler_may_go = 1;
        hz_os_wake(&handler_may_go, 1);
        if (anew) /* again, at any time after the operation: its block may be there now, and the thread may resume */
            empty(thread);
        while (handler_may_go == 1)
            std::this_thread::yield();
    }
    over = true;
    worker.wait();
    EXPECT_GT(parked, 0U);
    EXPECT_GT(self_->counters.home_blocks, home);
    worker.run(use_every_class);
    worker.end();
    EXPECT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

} // namespace
