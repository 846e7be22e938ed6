/*
 * schedule.cc - three ways to choose the next thread. Half of the seeds change threads at random, on average at every
 * second to every 32nd step. The other seeds give each thread a priority: the thread with the highest one runs as long
 * as it can, and at up to three steps of the run the running thread gets the lowest. This second way finds bugs that
 * need few changes at the right steps with a known probability (Burckhardt, Kothari, Musuvathi, Nagarakatte: A
 * Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, 2010). The third way follows a list of changes.
 */
#include "model/schedule.h"

#include <algorithm>

namespace model {

namespace {
constexpr unsigned falls_most = 3;
constexpr unsigned fall_log2_most = 11; /* among the first 2^11 steps */
constexpr unsigned repetition_share =
    8; /* repeated points count less: a loop over all classes is one place, not a hundred */
constexpr uint64_t alone_most = 4000; /* a thread that waits by trying again must not run for ever */
} // namespace

Schedule::Schedule(const Plan &plan) : plan_(plan), random_(plan.seed) {
    if (plan.is_listed)
        return;
    weak_ = plan.seed % 2 == 1;
    delaying_ = weak_ && plan.seed / 4 % 2 == 1;
    if (plan.seed / 2 % 2 == 0) {
        change_one_in_ = 2U << below(5);
        return;
    }
    for (int &priority : priorities_)
        priority = static_cast<int>(below(1U << 20));
    for (unsigned left = below(falls_most + 1); left > 0; left--)
        falls_.push_back(below(1U << below(fall_log2_most + 1)));
}

bool Schedule::chance(unsigned of) {
    return below(of) == 0;
}

unsigned Schedule::next(const Situation &situation) {
    steps_++;
    new_steps_ += !situation.repeated;
    unsigned chosen = plan_.is_listed       ? next_listed(situation)
                      : change_one_in_ != 0 ? next_random(situation)
                                            : next_by_priority(situation);
    alone_ = chosen == situation.current ? alone_ + 1 : 0;
    return chosen;
}

unsigned Schedule::next_listed(const Situation &situation) {
    const std::vector<unsigned> &threads = situation.threads;
    if (changes_done_ < plan_.changes.size() && plan_.changes[changes_done_].step == steps_) {
        unsigned other = plan_.changes[changes_done_++].other;
        for (unsigned thread : threads)
            if (thread != situation.current && other-- == 0)
                return thread;
        impossible_ = true;
    }
    if (situation.can_go_on && alone_ < alone_most)
        return situation.current;
    /* the next thread in order */
    auto after = std::upper_bound(threads.begin(), threads.end(), situation.current);
    return after == threads.end() ? threads.front() : *after;
}

unsigned Schedule::next_random(const Situation &situation) {
    unsigned one_in = change_one_in_ * (situation.repeated ? repetition_share : 1);
    if (situation.can_go_on && !chance(one_in))
        return situation.current;
    return situation.threads[below(static_cast<unsigned>(situation.threads.size()))];
}

unsigned Schedule::next_by_priority(const Situation &situation) {
    bool falls = !situation.repeated && std::count(falls_.begin(), falls_.end(), new_steps_) > 0;
    if (falls || alone_ >= alone_most)
        priorities_[situation.current] = --lowest_;
    return *std::max_element(situation.threads.begin(), situation.threads.end(),
                             [this](unsigned a, unsigned b) { return priorities_[a] < priorities_[b]; });
}

} // namespace model
