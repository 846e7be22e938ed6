/*
 * Out of memory: every function returns NULL with ENOMEM, nothing is lost or damaged, and everything works again once
 * blocks are freed or the limit is lifted. The roles (children.h) run under RLIMIT_AS from their first instruction.
 * They link their blocks through the blocks themselves, and report only at the end, because reporting allocates.
 */
#include "blocks.h"
#include "children.h"
#include "threads.h"

#include <atomic>
#include <gtest/gtest.h>
#include <semaphore.h>
#include <sys/mman.h>

namespace {

using namespace support;
using children::require;

constexpr size_t limit_bytes = 128 * MiB;

/* Blocks linked through their first words; the rest of each block holds a pattern of its own. */
class Hoard {
  public:
    explicit Hoard(size_t size) : size_(size) {
    }

    /* Allocates until memory runs out; returns the number of blocks. */
    size_t fill_up() {
        while (true) {
            errno = 0;
            void *block = t_malloc(size_);
            if (block == nullptr) {
                require(errno == ENOMEM, "malloc fails with ENOMEM");
                return count_;
            }
            require(count_ * size_ <= limit_bytes, "the limit is in force");
            memcpy(block, &first_, sizeof first_);
            first_ = block;
            fill(static_cast<char *>(block) + sizeof first_, contents(), ++count_);
        }
    }

    /* Verifies and frees all blocks; false when one was damaged or lost. */
    bool empty() {
        while (first_ != nullptr && drop_first()) {
        }
        return count_ == 0 && first_ == nullptr;
    }

    void *first() {
        return first_;
    }

  private:
    size_t contents() const {
        return size_ - sizeof first_;
    }

    bool drop_first() {
        void *block = first_;
        if (!holds(static_cast<char *>(block) + sizeof first_, contents(), count_))
            return false;
        memcpy(&first_, block, sizeof first_);
        count_--;
        t_free(block);
        return true;
    }

    size_t size_;
    size_t count_ = 0;
    void *first_ = nullptr;
};

constexpr size_t hoard_sizes[] = {64, 1000, 5 * KiB, 40 * KiB, 300 * KiB, 3 * MiB};

/* Bytes that the limit still allows. */
size_t room() {
    size_t used = proc_bytes("/proc/self/status", "VmSize:");
    return used < limit_bytes ? limit_bytes - used : 0;
}

int exhaust_every_size() {
    size_t available = room();
    for (size_t size : hoard_sizes) {
        Hoard hoard(size);
        size_t first = hoard.fill_up();
        require(first * size >= available / 2, "half of the address space can be used", size);
        require(hoard.empty(), "contents survive running out of memory");
        size_t second = hoard.fill_up();
        require(second >= first - first / 16, "freed memory can be allocated again", size);
        require(hoard.empty(), "contents survive the second time");
        void *block = t_malloc(100);
        require(block != nullptr, "malloc works again");
        t_free(block);
    }
    return 0;
}

int fail_in_every_function() {
    Hoard large(MiB), small(64);
    require(large.fill_up() > 0, "at first a megabyte can be allocated");
    (void)small.fill_up();
    void *block = large.first();
    constexpr size_t wanted = 8 * MiB;
    errno = 0;
    require(t_realloc(block, wanted) == nullptr && errno == ENOMEM, "realloc: NULL, ENOMEM");
    errno = 0;
    require(t_calloc(1, wanted) == nullptr && errno == ENOMEM, "calloc: NULL, ENOMEM");
    errno = 0;
    require(t_aligned_alloc(64, wanted) == nullptr && errno == ENOMEM, "aligned_alloc: NULL, ENOMEM");
    errno = 0;
    require(t_memalign(MiB, wanted) == nullptr && errno == ENOMEM, "memalign: NULL, ENOMEM");
    errno = 0;
    require(t_valloc(wanted) == nullptr && errno == ENOMEM, "valloc: NULL, ENOMEM");
    errno = 0;
    require(t_pvalloc(wanted) == nullptr && errno == ENOMEM, "pvalloc: NULL, ENOMEM");
    errno = 0;
    require(t_reallocarray(nullptr, 8, MiB) == nullptr && errno == ENOMEM, "reallocarray: NULL, ENOMEM");
    void *out = &large;
    require(t_posix_memalign(&out, 64, wanted) == ENOMEM && out == &large, "posix_memalign: ENOMEM, out unchanged");
    errno = EILSEQ;
    require(small.empty() && errno == EILSEQ, "free keeps errno when memory has run out");
    require(large.empty(), "contents survive");
    return 0;
}

int lift_the_limit() {
    Hoard hoard(300 * KiB);
    (void)hoard.fill_up();
    struct rlimit bounds;
    require(getrlimit(RLIMIT_AS, &bounds) == 0, "getrlimit");
    bounds.rlim_cur = bounds.rlim_max;
    require(setrlimit(RLIMIT_AS, &bounds) == 0, "setrlimit");
    for (size_t size : hoard_sizes) {
        void *block = t_malloc(size);
        require(block != nullptr, "malloc works after the limit is lifted", size);
        fill(block, size, 1);
        t_free(block);
    }
    void *block = t_malloc(300 * MiB);
    require(block != nullptr, "more than the old limit can be allocated");
    t_free(block);
    require(hoard.empty(), "contents survive");
    return 0;
}

struct Handover {
    Hoard *hoard;
    bool good;
    sem_t full;
};

void *empty_hoard_when_full(void *argument) {
    auto *handover = static_cast<Handover *>(argument);
    sem_wait(&handover->full);
    handover->good = handover->hoard->empty();
    return nullptr;
}

/* A thread that has never allocated, and no longer can, frees all blocks. It starts before memory runs out, because
   its stack needs memory. */
int free_by_another_thread() {
    for (size_t size : hoard_sizes) {
        Hoard hoard(size);
        Handover handover = {&hoard, false, {}};
        sem_init(&handover.full, 0, 0);
        pthread_t thread;
        require(threads::start(&thread, empty_hoard_when_full, &handover) == 0, "a thread starts");
        size_t first = hoard.fill_up();
        require(first > 0, "something can be allocated", size);
        sem_post(&handover.full);
        pthread_join(thread, nullptr);
        require(handover.good, "another thread verifies and frees everything");
        size_t second = hoard.fill_up();
        require(second >= first - first / 8, "memory freed by another thread can be allocated again", size);
        require(hoard.empty(), "contents survive the second time");
    }
    return 0;
}

std::atomic<size_t> bad_results{0};
std::atomic<size_t> lives{0};

/* A new thread either gets memory, or NULL with ENOMEM. */
void *allocate_under_pressure(void *) {
    for (size_t i = 0; i < 500; i++) {
        size_t size = 8 + i * 37 % 5000;
        errno = 0;
        void *block = t_malloc(size);
        if (block == nullptr) {
            bad_results.fetch_add(errno == ENOMEM ? 0 : 1);
            continue;
        }
        blocks::stamp(block, size, i);
        bad_results.fetch_add(blocks::drop(block) ? 0 : 1);
    }
    lives.fetch_add(1);
    return nullptr;
}

size_t start_on_stacks(char *stacks, size_t count, pthread_t *started) {
    size_t running = 0;
    for (size_t i = 0; i < count; i++) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stacks + i * threads::stack_bytes, threads::stack_bytes);
        int error = pthread_create(&started[running], &attributes, allocate_under_pressure, nullptr);
        pthread_attr_destroy(&attributes);
        running += error == 0 ? 1 : 0;
        require(error == 0 || error == EAGAIN || error == ENOMEM, "pthread_create fails with EAGAIN or ENOMEM only");
    }
    return running;
}

