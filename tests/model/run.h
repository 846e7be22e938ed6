/*
 * run.h - one run of a scenario, in a process of its own: what scheduler.cc, memory.cc and explore.cc share.
 */
#ifndef HZ_TESTS_MODEL_RUN_H
#define HZ_TESTS_MODEL_RUN_H

#include "model/schedule.h"
#include "model/scheduler.h"

#include <pthread.h>
#include <semaphore.h>
#include <unordered_map>

namespace model {

/* One point, as it is printed. */
struct Step {
    unsigned thread;
    const char *file;
    int line;
    unsigned place; /* atomic objects in the order in which they were met */
    bool is_old;    /* a load did not give the newest value */
};

/* What a run leaves to the process that started it, which finds it in shared memory however the run ended. */
struct Report {
    enum : unsigned { STEPS_KEPT = 4096, TEXT_BYTES = 512 };
    char text[TEXT_BYTES]; /* why it failed; empty: it did not say */
    uint64_t steps;        /* at which threads could change */
    bool impossible;
    uint32_t facts[FACTS_MAX];
    uint64_t noted;
    Step last[STEPS_KEPT];
};

enum class State { READY, ASLEEP, ENDED };

struct Thread {
    unsigned index = 0;
    State state = State::READY;
    const void *sleeps_on = nullptr;
    const char *file = ""; /* of its last point */
    int line = 0;
    Clock clock;
    unsigned endings = 0; /* rounds of exit hooks so far */
    std::function<void()> body;
    pthread_t handle{};
    sem_t baton{};
};

/* ---- memory.cc: what loads may give ---- */

struct Store {
    uint64_t value;
    Moment moment;
    Clock released;                            /* the past that a load with acquire gets */
    std::array<uint32_t, THREADS_MAX> read_at; /* when each thread first read it; 0: it has not */
};

/* An atomic object: its last values in the order of their stores. */
struct Place {
    unsigned number = 0;
    std::vector<Store> stores;
};

/* ---- scheduler.cc ---- */

struct Run {
    Run(const Plan &plan, Report *report_);
    Schedule schedule;
    Report *report;
    std::array<Thread, THREADS_MAX> threads;
    unsigned count = 1;
    bool together = false; /* other threads than the main one are there */
    uint64_t points = 0;
    std::unordered_map<const volatile void *, Place> places;
};

extern Run *run;                    /* NULL: no scenario is running */
extern thread_local Thread *myself; /* NULL: not a thread of the scenario */

Place &place_of(const volatile void *address, uint64_t newest);

/* Another thread may go on between an atomic operation and the plain code behind it. */
void point_after();

} // namespace model

#endif
