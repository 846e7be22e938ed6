/*
 * scheduler.h - runs threads one at a time and decides at every atomic operation of the library who goes on.
 *
 * A scenario is a function that sets something up, calls `together`, and checks what is left. explore() runs it many
 * times, each time in a process of its own (so the library starts from nothing) and with another schedule, which
 * follows from a number, the seed. A failure prints the seed and the last steps; the same program with
 * HZ_MODEL_SEED=<seed> in the environment takes exactly those steps again.
 *
 *   HZ_MODEL_SEED       only this schedule; prints its steps
 *   HZ_MODEL_SCHEDULES  so many schedules instead of the scenario's number
 *   HZ_MODEL_EXPECT     `bug`: the scenario must fail within its schedules, and again with the seed it failed with
 *
 * What it sees: every order of the atomic operations that a seed happens to make, with threads that go on for long and
 * threads that change at every step; in every other schedule also loads that give an older value where C11 allows it,
 * compare-and-swaps that fail by chance, and waits that end early. Which thread's past another one has (happens-before)
 * is kept in vector clocks from the orders that the sources name, so a block that arrives without its past is found
 * (Ledger), on a machine that would forgive it too. No thread able to go on is a deadlock; more than STEPS_MAX steps
 * are a livelock.
 *
 * What it does not see: races of plain fields, except by what they lead to (ThreadSanitizer sees them); a thread that
 * stops between two plain stores; loads that give a value from the future, and stores that overtake earlier loads; any
 * schedule that no seed makes. The steps that only touch a thread's own counters are no points.
 */
#ifndef HZ_TESTS_MODEL_SCHEDULER_H
#define HZ_TESTS_MODEL_SCHEDULER_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace model {

enum : unsigned {
    THREADS_MAX = 8, /* the main thread is number 0 */
    FACTS_MAX = 16,
    STEPS_MAX = 400000,
};

/* How much of each thread's past somebody has. */
struct Clock {
    std::array<uint32_t, THREADS_MAX> at{};
    void join(const Clock &other);
};

/* One moment of one thread. */
struct Moment {
    unsigned thread;
    uint32_t time;
};

/* ---- for the body of a scenario ---------------------------------------------------------------- */

/* Runs the bodies, each on a thread of its own, until all have ended, their exit hooks included. Once per scenario. */
void together(const std::vector<std::function<void()>> &bodies);

/* Ends the schedule as failed. */
[[noreturn]] void fail(const std::string &text);

#define MODEL_CHECK(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            model::fail(std::string(__FILE_NAME__) + ":" + std::to_string(__LINE__) + ": " #condition);                \
    } while (0)

/* Says that a schedule came here; explore() returns how many did. */
void reached(unsigned fact);

/* A number below `end` that follows from the seed. */
unsigned pick(unsigned end);

/* The number of the calling thread. */
unsigned thread_number();

Moment now();
bool has_happened(Moment moment); /* before now, as far as the calling thread can rely on */

/* How threads of a scenario hand something on: with the past of who put it in. */
template <typename Value> class Channel;

/* Lets others run; used where a scenario touches what threads share. */
void point(const char *file, int line, const void *place);

/* Sleeps until somebody calls wake_all(place). */
void sleep_on(const void *place);
void wake_all(const void *place);
Clock past();
void add_past(const Clock &clock);

template <typename Value> class Channel {
  public:
    void put(Value value) {
        point(__FILE__, __LINE__, this);
        values_.emplace_back(value, past());
        wake_all(this);
    }
    Value get() {
        point(__FILE__, __LINE__, this);
        while (values_.empty())
            sleep_on(this);
        auto [value, clock] = values_.front();
        values_.pop_front();
        add_past(clock);
        return value;
    }

  private:
    std::deque<std::pair<Value, Clock>> values_;
};

/* Threads that wait for each other before it starts to matter who goes on. It hands nobody's past on. */
class Start {
  public:
    explicit Start(unsigned count) : missing_(count) {
    }
    void wait() {
        point(__FILE__, __LINE__, this);
        if (--missing_ == 0)
            wake_all(this);
        while (missing_ > 0)
            sleep_on(this);
    }

  private:
    unsigned missing_;
};

/* Who has which block. A block that two have, that changes while somebody has it, or that comes to somebody without the
   past of who had it before, ends the schedule. */
class Ledger {
  public:
    /* The caller has it from now on. `kept`: its contents, but the link, are still as they were when it was given. */
    void taken(void *block, size_t bytes, bool kept = false);
    /* The caller has it, and gives it away: what it does next may hand it to anybody. */
    void given(void *block);
    size_t held() const {
        return held_;
    }

  private:
    struct Entry {
        bool is_held;
        uint32_t mark;
        size_t bytes;
        Moment given;
    };
    std::map<void *, Entry> entries_;
    size_t held_ = 0;
    uint32_t marks_ = 0;
};

/* ---- for tests ------------------------------------------------------------------------------------- */

struct Explored {
    unsigned schedules = 0;
    uint64_t steps_most = 0;
    std::array<unsigned, FACTS_MAX> facts{};
    bool failed = false;
    uint64_t seed = 0; /* of the one that failed */
    std::string text;  /* and why, with the last steps */
};

/* Runs schedules with the seeds 1, 2, ... until one fails. Knows nothing of the environment. */
Explored search(unsigned schedules, const std::function<void()> &scenario);

/* Every schedule with up to `changes` changes of thread where none is necessary, as long as there are no more than
   `schedules_max` of them; *all says whether that was enough. Loads give the newest value. */
Explored search_all(unsigned changes, unsigned schedules_max, const std::function<void()> &scenario, bool *all);

/* One of those schedules again. */
Explored search_one(uint64_t seed, const std::function<void()> &scenario);

/* What tests call: a failed schedule fails the test, or the other way round (HZ_MODEL_EXPECT). `edges` are the names
   from docs/memory-order.md that the scenario is about, with blanks between them. */
Explored explore(const char *edges, unsigned schedules, const std::function<void()> &scenario);
void explore_all(const char *edges, unsigned changes, unsigned schedules_max, const std::function<void()> &scenario);

} // namespace model

#endif
