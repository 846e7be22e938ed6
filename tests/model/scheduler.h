/*
 * scheduler.h - runs threads one at a time, and decides at every atomic operation which one runs next.
 *
 * A scenario is a function that sets something up, calls `together`, and checks the result. explore() runs it many
 * times, each time in a new process, so that the library starts from nothing, and with another schedule. A number, the
 * seed, determines the schedule. A failure prints the seed and the last steps. The same program with
 * HZ_MODEL_SEED=<seed> in the environment takes exactly those steps again.
 *
 *   HZ_MODEL_SEED       run only this schedule, and print its steps
 *   HZ_MODEL_SCHEDULES  run this many schedules instead of the scenario's number
 *   HZ_MODEL_EXPECT     `bug`: the scenario must fail, and fail again with the same seed
 *
 * What it sees: every order of atomic operations that some seed makes. With some seeds a thread runs for long, with
 * others the thread changes at about every second step. In every other schedule it also sees loads that return an older
 * value where C11 allows it, compare-and-swaps that fail by chance, and waits that end early. So a thread's loads can
 * overtake its earlier stores. In half of these schedules stores also wait in a buffer of their thread, so that other
 * threads' stores and read-modify-writes come first (memory.cc says how long a store may wait). Vector clocks track
 * happens-before, from the memory orders that the sources name. So the Ledger finds a block that arrives without its
 * past, even on a machine that orders more than C11 does. If no thread can run, that is a deadlock; more than STEPS_MAX
 * steps are a livelock.
 *
 * What it does not see: races of plain fields, except by their consequences (ThreadSanitizer sees them); a thread that
 * stops between two plain stores; stores that overtake earlier loads, so that a load returns a value from the future;
 * any schedule that no seed makes. Operations on a thread's own counters and bins are no points.
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

/* How much of each thread's past is known. */
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

/* Runs each body on its own thread until all threads have ended, including their exit hooks. Once per scenario. */
void together(const std::vector<std::function<void()>> &bodies);

/* Ends the schedule as failed. */
[[noreturn]] void fail(const std::string &text);

#define MODEL_CHECK(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            model::fail(std::string(__FILE_NAME__) + ":" + std::to_string(__LINE__) + ": " #condition);                \
    } while (0)

/* Records that the schedule came here. explore() returns how many schedules did. */
void reached(unsigned fact);

/* A number below `end`, determined by the seed. */
unsigned pick(unsigned end);

/* The number of the calling thread. */
unsigned thread_number();

Moment now();
bool has_happened(Moment moment); /* whether it happens before the calling thread's present */

/* Threads of a scenario hand values to each other through a channel. The receiver gets the sender's past. */
template <typename Value> class Channel;

/* Lets other threads run. For places where a scenario touches shared data. */
void point(const char *file, int line, const void *place);

/* Sleeps until a thread calls wake_all(place). */
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

/* Threads wait here for each other, so that their order matters only from here on. No thread gets another's past. */
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

/* Records which blocks are held. Ends the schedule when a block is taken twice, changes while it is held, or arrives
   without the past of its previous holder. */
class Ledger {
  public:
    /* The caller holds the block from now on. `kept`: all but its link must be as it was when the block was given. */
    void taken(void *block, size_t bytes, bool kept = false);
    /* The caller gives the block up. Its next operation can hand the block to any thread. */
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
    uint64_t seed = 0; /* of the schedule that failed */
    std::string text;  /* why it failed, and the last steps */
};

/* Runs schedules with the seeds 1, 2, ... until one fails. Ignores HZ_MODEL_SEED and HZ_MODEL_SCHEDULES. */
Explored search(unsigned schedules, const std::function<void()> &scenario);

/* Runs every schedule with up to `changes` unforced changes of thread, but at most `schedules_max` schedules. *all says
   whether these were all. Loads return the newest value. */
Explored search_all(unsigned changes, unsigned schedules_max, const std::function<void()> &scenario, bool *all);

/* Runs the schedule of one seed. */
Explored search_one(uint64_t seed, const std::function<void()> &scenario);

/* What tests call. A failed schedule fails the test, or passes it with HZ_MODEL_EXPECT=bug. `edges` are the names from
   src/memory-order.md that the scenario covers, separated by blanks. */
Explored explore(const char *edges, unsigned schedules, const std::function<void()> &scenario);
void explore_all(const char *edges, unsigned changes, unsigned schedules_max, const std::function<void()> &scenario);

} // namespace model

#endif