int start_threads_under_pressure() {
    constexpr size_t count = 100;
    void *stacks =
        mmap(nullptr, count * threads::stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(stacks != MAP_FAILED, "the stacks can be mapped");
    pthread_t started[count];
    Hoard large(MiB), medium(40 * KiB), small(64);
    (void)large.fill_up();
    (void)medium.fill_up();
    (void)small.fill_up();
    for (int round = 0; round < 2; round++) {
        size_t running = start_on_stacks(static_cast<char *>(stacks), count, started);
        for (size_t i = 0; i < running; i++)
            pthread_join(started[i], nullptr);
        require(lives.exchange(0) == running, "every started thread finished");
        require(round == 0 || running == count, "all threads start when there is memory");
        require(small.empty() && medium.empty() && large.empty(), "contents survive");
    }
    require(bad_results.load() == 0, "threads get memory, or NULL with ENOMEM");
    return 0;
}

class Oom : public testing::TestWithParam<const char *> {};

TEST_P(Oom, Role) {
    if (sanitized)
        GTEST_SKIP() << "sanitizers need terabytes of address space";
    children::expect_good_end(children::start_role(GetParam(), limit_bytes));
}

INSTANTIATE_TEST_SUITE_P(UnderRlimitAs, Oom,
                         testing::Values("exhaust_every_size", "fail_in_every_function", "lift_the_limit",
                                         "free_by_another_thread", "start_threads_under_pressure"),
                         [](const testing::TestParamInfo<const char *> &each) { return std::string(each.param); });

/* The tests depend on the limit taking effect, so a role that needs too much must fail. */
int need_too_much() {
    void *block = t_malloc(2 * limit_bytes);
    require(block != nullptr, "more than the limit can be allocated (this must fail)");
    return 0;
}

TEST(OomSelfTest, TheLimitIsInForce) {
    if (sanitized)
        GTEST_SKIP() << "sanitizers need terabytes of address space";
    testing::internal::CaptureStderr();
    int status = children::wait_for(children::start_role("need_too_much", limit_bytes));
    EXPECT_NE(testing::internal::GetCapturedStderr().find("not so:"), std::string::npos);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << children::describe(status);
}

} // namespace

int main(int argc, char **argv) {
    children::play(argc, argv,
                   {{"exhaust_every_size", exhaust_every_size},
                    {"fail_in_every_function", fail_in_every_function},
                    {"lift_the_limit", lift_the_limit},
                    {"free_by_another_thread", free_by_another_thread},
                    {"start_threads_under_pressure", start_threads_under_pressure},
                    {"need_too_much", need_too_much}});
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
