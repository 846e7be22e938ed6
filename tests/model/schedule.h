/*
 * schedule.h - which thread goes on: the part of the scheduler that decides. Used by scheduler.cc only.
 */
#ifndef HZ_TESTS_MODEL_SCHEDULE_H
#define HZ_TESTS_MODEL_SCHEDULE_H

#include "model/scheduler.h"

#include <random>

namespace model {

/* A change of thread at a step of the run: to the `other`th of the threads that could go on too. */
struct Change {
    uint64_t step;
    unsigned other;
};

/* All that decides the order of a run. */
struct Plan {
    uint64_t seed = 0;
    bool is_listed = false;      /* by `changes` alone; else by the seed */
    std::vector<Change> changes; /* in rising order of steps */
};

/* What the decision may look at. */
struct Situation {
    unsigned current;
    bool can_go_on;                /* the current thread can */
    bool repeated;                 /* it is where it was at its last point: one more round of a short loop */
    std::vector<unsigned> threads; /* that can go on, the current one too if it can; in rising order; not empty */
};

class Schedule {
  public:
    explicit Schedule(const Plan &plan);
    unsigned next(const Situation &situation);
    /* One time in `of`. */
    bool chance(unsigned of);
    unsigned below(unsigned end) {
        return static_cast<unsigned>(random_() % end);
    }
    /* Whether loads may be old and operations fail by chance. */
    bool is_weak() const {
        return weak_;
    }
    uint64_t steps() const {
        return steps_;
    }
    /* A listed change asked for a thread that there was not. */
    bool is_impossible() const {
        return impossible_;
    }

  private:
    unsigned next_listed(const Situation &situation);
    unsigned next_random(const Situation &situation);
    unsigned next_by_priority(const Situation &situation);

    Plan plan_;
    std::mt19937_64 random_;
    bool weak_ = false;
    unsigned change_one_in_ = 0; /* 0: by priority */
    std::array<int, THREADS_MAX> priorities_{};
    std::vector<uint64_t> falls_; /* steps at which the running thread becomes the last */
    int lowest_ = 0;
    uint64_t steps_ = 0;
    uint64_t new_steps_ = 0; /* those that are no repetition */
    uint64_t alone_ = 0;     /* steps the current thread has gone on */
    size_t changes_done_ = 0;
    bool impossible_ = false;
};

} // namespace model

#endif
