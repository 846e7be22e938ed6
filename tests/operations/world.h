/*
 * world.h - what operations work on. An actor is a logical thread: it has slots for blocks, a mailbox into which others
 * put blocks, and a source of choices. Real threads act for it, one at a time.
 *
 * There are two ways to run. With threads, each actor has its own endless source, and all act at the same time. In
 * lockstep, the actors share one byte string, and only the actor whose turn it is acts; an operation passes the turn.
 * So in lockstep the same bytes do the same, with several threads.
 *
 * Nothing here uses the allocator under test for itself. A broken promise prints one line with the way to repeat the
 * run, and aborts.
 */
#ifndef HZ_TESTS_OPERATIONS_WORLD_H
#define HZ_TESTS_OPERATIONS_WORLD_H

#include "operations/block.h"
#include "operations/source.h"
#include "stress/threads.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <shared_mutex>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace operations {

using support::KiB;
using support::MiB;

inline constexpr size_t slot_count = 256;

struct Settings {
    const t_entries *api = &t_table;
    size_t actors = 4;
    size_t held_bytes_max = 32 * MiB; /* of one actor; above that it asks for small blocks only */
    bool lockstep = false;
};

/* The test's own objects lie in mappings of their own, apart from the heap under test. */
template <typename T> T *map_new(size_t count) {
    void *memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    auto *objects = static_cast<T *>(memory);
    for (size_t i = 0; i < count; i++)
        new (&objects[i]) T();
    return objects;
}

template <typename T> void map_delete(T *objects, size_t count) {
    munmap(static_cast<void *>(objects), count * sizeof(T));
}

class World;

class Actor {
  public:
    World *world = nullptr;
    size_t index = 0;
    Source *source = nullptr;
    pthread_t thread = {};
    pthread_cond_t turn_comes = PTHREAD_COND_INITIALIZER;
    std::atomic<pid_t> tid{0}; /* of the thread that acts now */
    size_t depth = 0;          /* threads that wait for the one that acts now */
    uint64_t steps = 0;
    uint64_t made = 0;
    size_t held_bytes = 0;   /* what its blocks have taken, without those in its mailbox; */
    size_t unsure_bytes = 0; /* and Block::unsure of these */
    const char *operation = "start";
    threads::Queue<512, Block> mailbox;
    Block slots[slot_count] = {};

    const t_entries &api() const;
    size_t below(size_t bound) {
        return source->below(bound);
    }
    size_t between(size_t low, size_t high) {
        return source->between(low, high);
    }
    Block &pick_slot() {
        return slots[below(slot_count)];
    }
    /* Ends the process when `holds` is false; `number` is the size or status that the text speaks of. */
    void require(bool holds, const char *what, size_t number = 0);
};

/* Odd while a limit may be in force. An allocation may fail if the count was odd before it or has changed since. */
class Limits {
  public:
    uint64_t now() const {
        return count_.load();
    }
    bool may_fail_since(uint64_t before) const {
        return before % 2 == 1 || count_.load() != before;
    }
    /* False when another thread has limits in force. */
    bool begin() {
        uint64_t even = count_.load() & ~uint64_t{1};
        return count_.compare_exchange_strong(even, even + 1);
    }
    void end() {
        count_.fetch_add(1);
    }

  private:
    std::atomic<uint64_t> count_{0};
};

class World {
  public:
    explicit World(const Settings &chosen) : settings(chosen), actors(map_new<Actor>(chosen.actors)) {
        for (size_t i = 0; i < settings.actors; i++) {
            actors[i].world = this;
            actors[i].index = i;
        }
    }
    ~World() {
        map_delete(actors, settings.actors);
    }
    World(const World &) = delete;
    World &operator=(const World &) = delete;

    const Settings settings;
    Limits limits;
    std::shared_mutex loader;                /* shared: starts a thread or opens a library; exclusive: forks */
    bool alone = false;                      /* in a child of fork: no other actor exists */
    size_t live_start = 0;                   /* live bytes before the first operation */
    std::atomic<size_t> travelling_bytes{0}; /* the same for blocks in mailboxes */
    std::atomic<size_t> travelling_unsure{0};
    Actor *const actors;

    bool is_lockstep() const {
        return settings.lockstep && !alone;
    }

    /* In lockstep only the actor whose turn it is acts. */
    void wait_turn(Actor &actor) {
        mutex_.lock();
        while (turn_ != actor.index)
            pthread_cond_wait(&actor.turn_comes, mutex_.native());
        mutex_.unlock();
    }

    void pass_turn(size_t index) {
        mutex_.lock();
        turn_ = index;
        pthread_cond_signal(&actors[index].turn_comes);
        mutex_.unlock();
    }

    /* The acting actor calls this when the bytes are used up. */
    void finish(const Actor &actor) {
        mutex_.lock();
        finished_ = &actor;
        pthread_cond_signal(&finishes_);
        mutex_.unlock();
    }

    /* The actor that called finish. */
    const Actor &wait_finish() {
        mutex_.lock();
        while (finished_ == nullptr)
            pthread_cond_wait(&finishes_, mutex_.native());
        const Actor *actor = finished_;
        mutex_.unlock();
        return *actor;
    }

    size_t held_bytes() const {
        size_t sum = travelling_bytes.load();
        for (size_t i = 0; i < settings.actors; i++)
            sum += actors[i].held_bytes;
        return sum;
    }

    size_t unsure_bytes() const {
        size_t sum = travelling_unsure.load();
        for (size_t i = 0; i < settings.actors; i++)
            sum += actors[i].unsure_bytes;
        return sum;
    }

  private:
    threads::Mutex mutex_;
    pthread_cond_t finishes_ = PTHREAD_COND_INITIALIZER;
    size_t turn_ = 0; /* the actor that acts; lock: mutex_ */
    const Actor *finished_ = nullptr;
};

inline const t_entries &Actor::api() const {
    return *world->settings.api;
}

/* Also for signal handlers. */
inline void print(const char *text, size_t length) {
    (void)!write(STDERR_FILENO, text, length);
}

inline void Actor::require(bool holds, const char *what, size_t number) {
    if (holds)
        return;
    char text[600];
    int length = snprintf(text, sizeof text, "operations: %s: %s (%zu); actor %zu, step %llu\n", operation, what,
                          number, index, static_cast<unsigned long long>(steps));
    print(text, static_cast<size_t>(length));
    abort(); /* the handler of SIGABRT prints how to repeat the run */
}

inline pid_t own_tid() {
    return static_cast<pid_t>(syscall(SYS_gettid));
}

} // namespace operations

#endif
