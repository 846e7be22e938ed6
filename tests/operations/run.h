/*
 * run.h - runs operations in rounds. A round begins with an empty heap, as far as its actors are concerned, and ends
 * with one: everything is freed, and then nothing may be live or cached any more.
 */
#ifndef HZ_TESTS_OPERATIONS_RUN_H
#define HZ_TESTS_OPERATIONS_RUN_H

#include "operations/table.h"

#include <cinttypes>

namespace operations {

/* ---- how to repeat a run ------------------------------------------------------------------------------------------
 */

inline char repeat_text[400];

inline void print_repeat(int signal) {
    const char *text = signal == SIGALRM ? "operations: the round did not end in time\n" : "";
    print(text, strlen(text));
    print(repeat_text, strlen(repeat_text));
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
    raise(signal == SIGALRM ? SIGABRT : signal);
}

/* When the process dies, by whatever check, it says how to repeat the round. */
inline void repeat_install() {
    struct sigaction action = {};
    action.sa_handler = print_repeat;
    sigaction(SIGABRT, &action, nullptr);
    sigaction(SIGALRM, &action, nullptr);
    if (!support::sanitized) { /* a sanitizer reports these itself */
        sigaction(SIGSEGV, &action, nullptr);
        sigaction(SIGBUS, &action, nullptr);
    }
}

/* ---- a round ------------------------------------------------------------------------------------------------------
 */

struct Result {
    uint64_t steps;
    size_t live_bytes; /* after everything was freed */
};

/* Lets the main thread act for an actor whose threads have ended. */
inline void clear(Actor &actor) {
    Block block = {};
    actor.operation = "the end";
    while (take(actor, block))
        release(actor, block);
    for (Block &slot : actor.slots)
        release(actor, slot);
    actor.require(actor.held_bytes == 0, "blocks were forgotten by the test", actor.held_bytes);
}

inline size_t live_of(const t_entries &api) {
    struct hz_stats stats = {};
    return api.stats_get_fn != nullptr && api.stats_get_fn(&stats, sizeof(stats)) == 0 ? stats.live_bytes : 0;
}

inline Result end_round(World &world) {
    Result result = {};
    const t_entries &api = *world.settings.api;
    for (size_t i = 0; i < world.settings.actors; i++) {
        clear(world.actors[i]);
        result.steps += world.actors[i].steps;
    }
    if (api.stats_get_fn == nullptr)
        return result;
    Actor &first = world.actors[0];
    result.live_bytes = live_of(api);
    if (!t_system)
        first.require(result.live_bytes == world.live_start, "live bytes at the end", result.live_bytes);
    (void)api.purge_fn();
    struct hz_stats stats = {};
    first.require(api.stats_get_fn(&stats, sizeof(stats)) == 0, "stats_get");
    if (!t_system)
        first.require(stats.cached_bytes == 0, "the purge left cached blocks", stats.cached_bytes);
    return result;
}

inline void prepare(World &world) {
    (void)exit_key();
    (void)null_device();
    signals_install(*world.settings.api);
    world.live_start = live_of(*world.settings.api);
}

/* ---- in lockstep --------------------------------------------------------------------------------------------------
 */

inline void *live_in_lockstep(void *argument) {
    auto *actor = static_cast<Actor *>(argument);
    actor->tid.store(own_tid());
    actor->world->wait_turn(*actor);
    act(*actor, UINT64_MAX);
    actor->world->finish(*actor);
    return nullptr;
}

/* Actors take turns on the bytes. The same bytes do the same. */
inline Result run_bytes(const t_entries &api, const uint8_t *bytes, size_t count, size_t held_bytes_max) {
    Settings settings;
    settings.api = &api;
    settings.lockstep = true;
    settings.held_bytes_max = held_bytes_max;
    World world(settings);
    prepare(world);
    Source source(bytes, count);
    for (size_t i = 0; i < settings.actors; i++) {
        world.actors[i].source = &source;
        if (threads::start(&world.actors[i].thread, live_in_lockstep, &world.actors[i]) != 0)
            abort();
    }
    const Actor &last = world.wait_finish(); /* the threads end one by one too */
    pthread_join(last.thread, nullptr);
    for (size_t i = 0; i < settings.actors; i++) {
        if (i == last.index)
            continue;
        world.pass_turn(i);
        pthread_join(world.actors[i].thread, nullptr);
    }
    return end_round(world);
}

/* ---- at the same time ---------------------------------------------------------------------------------------------
 */

struct Start {
    pthread_barrier_t all_here;
    uint64_t step_count;
    uint64_t seed;
};

struct Life {
    Actor *actor;
    Start *start;
    Source source{0};
};

inline void *live_freely(void *argument) {
    auto *life = static_cast<Life *>(argument);
    Actor &actor = *life->actor;
    life->source = Source(support::mix(life->start->seed + actor.index));
    actor.source = &life->source;
    actor.tid.store(own_tid());
    pthread_barrier_wait(&life->start->all_here);
    act(actor, life->start->step_count);
    return nullptr;
}

/* Actors act at the same time, each on choices that follow from the seed and its index. */
inline Result run_threads(const t_entries &api, uint64_t seed, size_t actors, uint64_t step_count) {
    Settings settings;
    settings.api = &api;
    settings.actors = actors;
    settings.held_bytes_max = 128 * MiB / std::max<size_t>(actors, 8);
    World world(settings);
    prepare(world);
    Start start = {{}, step_count, seed};
    pthread_barrier_init(&start.all_here, nullptr, static_cast<unsigned>(actors));
    Life *lives = map_new<Life>(actors);
    for (size_t i = 0; i < actors; i++) {
        lives[i].actor = &world.actors[i];
        lives[i].start = &start;
        if (threads::start(&world.actors[i].thread, live_freely, &lives[i]) != 0)
            abort();
    }
    for (size_t i = 0; i < actors; i++)
        pthread_join(world.actors[i].thread, nullptr);
    pthread_barrier_destroy(&start.all_here);
    map_delete(lives, actors);
    return end_round(world);
}

/* The bytes of a seeded round in lockstep. */
inline void fill_bytes(uint8_t *bytes, size_t count, uint64_t seed) {
    support::fill(bytes, count, support::mix(seed));
}

/* ---- a seeded round, as the stress test and soak run it -----------------------------------------------------------
 */

enum class Kind : uint8_t { threads, lockstep };

struct Round {
    Kind kind;
    uint64_t seed;
    size_t actors;  /* lockstep: always four */
    uint64_t steps; /* of each actor; lockstep: bytes */
};

inline Result run_round(const t_entries &api, const Round &round) {
    snprintf(repeat_text, sizeof repeat_text,
             "operations: to repeat the round: soak --rounds 1 --seed %" PRIu64
             " --kind %s --threads %zu --steps %" PRIu64 "\n",
             round.seed, round.kind == Kind::lockstep ? "lockstep" : "threads", round.actors, round.steps);
    if (round.kind == Kind::threads)
        return run_threads(api, round.seed, round.actors, round.steps);
    auto *bytes = map_new<uint8_t>(round.steps);
    fill_bytes(bytes, round.steps, round.seed);
    Result result = run_bytes(api, bytes, round.steps, 32 * MiB);
    map_delete(bytes, round.steps);
    return result;
}

} // namespace operations

#endif
