/* The end of a process: exit while threads allocate, exit handlers and static destructors that free, a main thread
   that ends first. The beginning of a process: constructors that allocate before main. */
#include "blocks.h"
#include "children.h"
#include "threads.h"

#include <atomic>
#include <gtest/gtest.h>

namespace {

using namespace support;

constexpr int process_count = sanitized ? 5 : 60;
constexpr size_t thread_count = 4;

/* Allocates in its constructor, before main, and frees at the very end of the process and of each child. */
class AliveBeforeAndAfterMain {
  public:
    AliveBeforeAndAfterMain() {
        for (size_t i = 0; i < count; i++)
            if ((blocks_[i] = blocks::make(100 + 300 * i, i)) == nullptr)
                abort();
    }
    ~AliveBeforeAndAfterMain() {
        if (!good())
            abort();
        for (void *block : blocks_)
            t_free(block);
        void *late = blocks::make(5000, 1);
        if (!blocks::drop(late))
            abort();
    }
    AliveBeforeAndAfterMain(const AliveBeforeAndAfterMain &) = delete;
    AliveBeforeAndAfterMain &operator=(const AliveBeforeAndAfterMain &) = delete;

    bool good() const {
        for (void *block : blocks_)
            if (!blocks::intact(block))
                return false;
        return true;
    }

  private:
    static constexpr size_t count = 500;
    void *blocks_[count];
};

AliveBeforeAndAfterMain alive;

TEST(Exit, BlocksFromBeforeMainAreIntact) {
    EXPECT_TRUE(alive.good());
}

threads::Queue<128> left_over;
std::atomic<size_t> allocations{0};

void *allocate_for_ever(void *) {
    Random random(reinterpret_cast<uintptr_t>(&random));
    while (true) {
        void *block = blocks::make(blocks::pick_size(random), random.next());
        if (!left_over.try_push(block) && !blocks::drop(block))
            _exit(20);
        if (!blocks::drop(left_over.try_pop()))
            _exit(21);
        allocations.fetch_add(1, std::memory_order_relaxed);
    }
    return nullptr;
}

void start_threads_and_wait() {
    pthread_t thread;
    for (size_t i = 0; i < thread_count; i++)
        if (threads::start(&thread, allocate_for_ever, nullptr) != 0)
            _exit(22);
    while (allocations.load() < 2000)
        sched_yield();
}

void free_and_allocate_at_exit() {
    for (int i = 0; i < 200; i++) {
        if (!blocks::drop(left_over.try_pop()) || !blocks::drop(blocks::make(3000, 3)))
            _exit(23);
    }
}

/* Forks a child that runs `body`, which must leave by exit; children::start would end the child by _exit. */
template <typename Body> void expect_end_by_exit(Body body) {
    fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        body();
        _exit(24);
    }
    children::expect_good_end(child);
}

TEST(Exit, WhileThreadsAllocate) {
    for (int i = 0; i < process_count; i++)
        ASSERT_NO_FATAL_FAILURE(expect_end_by_exit([] {
            atexit(free_and_allocate_at_exit);
            start_threads_and_wait();
            exit(0);
        }));
}

TEST(Exit, FromAThreadThatIsNotMain) {
    for (int i = 0; i < process_count / 5; i++)
        ASSERT_NO_FATAL_FAILURE(expect_end_by_exit([] {
            start_threads_and_wait();
            pthread_t thread;
            auto body = [](void *) -> void * { exit(0); };
            if (threads::start(&thread, body, nullptr) == 0)
                allocate_for_ever(nullptr);
        }));
}

/* The main thread ends like any other; the process lives on until the last one leaves. */
void *outlive_main(void *main_thread) {
    pthread_join(*static_cast<pthread_t *>(main_thread), nullptr);
    for (uint64_t i = 0; i < 2000; i++)
        if (!blocks::drop(blocks::make(8 + i * 7 % 9000, i)) || !blocks::drop(left_over.try_pop()))
            _exit(25);
    exit(0);
}

int leave_main_first() {
    static pthread_t main_thread;
    main_thread = pthread_self();
    for (uint64_t k = 0; k < 100; k++)
        left_over.try_push(blocks::make(1000 + k, k));
    pthread_t thread;
    if (threads::start(&thread, outlive_main, &main_thread) != 0)
        return 22;
    pthread_exit(nullptr);
}

/* Needs a role: pthread_exit unwinds the stack, and the test framework would catch the unwinding. */
TEST(Exit, MainThreadMayLeaveFirst) {
    if (sanitized)
        GTEST_SKIP() << "sanitizers do not support a main thread that ends";
    for (int i = 0; i < process_count / 5; i++)
        ASSERT_NO_FATAL_FAILURE(children::expect_good_end(children::start_role("leave_main_first")));
}

TEST(Exit, QuickExitWhileThreadsAllocate) {
    for (int i = 0; i < process_count / 5; i++)
        ASSERT_NO_FATAL_FAILURE(expect_end_by_exit([] {
            at_quick_exit(free_and_allocate_at_exit);
            start_threads_and_wait();
            quick_exit(0);
        }));
}

} // namespace

int main(int argc, char **argv) {
    children::play(argc, argv, {{"leave_main_first", leave_main_first}});
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
