/*
 * fork in a process whose threads are allocating, some while they hold stdio's locks. The child allocates, frees the
 * parent's blocks, starts threads, and forks again. CTest's timeout finds hangs. HZ_SLOW=1 forks 10,000 times in each
 * of the ways that the tests with `times` try; run such a test by itself, it takes minutes.
 */
#include "blocks.h"
#include "children.h"
#include "threads.h"

#include <atomic>
#include <cstdio>
#include <gtest/gtest.h>
#include <memory>
#include <spawn.h>
#include <thread>
#include <vector>

namespace {

using namespace support;

constexpr size_t load_threads = 2;
constexpr int fork_count = sanitized ? 20 : 100;

size_t times(size_t count) {
    const char *slow = getenv("HZ_SLOW");
    return slow != nullptr && strcmp(slow, "1") == 0 ? 10000 : count;
}

/* Exit codes of children. */
enum Failure {
    no_failure = 0,
    no_memory = 10,
    damaged_block,
    no_thread,
    thread_failed,
    stream_failed,
    too_much_memory,
};

struct Load {
    std::atomic<bool> stop{false};
    std::atomic<size_t> ready{0};
    std::atomic<size_t> failures{0};
    threads::Queue<256> exchange;
    pthread_t started[load_threads];
};

void *allocate_and_exchange(void *argument) {
    auto *load = static_cast<Load *>(argument);
    Random random(load->ready.fetch_add(1));
    while (!load->stop.load(std::memory_order_relaxed)) {
        void *block = blocks::make(blocks::pick_size(random), random.next());
        if (block == nullptr || !load->exchange.try_push(block))
            load->failures.fetch_add(blocks::drop(block) ? 0 : 1);
        if (random.below(3) != 0)
            load->failures.fetch_add(blocks::drop(load->exchange.try_pop()) ? 0 : 1);
        sched_yield(); /* otherwise the forking thread and its children wait for whole time slices on few CPUs */
    }
    return nullptr;
}

/* Runs threads for the lifetime of the object. */
class UnderLoad {
  public:
    explicit UnderLoad(void *(*body)(void *)) : load_(std::make_unique<Load>()) {
        for (pthread_t &thread : load_->started)
            EXPECT_EQ(threads::start(&thread, body, load_.get()), 0);
        while (load_->ready.load() < load_threads)
            sched_yield();
    }
    ~UnderLoad() {
        load_->stop.store(true);
        for (pthread_t thread : load_->started)
            pthread_join(thread, nullptr);
        while (void *block = load_->exchange.try_pop())
            load_->failures.fetch_add(blocks::drop(block) ? 0 : 1);
        EXPECT_EQ(load_->failures.load(), 0U);
    }
    UnderLoad(const UnderLoad &) = delete;
    UnderLoad &operator=(const UnderLoad &) = delete;

  private:
    std::unique_ptr<Load> load_;
};

/* Allocates and frees all kinds of blocks, keeping 100 alive at a time. */
int use_heap(uint64_t seed, int steps = 600) {
    Random random(seed);
    void *slots[100] = {};
    for (int i = 0; i < steps; i++) {
        void *&slot = slots[random.below(100)];
        if (!blocks::drop(slot))
            return damaged_block;
        slot = blocks::make(blocks::pick_size(random), random.next());
        if (slot == nullptr)
            return no_memory;
    }
    for (void *slot : slots)
        if (!blocks::drop(slot))
            return damaged_block;
    return no_failure;
}

/* Blocks allocated by the parent, half of them by a thread that has ended, for the child to verify and free. */
class Inheritance {
  public:
    Inheritance() {
        pthread_t thread;
        EXPECT_EQ(threads::start(&thread, make_all, this), 0);
        pthread_join(thread, nullptr);
        make_half(0);
    }
    ~Inheritance() {
        EXPECT_EQ(free_all(), no_failure);
    }
    Inheritance(const Inheritance &) = delete;
    Inheritance &operator=(const Inheritance &) = delete;

    int free_all() {
        for (void *&block : blocks_) {
            if (!blocks::drop(block))
                return damaged_block;
            block = nullptr;
        }
        return no_failure;
    }

  private:
    static constexpr size_t count = 400;

