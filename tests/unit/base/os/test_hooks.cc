/* What hooks.h says of forks: none begins between hz_hooks_forkless_begin and its end. */
#include "stress/children.h"
#include "unit/base/fixture.h"

#include <atomic>
#include <gtest/gtest.h>
#include <pthread.h>
#include <thread>

namespace {

using children::require;

std::atomic<bool> is_held; /* stands for a lock of the C library that a child does not find released */
std::atomic<bool> handler_got_it;

void on_exit(void *unused) {
    (void)unused;
}

void nothing() {
}

/* Registered before the library's, so it runs while the fork is under way. */
void before_fork_of_the_program() {
    hz_hooks_forkless_begin();
    handler_got_it = hz_hooks_thread.is_forkless;
    hz_hooks_forkless_end();
}

void install() {
    static const bool done = [] {
        pthread_atfork(before_fork_of_the_program, nullptr, nullptr);
        hz_hooks_install(on_exit, nothing, nothing);
        return true;
    }();
    ASSERT_TRUE(done);
}

void hold(int rounds) {
    hz_hooks_forkless_begin();
    is_held = true;
    for (volatile int round = 0; round < rounds; round = round + 1) {
    }
    is_held = false;
    hz_hooks_forkless_end();
}

TEST(Hooks, NoForkBeginsWhileAThreadForbidsIt) {
    enum { FORKS = 200, ROUNDS = 20000 };
    install();
    std::atomic<bool> is_over{false};
    std::atomic<unsigned> holds{0};
    std::thread holder([&] {
        while (!is_over) {
            hold(ROUNDS);
            holds++;
        }
    });
    for (int i = 0; i < FORKS; i++)
        children::expect_good_end(children::start([] { return is_held ? 1 : 0; }));
    is_over = true;
    holder.join();
    EXPECT_GT(holds, 0U);
}

TEST(Hooks, AChildCanForbidForksToo) {
    install();
    hz_hooks_forkless_begin();
    std::thread forks([] { /* waits for a second at most, since the thread that forbids it may wait for this one */
                           children::expect_good_end(children::start([] {
                               require(!hz_hooks_thread.is_forkless, "this thread does not");
                               hz_hooks_forkless_begin();
                               require(hz_hooks_thread.is_forkless, "the child is not bound by its parent");
                               hz_hooks_forkless_end();
                               return 0;
                           }));
    });
    forks.join();
    hz_hooks_forkless_end();
}

TEST(Hooks, AForkHandlerDoesNotWaitForItsOwnFork) {
    install();
    handler_got_it = true;
    children::expect_good_end(children::start([] { return 0; }));
    EXPECT_FALSE(handler_got_it);
    hz_hooks_forkless_begin();
    EXPECT_TRUE(hz_hooks_thread.is_forkless) << "the fork is over";
    hz_hooks_forkless_end();
}

} // namespace
