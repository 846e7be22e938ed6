/*
 * worker.h - a thread that does what the test tells it, one step after the other, and sleeps in between.
 */
#ifndef HZ_TESTS_UNIT_HEAP_WORKER_H
#define HZ_TESTS_UNIT_HEAP_WORKER_H

#include "unit/heap/fixture.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace unit {

class Worker {
  public:
    /* The thread attaches as a thread of a program with the shared library does, and so can be parked; or late, as one
       of a program with the archive. */
    explicit Worker(bool can_be_parked = true) : thread_([this] { work(); }) {
        run([this, can_be_parked] {
            if (can_be_parked)
                hz_thread_start();
            else
                self();
            block_ = hz_thread_mine;
        });
    }
    ~Worker() {
        end();
    }
    Worker(const Worker &) = delete;
    Worker &operator=(const Worker &) = delete;

    struct hz_thread_block *block() const {
        return block_;
    }
    /* The thread begins a step. */
    void begin(std::function<void()> step) {
        std::unique_lock<std::mutex> lock(mutex_);
        step_ = std::move(step);
        changed_.notify_all();
    }
    /* Returns when the thread has done its step. */
    void wait() {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return !step_; });
    }
    void run(std::function<void()> step) {
        begin(std::move(step));
        wait();
    }
    /* The thread ends, and its exit hook with it. */
    void end() {
        if (!thread_.joinable())
            return;
        begin([this] { over_ = true; });
        thread_.join();
    }

  private:
    void work() {
        while (!over_) {
            std::unique_lock<std::mutex> lock(mutex_);
            changed_.wait(lock, [this] { return static_cast<bool>(step_); });
            lock.unlock();
            step_();
            lock.lock();
            step_ = nullptr;
            changed_.notify_all();
        }
    }
    struct hz_thread_block *block_ = nullptr;
    bool over_ = false;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> step_; /* nothing: the thread sleeps */
    std::thread thread_;
};

} // namespace unit

#endif
