/*
 * together.h - threads that start their work at the same moment.
 */
#ifndef HZ_TESTS_UNIT_TOGETHER_H
#define HZ_TESTS_UNIT_TOGETHER_H

#include "contract/support.h"

#include <atomic>
#include <thread>
#include <vector>

namespace unit {

/* Fewer rounds under sanitizers, where each costs ten times as much. */
inline constexpr unsigned rounds(unsigned count) {
    return support::sanitized ? count / 8 + 1 : count;
}

/* wait() returns once `count` threads have called it. The barrier can be used again. */
class Barrier {
  public:
    explicit Barrier(unsigned count) : count_(count) {
    }
    void wait() {
        unsigned round = round_.load();
        if (arrived_.fetch_add(1) + 1 == count_) {
            arrived_.store(0);
            round_.store(round + 1);
            return;
        }
        while (round_.load() == round)
            std::this_thread::yield();
    }

  private:
    const unsigned count_;
    std::atomic<unsigned> arrived_{0};
    std::atomic<unsigned> round_{0};
};

/* Runs body(0) .. body(count - 1), each on its own thread, and waits for them. */
template <typename Body> void together(unsigned count, Body body) {
    Barrier barrier(count);
    std::vector<std::thread> threads;
    for (unsigned index = 0; index < count; index++)
        threads.emplace_back([&barrier, &body, index] {
            barrier.wait();
            body(index);
        });
    for (std::thread &thread : threads)
        thread.join();
}

} // namespace unit

#endif
