/*
 * run.h - one run of a scenario, in its own process. Shared by scheduler.cc, memory.cc and explore.cc.
 */
#ifndef HZ_TESTS_MODEL_RUN_H
#define HZ_TESTS_MODEL_RUN_H

#include "model/schedule.h"
#include "model/scheduler.h"

#include <pthread.h>
#include <semaphore.h>
#include <unordered_map>

namespace model {

/* A point, as it is printed. */
struct Step {
    unsigned thread;
    const char *file;
    int line;
    unsigned place; /* number of the atomic object, in the order of first use */
    bool is_old;    /* the load did not return the newest value */
};

/* The result of a run. It lies in shared memory, so the process that started the run finds it however the run ended. */
struct Report {
    enum : unsigned { STEPS_KEPT = 4096, TEXT_BYTES = 512 };
    char text[TEXT_BYTES]; /* why the run failed; empty if the run ended without saying why */
    uint64_t steps;        /* steps at which another thread could run */
    bool impossible;
    uint32_t facts[FACTS_MAX];
    uint64_t noted;
    Step last[STEPS_KEPT];
};

enum class State { READY, ASLEEP, ENDED };

/* A store that other threads do not see yet. */
struct Delayed {
    const volatile void *address;
    uint64_t value;
    unsigned size;
    bool is_release;
    Moment moment;
    Clock released;
    unsigned points_left; /* points of its thread until it leaves the buffer at the latest */
};

struct Thread {
    unsigned index = 0;
    State state = State::READY;
    const void *sleeps_on = nullptr;
    const char *file = ""; /* file of the last point */
    int line = 0;
    Clock clock;
    bool at_private = false;      /* the last operation was on the thread's own counters or bins */
    std::vector<Delayed> delayed; /* the store buffer, oldest first; of one place, one store at most */
    unsigned endings = 0;         /* rounds of exit hooks so far */
    std::function<void()> body;
    pthread_t handle{};
    sem_t baton{};
};

/* ---- memory.cc: what loads can return ---- */

struct Store {
    uint64_t value;
    Moment moment;
    Clock released;                            /* the past that an acquire load gets */
    std::array<uint32_t, THREADS_MAX> read_at; /* when each thread first read the value; 0: never */
};

/* An atomic object, with its last values in the order of their stores. */
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
    bool together = false; /* there are threads besides the main one */
    uint64_t points = 0;
    std::unordered_map<const volatile void *, Place> places;
};

extern Run *run;                    /* NULL: no scenario is running */
extern thread_local Thread *myself; /* NULL: not a thread of the scenario */

Place &place_of(const volatile void *address, uint64_t newest);

/* Some stores leave the buffer, or all of them. */
void settle_some(Thread &thread);
void settle_all(Thread &thread);

/* Lets another thread run between an atomic operation and the plain code that follows. */
void point_after();

} // namespace model

#endif
