/*
 * process_operations.h - operations on the heap as a whole and on the process: threads, forks, signals, purges, limits,
 * statistics, glibc's introspection, libraries that are opened and closed.
 */
#ifndef HZ_TESTS_OPERATIONS_PROCESS_OPERATIONS_H
#define HZ_TESTS_OPERATIONS_PROCESS_OPERATIONS_H

#include "operations/heap_operations.h"
#include "operations/plugin.h"
#include "stress/children.h"

#include <malloc.h>

namespace operations {

/* Defined in table.h. */
inline void act(Actor &actor, uint64_t step_count);

/* A thread that starts, or uses the thread-local storage of a library, may have freed such storage and not yet
   forgotten its address. When a fork's child starts a thread, glibc (2.36, get_cached_stack) frees what its vanished
   threads have not forgotten: that storage, twice. So no fork comes meanwhile, where glibc allocates from the heap
   under test. */
inline std::shared_lock<std::shared_mutex> keep_forks_out(Actor &actor) {
    std::shared_lock<std::shared_mutex> lock(actor.world->loader, std::defer_lock);
    if (t_system && !actor.world->alone)
        lock.lock();
    return lock;
}

/* ---- threads: one that acts for the actor, which waits for its end ---------------------------------------------- */

inline constexpr size_t depth_max = 3;
/* Sanitizers destroy their own thread state in the last rounds of destructors. */
inline constexpr int exit_rounds = 2;

struct Stand_in {
    Actor *actor;
    uint64_t step_count;
    int rounds_left;
    Block left[8]; /* freed by the thread's exit hook */
};

/* Runs as the thread ends, once before and once after the allocator's own exit hook, in whichever order the keys have:
   the heap must still work. */
inline void end_stand_in(void *argument);

inline pthread_key_t exit_key() {
    static pthread_key_t key = [] {
        pthread_key_t made;
        if (pthread_key_create(&made, end_stand_in) != 0)
            abort();
        return made;
    }();
    return key;
}

inline void end_stand_in(void *argument) {
    auto *self = static_cast<Stand_in *>(argument);
    Actor &actor = *self->actor;
    for (size_t i = 0; i < 8; i++)
        if (self->rounds_left == 1 || i % 2 == 0)
            release(actor, self->left[i]);
    Block late = {};
    allocate_plain(actor, late, 1000);
    release(actor, late);
    if (--self->rounds_left > 0)
        pthread_setspecific(exit_key(), self);
}

inline void *stand_in(void *argument) {
    auto *self = static_cast<Stand_in *>(argument);
    Actor &actor = *self->actor;
    actor.tid.store(own_tid());
    act(actor, self->step_count);
    for (Block &block : self->left)
        allocate_plain(actor, block, pick_size(actor) % (8 * KiB));
    pthread_setspecific(exit_key(), self);
    return nullptr;
}

inline void do_thread(Actor &actor) {
    if (actor.depth == depth_max || (actor.world->alone && support::sanitized))
        return; /* a sanitizer's own locks may be held for ever in a child of a process with threads */
    actor.depth++;
    Stand_in self = {&actor, 1 + actor.below(64), exit_rounds, {}};
    pthread_t thread;
    int error = 0;
    {
        std::shared_lock<std::shared_mutex> no_fork = keep_forks_out(actor);
        error = threads::start(&thread, stand_in, &self);
    }
    actor.require(error == 0, "pthread_create", static_cast<size_t>(error));
    pthread_join(thread, nullptr);
    actor.tid.store(own_tid());
    actor.depth--;
}

/* In lockstep: another actor's turn. */
inline void do_pass(Actor &actor) {
    if (!actor.world->is_lockstep()) {
        sched_yield();
        return;
    }
    actor.world->pass_turn(pick_other(actor).index);
    actor.world->wait_turn(actor);
}

/* ---- fork ---------------------------------------------------------------------------------------------------------
 */

/* The child verifies and frees what its parent gave it, and goes on for a while. */
inline int live_as_child(Actor &actor, Source *source, uint64_t step_count) {
    actor.world->alone = true;
    actor.source = source;
    for (Block &slot : actor.slots)
        if (slot.address != nullptr)
            verify(actor, slot);
    act(actor, step_count);
    for (Block &slot : actor.slots)
        release(actor, slot);
    return 0;
}

inline void do_fork(Actor &actor) {
    if (actor.world->alone)
        return;
    uint64_t step_count = 1 + actor.below(256);
    Source source(actor.below(65536));
    pid_t child = 0;
    {
        std::unique_lock<std::shared_mutex> alone(actor.world->loader, std::defer_lock);
        if (t_system)
            alone.lock(); /* the child leaves it locked, and does not use it */
        child = children::start([&] { return live_as_child(actor, &source, step_count); });
    }
    actor.require(child > 0, "fork", static_cast<size_t>(errno));
    int status = children::wait_for(child);
    actor.require(status == 0, "a child of fork failed; status", static_cast<size_t>(status));
}

/* ---- signals ------------------------------------------------------------------------------------------------------
 */

inline const t_entries *signal_api;
inline std::atomic<size_t> signals_caught{0};

/* Interrupts anything, so it stays away from the heap. */
inline void catch_anywhere(int) {
    int saved = errno;
    errno = EBUSY;
    signals_caught.fetch_add(1);
    errno = saved;
}

/* Raised outside of the heap's functions, so it may use them. */
inline void catch_here(int) {
    int saved = errno; /* under a limit malloc sets it */
    void *blocks[20];
    for (size_t i = 0; i < 20; i++)
        if ((blocks[i] = signal_api->malloc_fn(i * 100)) != nullptr)
            support::fill(blocks[i], i * 100, i);
    for (size_t i = 0; i < 20; i++) {
        if (blocks[i] != nullptr && !support::holds(blocks[i], i * 100, i))
            abort();
        signal_api->free_fn(blocks[i]);
    }
    errno = saved;
}

inline void signals_install(const t_entries &api) {
    signal_api = &api;
    struct sigaction action = {};
    action.sa_handler = catch_anywhere; /* without SA_RESTART, so system calls are interrupted */
    sigaction(SIGUSR1, &action, nullptr);
    action.sa_handler = catch_here;
    sigaction(SIGUSR2, &action, nullptr);
}

inline void do_signal(Actor &actor) {
    Actor &other = pick_other(actor);
    pid_t to = actor.world->is_lockstep() || actor.world->alone ? own_tid() : other.tid.load();
    if (to != 0)
        syscall(SYS_tgkill, getpid(), to, SIGUSR1); /* the thread may have ended meanwhile */
    if (actor.below(4) == 0)
        raise(SIGUSR2);
}

/* ---- the heap as a whole ------------------------------------------------------------------------------------------
 */

inline void do_purge(Actor &actor) {
    if (actor.api().purge_fn != nullptr)
        (void)actor.api().purge_fn();
}

/* In lockstep nothing else happens meanwhile: what is live is exactly what the actors hold. */
inline void check_live(Actor &actor) {
    struct hz_stats stats = {};
    actor.require(actor.api().stats_get_fn(&stats, sizeof(stats)) == 0, "stats_get");
    actor.require(stats.live_bytes <= stats.mapped_bytes, "more live than mapped", stats.live_bytes);
    if (actor.world->is_lockstep() && !t_system) {
        size_t held = actor.world->live_start + actor.world->held_bytes();
        bool is_held = stats.live_bytes >= held && stats.live_bytes <= held + actor.world->unsure_bytes();
        actor.require(is_held, "live bytes are not the bytes held", stats.live_bytes);
    }
}

inline int null_device() {
    static int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    return fd;
}

inline void do_stats(Actor &actor) {
    if (actor.api().stats_get_fn == nullptr)
        return;
    check_live(actor);
    size_t way = actor.below(8);
    if (way < 2) {
        int result = actor.api().stats_print_fn(null_device(), way == 0 ? HZ_STATS_TEXT : HZ_STATS_JSON);
        actor.require(result == 0 || errno == EINTR, "stats_print", static_cast<size_t>(errno));
    }
}

inline void on_limit(size_t, void *context) {
    auto *api = static_cast<const t_entries *>(context);
    api->free_fn(api->malloc_fn(100));
}

/* Sets limits just above what the heap holds, allocates up to them and lifts them. */
inline void do_limit(Actor &actor) {
    const t_entries &api = actor.api();
    size_t spare = (1 + actor.below(65536)) * 128; /* a limit of 0 means none */
    size_t count = 1 + actor.below(64);
    /* preloaded, a hard limit also meets what the C library allocates for the other threads, and it may abort then */
    bool is_for_others = t_system && !actor.world->is_lockstep();
    if (api.limit_set_fn == nullptr || is_for_others || !actor.world->limits.begin())
        return;
    struct hz_limits old = {};
    actor.require(api.limit_get_fn(&old, sizeof(old)) == 0, "limit_get");
    api.limit_notify_fn(on_limit, const_cast<t_entries *>(&api));
    size_t hard = old.held_bytes + spare;
    actor.require(api.limit_set_fn(hard - spare / 2, hard) == 0, "limit_set", hard);
    for (size_t i = 0; i < count; i++) {
        Block &slot = actor.pick_slot();
        release(actor, slot);
        allocate_plain(actor, slot, pick_size(actor));
        do_realloc(actor);
    }
    struct hz_limits now = {};
    actor.require(api.limit_get_fn(&now, sizeof(now)) == 0 && now.hard_bytes == hard, "limit_get", now.hard_bytes);
    if (actor.world->is_lockstep()) /* one refill from pages that were purged in part may exceed it */
        actor.require(now.held_bytes <= hard + MiB, "the heap holds more than the hard limit", now.held_bytes);
    actor.require(api.limit_set_fn(old.soft_bytes, old.hard_bytes) == 0, "limit_set");
    api.limit_notify_fn(nullptr, nullptr);
    actor.world->limits.end();
}

/* ---- functions that have only the system's names ------------------------------------------------------------------
 */

inline void do_introspect(Actor &actor) {
    size_t way = actor.below(4);
    if (way == 0) {
        struct mallinfo2 info = mallinfo2();
        actor.require(!t_ours() || info.uordblks > 0, "mallinfo2: nothing is live");
    } else if (way == 1) {
        malloc_trim(actor.below(65536));
    } else {
        FILE *stream = fopen("/dev/null", "we");
        actor.require(stream != nullptr, "fopen");
        actor.require(malloc_info(0, stream) == 0, "malloc_info");
        fclose(stream);
    }
}

inline void do_mallopt(Actor &actor) {
    size_t way = actor.below(4);
    int value = static_cast<int>(actor.below(65536));
    int good = 1;
    if (way == 0)
        good = mallopt(M_TRIM_THRESHOLD, value * 1024);
    else if (way == 1)
        good = mallopt(M_MMAP_THRESHOLD, value * 256);
    else if (way == 2)
        good = mallopt(M_ARENA_MAX, value % 16);
    else
        good = mallopt(M_MXFAST, value % 100);
    actor.require(good == 1, "mallopt refused a good value", way);
}

/* Opens a library that allocates in its constructors, in its thread-local storage and in its function, and closes it.
 */
inline void do_library(Actor &actor) {
    std::shared_lock<std::shared_mutex> no_fork = keep_forks_out(actor);
    void *library = dlopen(HZ_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    actor.require(library != nullptr, library == nullptr ? dlerror() : "");
    auto use = reinterpret_cast<decltype(&plugin_use)>(dlsym(library, "plugin_use"));
    actor.require(use != nullptr && use(actor.below(65536)) == 0, "the plugin's blocks were damaged");
    actor.require(dlclose(library) == 0, "dlclose");
}

} // namespace operations

#endif
