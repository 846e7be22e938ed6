/*
 * schedule.h - decides which thread runs next. Only scheduler.cc uses it.
 */
#ifndef HZ_TESTS_MODEL_SCHEDULE_H
#define HZ_TESTS_MODEL_SCHEDULE_H

#include "model/scheduler.h"

#include <random>

namespace model {

/* A change of thread at a step of the run, to number `other` of the other threads that can run. */
struct Change {
    uint64_t step;
    unsigned other;
};

/* Everything that determines the order of a run. */
struct Plan {
    uint64_t seed = 0;
    bool is_listed = false;      /* determined by `changes` alone, otherwise by the seed */
    std::vector<Change> changes; /* in rising order of steps */
};

/* What a decision may depend on. */
struct Situation {
    unsigned current;
    bool can_go_on;                /* the current thread can run */
    bool repeated;                 /* the thread is at the same point as last time: another round of a short loop */
    std::vector<unsigned> threads; /* threads that can run, in rising order; never empty */
};

class Schedule {
  public:
    explicit Schedule(const Plan &plan);
    unsigned next(const Situation &situation);
    /* True with a probability of 1 / `of`. */
    bool chance(unsigned of);
    unsigned below(unsigned end) {
        return static_cast<unsigned>(random_() % end);
    }
    /* Whether loads can return old values, and operations can fail by chance. */
    bool is_weak() const {
        return weak_;
    }
    /* Whether stores can become visible late. */
    bool is_delaying() const {
        return delaying_;
    }
    uint64_t steps() const {
        return steps_;
    }
    /* A listed change named a thread that did not exist. */
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
    bool delaying_ = false;
    unsigned change_one_in_ = 0; /* 0: threads have priorities */
    std::array<int, THREADS_MAX> priorities_{};
    std::vector<uint64_t> falls_; /* steps at which the running thread gets the lowest priority */
    int lowest_ = 0;
    uint64_t steps_ = 0;
    uint64_t new_steps_ = 0; /* steps that do not repeat a point */
    uint64_t alone_ = 0;     /* steps since the last change of thread */
    size_t changes_done_ = 0;
    bool impossible_ = false;
};

} // namespace model

#endif