    static void *make_all(void *self) {
        static_cast<Inheritance *>(self)->make_half(1);
        return nullptr;
    }
    void make_half(size_t first) {
        Random random(first);
        for (size_t i = first; i < count; i += 2) {
            blocks_[i] = blocks::make(blocks::pick_size(random), random.next());
            if (blocks_[i] == nullptr)
                abort();
        }
    }

    void *blocks_[count] = {};
};

TEST(Fork, ChildAllocatesAndFreesTheParentsBlocks) {
    Inheritance inherited;
    UnderLoad load(allocate_and_exchange);
    for (size_t i = 0; i < times(fork_count); i++) {
        pid_t child = children::start([&] {
            int code = use_heap(i, 100);
            return code != no_failure ? code : inherited.free_all();
        });
        ASSERT_NO_FATAL_FAILURE(children::expect_good_end(child));
        ASSERT_EQ(use_heap(77, 50), no_failure) << "the parent's heap after fork " << i;
    }
}

/* The forking thread has never allocated, so only the other thread can have hooked fork. */
TEST(Fork, DuringTheFirstAllocationOfTheProcess) {
    for (size_t i = 0; i < times(fork_count); i++) {
        /* a program linked with the library may have made no block yet; a preloaded library has, before main */
        pid_t program = children::start([&] {
            std::atomic<bool> begins{false};
            std::atomic<bool> has_forked{false};
            std::thread other([&] {
                begins = true;
                t_free(t_malloc(i));
                while (!has_forked) /* ThreadSanitizer ignores what the child does only if a thread has vanished */
                    sched_yield();
            });
            while (!begins) {
            }
            for (size_t spins = 0; spins < i * 20; spins++)
                asm volatile("");
            pid_t child = children::start([&] { return use_heap(i, 10); });
            has_forked = true;
            other.join();
            return children::code_of(child);
        });
        ASSERT_NO_FATAL_FAILURE(children::expect_good_end(program));
    }
}

TEST(Fork, ChildForksAgain) {
    Inheritance inherited;
    UnderLoad load(allocate_and_exchange);
    for (int i = 0; i < fork_count / 4; i++) {
        pid_t child = children::start([&] {
            int before = use_heap(1, 100);
            int grandchild = children::code_of(children::start([&] {
                int third = children::code_of(children::start([&] { return inherited.free_all(); }));
                return third != no_failure ? third : use_heap(2, 100);
            }));
            int after = inherited.free_all();
            return before != no_failure ? before : (grandchild != no_failure ? grandchild : after);
        });
        ASSERT_NO_FATAL_FAILURE(children::expect_good_end(child));
    }
}

void *use_heap_in_thread(void *failed) {
    int code = use_heap(reinterpret_cast<uintptr_t>(&code), 300);
    if (code != no_failure)
        static_cast<std::atomic<int> *>(failed)->store(code);
    return nullptr;
}

int start_threads() {
    std::atomic<int> failed{no_failure};
    pthread_t started[6];
    for (pthread_t &thread : started)
        if (threads::start(&thread, use_heap_in_thread, &failed) != 0)
            return no_thread;
    for (pthread_t thread : started)
        pthread_join(thread, nullptr);
    return failed.load();
}

TEST(Fork, ChildStartsThreads) {
    if (tsan)
        GTEST_SKIP() << "ThreadSanitizer does not support threads in the child of a threaded process";
    Inheritance inherited;
    UnderLoad load(allocate_and_exchange);
    for (int i = 0; i < fork_count; i++) {
        pid_t child = children::start([&] {
            int code = start_threads();
            return code != no_failure ? code : inherited.free_all();
        });
        ASSERT_NO_FATAL_FAILURE(children::expect_good_end(child));
    }
}

/* A child must be able to reuse the memory that its parent's threads had cached: 40 generations, each of which leaves
   16 MB of free blocks behind. */
constexpr int generations = 40;

int live_through(int generation) {
    if (start_threads() != no_failure)
        return thread_failed;
    void *held[256];
    for (void *&block : held)
        if ((block = blocks::make(64 * KiB, 1)) == nullptr)
            return no_memory;
    for (void *block : held) {
        memset(static_cast<char *>(block) + 8, 1, 64 * KiB - 8);
        t_free(block);
    }
    if (generation == generations)
        return resident_bytes() < 150 * MiB ? no_failure : too_much_memory;
    return children::code_of(children::start([=] { return live_through(generation + 1); }));
}

TEST(Fork, GenerationsDoNotPileUpMemory) {
    if (sanitized)
        GTEST_SKIP() << "sanitizers count their shadow as resident";
    children::expect_good_end(children::start([] { return live_through(1); }));
}

void *fork_often(void *argument) {
    auto *failed = static_cast<std::atomic<int> *>(argument);
    for (int i = 0; i < fork_count / 5; i++) {
        int code = children::code_of(children::start([] { return use_heap(3, 60); }));
        if (code != no_failure)
            failed->store(code);
        if (use_heap(4, 60) != no_failure)
            failed->store(damaged_block);
    }
    return nullptr;
}

TEST(Fork, SeveralThreadsForkAtOnce) {
    std::atomic<int> failed{no_failure};
    pthread_t started[4];
    for (pthread_t &thread : started)
        ASSERT_EQ(threads::start(&thread, fork_often, &failed), 0);
    for (pthread_t thread : started)
        pthread_join(thread, nullptr);
    EXPECT_EQ(failed.load(), no_failure);
}

/*
 * stdio's locks: fork takes them, and a stream's own functions run under them and allocate. An allocator that
 * holds its locks across fork deadlocks here (glibc's tst-malloc-fork-deadlock tests the same).
 */
ssize_t write_and_allocate(void *cookie, const char *, size_t length) {
    auto *counter = static_cast<std::atomic<size_t> *>(cookie);
    bool good = true;
    /* Enough blocks to get past a thread's cache and reach the code that takes an allocator's locks. */
    void *held[40];
    for (void *&block : held)
        block = blocks::make(100 + counter->fetch_add(1) * 977 % 70000, 1);
    for (void *block : held)
        good = block != nullptr && blocks::drop(block) && good;
    void *span = blocks::make(300 * KiB, 2);
    return span != nullptr && blocks::drop(span) && good ? static_cast<ssize_t>(length) : -1;
}

bool print_under_lock(std::atomic<size_t> *counter) {
    cookie_io_functions_t functions = {};
    functions.write = write_and_allocate;
    FILE *stream = fopencookie(counter, "w", functions);
    if (stream == nullptr)
        return false;
    bool good = fprintf(stream, "%d lines\n", 3) > 0 && fflush(nullptr) == 0;
    flockfile(stream);
    void *block = blocks::make(200, 2);
    good = blocks::drop(block) && good;
    funlockfile(stream);
    return fclose(stream) == 0 && good;
}

void *print_and_allocate(void *argument) {
    auto *load = static_cast<Load *>(argument);
    load->ready.fetch_add(1);
    std::atomic<size_t> counter{0};
    while (!load->stop.load(std::memory_order_relaxed)) {
        if (!print_under_lock(&counter))
            load->failures.fetch_add(1);
        char *text = nullptr;
        size_t length = 0;
        FILE *memory = open_memstream(&text, &length);
        if (memory == nullptr || fprintf(memory, "%0100d", 7) != 100 || fclose(memory) != 0)
            load->failures.fetch_add(1);
        free(text);
        sched_yield(); /* as in allocate_and_exchange */
    }
    return nullptr;
}

TEST(Fork, WhileOthersHoldStdioLocksAndAllocate) {
    if (sanitized)
        GTEST_SKIP() << "sanitizers' own malloc holds its locks across fork";
    UnderLoad load(print_and_allocate);
    for (int i = 0; i < 2 * fork_count; i++) {
        pid_t child = children::start([&] {
            std::atomic<size_t> counter{0};
            if (!print_under_lock(&counter))
                return static_cast<int>(stream_failed);
            return use_heap(5, 50);
        });
        ASSERT_NO_FATAL_FAILURE(children::expect_good_end(child));
    }
}

/* A signal handler interrupts malloc or free and forks. All that the child may do is _exit; the parent continues. */
std::atomic<size_t> forks_in_handler{0};
std::atomic<size_t> failures_in_handler{0};

void fork_in_handler(int) {
    int saved = errno;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (children::code_of(child) != 0)
        failures_in_handler.fetch_add(1);
    forks_in_handler.fetch_add(1);
    errno = saved;
}

struct Sender {
    pthread_t target;
    size_t wanted;
};

/* Sends the next signal when the previous one has been handled. */
void *send_signals(void *argument) {
    auto *sender = static_cast<Sender *>(argument);
    for (size_t sent = 0; sent < sender->wanted; sent++) {
        pthread_kill(sender->target, SIGUSR1);
        while (forks_in_handler.load() <= sent)
            sched_yield();
    }
    return nullptr;
}

TEST(Fork, FromASignalHandler) {
    T_ONLY_OURS(); /* glibc's fork takes malloc's locks and hangs when the handler interrupted malloc */
    if (sanitized)
        GTEST_SKIP() << "sanitizers' fork is not safe in handlers";
    struct sigaction action = {}, before = {};
    action.sa_handler = fork_in_handler;
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    constexpr size_t wanted = 300;
    Sender sender = {pthread_self(), wanted};
    pthread_t thread;
    ASSERT_EQ(threads::start(&thread, send_signals, &sender), 0);
    while (forks_in_handler.load() < wanted)
        ASSERT_EQ(use_heap(6, 100), no_failure);
    pthread_join(thread, nullptr);
    sigaction(SIGUSR1, &before, nullptr);
    EXPECT_EQ(failures_in_handler.load(), 0U);
}

TEST(Fork, PosixSpawnUnderLoad) {
    UnderLoad load(allocate_and_exchange);
    char program[] = "/bin/true";
    char *arguments[] = {program, nullptr};
    for (size_t i = 0; i < times(fork_count / 3); i++) {
        pid_t child = 0;
        ASSERT_EQ(posix_spawn(&child, program, nullptr, nullptr, arguments, environ), 0);
        ASSERT_NO_FATAL_FAILURE(children::expect_good_end(child));
    }
}

TEST(Fork, VforkUnderLoad) {
    UnderLoad load(allocate_and_exchange);
    for (size_t i = 0; i < times(fork_count); i++) {
        pid_t child = vfork(); /* NOLINT: the child shares the parent's memory until it ends or executes a program */
        if (child == 0)
            _exit(0);
        ASSERT_NO_FATAL_FAILURE(children::expect_good_end(child));
        ASSERT_EQ(use_heap(i, 30), no_failure);
    }
}

/* The child returns from the handler, finishes the operation that the parent was interrupted in, and goes on. */
volatile sig_atomic_t is_child_of_handler = 0;

void fork_in_handler_and_return(int) {
    int saved = errno;
    pid_t child = fork();
    if (child == 0) {
        is_child_of_handler = 1;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    } else {
        if (children::code_of(child) != 0)
            failures_in_handler.fetch_add(1);
        forks_in_handler.fetch_add(1);
    }
    errno = saved;
}

int go_on_as_child_of_handler() {
    int code = use_heap(7, 300);
    pid_t grandchild = fork();
    if (grandchild == 0)
        _exit(use_heap(8, 100));
    return code != no_failure ? code : children::code_of(grandchild);
}

TEST(Fork, ChildReturnsFromTheSignalHandler) {
    T_ONLY_OURS(); /* as in FromASignalHandler */
    if (sanitized)
        GTEST_SKIP() << "sanitizers' fork is not safe in handlers";
    UnderLoad load(allocate_and_exchange);
    struct sigaction action = {}, before = {};
    action.sa_handler = fork_in_handler_and_return;
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    forks_in_handler = 0;
    failures_in_handler = 0;
    Sender sender = {pthread_self(), times(100)};
    pthread_t thread;
    ASSERT_EQ(threads::start(&thread, send_signals, &sender), 0);
    while (forks_in_handler.load() < sender.wanted) {
        int code = use_heap(6, 100);
        if (is_child_of_handler)
            _exit(code != no_failure ? code : go_on_as_child_of_handler());
        ASSERT_EQ(code, no_failure);
    }
    pthread_join(thread, nullptr);
    sigaction(SIGUSR1, &before, nullptr);
    EXPECT_EQ(failures_in_handler.load(), 0U);
}

/* ---- the memory of vanished threads ---- */

constexpr size_t crowd = 100;
constexpr size_t crowd_blocks = 400;

struct Crowd {
    pthread_barrier_t barrier;
    void *blocks[crowd][crowd_blocks];
};

size_t crowd_size(Random &random) {
    return random.below(20) == 0 ? random.between(2 * KiB, 30 * KiB) : random.between(blocks::least_size, KiB);
}

bool crowd_fill(void **held, uint64_t seed) {
    Random random(seed);
    for (size_t i = 0; i < crowd_blocks; i++)
        if ((held[i] = blocks::make(crowd_size(random), i)) == nullptr)
            return false;
    return true;
}

bool crowd_drop(void **held, size_t first, size_t step) {
    bool good = true;
    for (size_t i = first; i < crowd_blocks; i += step)
        good = blocks::drop(held[i]) && good;
    return good;
}

struct Member {
    Crowd *all;
    size_t index;
};

/* Allocates its blocks, frees half of them and half of its neighbour's, and then keeps what it has cached to the end.
 */
void *crowd_member(void *argument) {
    auto *member = static_cast<Member *>(argument);
    Crowd *all = member->all;
    bool good = crowd_fill(all->blocks[member->index], member->index);
    pthread_barrier_wait(&all->barrier); /* all are live: the test reads the peak */
    pthread_barrier_wait(&all->barrier);
    good = good && crowd_drop(all->blocks[member->index], 0, 2);
    good = good && crowd_drop(all->blocks[(member->index + 1) % crowd], 1, 2);
    pthread_barrier_wait(&all->barrier); /* all are free: the test forks */
    pthread_barrier_wait(&all->barrier);
    return good ? nullptr : argument;
}

struct hz_stats stats_now() {
    struct hz_stats stats = {};
    if (t_stats_get(&stats) != 0)
        abort();
    return stats;
}

/* The keeper may have a bin's blocks in its hands, which count as live: when the parent looks, or at the fork, after
   which they are lost (docs/memory.md). */
bool is_live_apart_from_hands(size_t live, size_t expected) {
    return live <= expected + MiB && expected <= live + MiB;
}

/* Run by the child: allocates again all that the vanished threads had, and then frees it. */
int reuse_what_the_crowd_left(size_t live_before, size_t peak) {
    static void *held[crowd][crowd_blocks];
    struct hz_stats at_first = stats_now();
    children::require(is_live_apart_from_hands(at_first.live_bytes, live_before),
                      "what the vanished threads held is not live", at_first.live_bytes);
    for (size_t member = 0; member < crowd; member++)
        children::require(crowd_fill(held[member], member), "the child can allocate");
    struct hz_stats filled = stats_now();
    children::require(filled.resident_bytes <= peak + peak / 16, "the child reuses what the vanished threads held",
                      filled.resident_bytes);
    children::require(filled.cached_bytes <= at_first.cached_bytes / 8 + MiB, "little of it rests now",
                      filled.cached_bytes);
    for (auto &blocks : held)
        children::require(crowd_drop(blocks, 0, 1), "contents are intact");
    (void)t_table.purge_fn();
    struct hz_stats at_last = stats_now();
    children::require(is_live_apart_from_hands(at_last.live_bytes, live_before), "nothing is lost", at_last.live_bytes);
    children::require(at_last.cached_bytes == 0, "nothing rests after a purge", at_last.cached_bytes);
    children::require(at_last.resident_bytes <= live_before + 4 * MiB, "the memory is given back",
                      at_last.resident_bytes);
    return no_failure;
}

TEST(Fork, MemoryOfAHundredVanishedThreadsIsFoundAgain) {
    T_ONLY_OURS();
    auto all = std::make_unique<Crowd>();
    pthread_barrier_init(&all->barrier, nullptr, crowd + 1);
    std::vector<Member> members(crowd);
    std::vector<pthread_t> started(crowd);
    for (size_t i = 0; i < crowd; i++) {
        members[i] = {all.get(), i};
        ASSERT_EQ(threads::start(&started[i], crowd_member, &members[i]), 0);
    }
    pthread_barrier_wait(&all->barrier);
    size_t peak = stats_now().resident_bytes;
    pthread_barrier_wait(&all->barrier);
    pthread_barrier_wait(&all->barrier);
    struct hz_stats resting = stats_now();
    EXPECT_GT(resting.cached_bytes, peak / 16) << "the threads hold enough to show whether it is found";
    size_t live_before = resting.live_bytes;
    children::expect_good_end(children::start([=] { return reuse_what_the_crowd_left(live_before, peak); }));
    pthread_barrier_wait(&all->barrier);
    for (pthread_t thread : started) {
        void *failed = nullptr;
        pthread_join(thread, &failed);
        EXPECT_EQ(failed, nullptr);
    }
    pthread_barrier_destroy(&all->barrier);
}

} // namespace
