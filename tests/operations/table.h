/*
 * table.h - the operations and how often each is chosen. One byte of the source chooses an operation; one of them,
 * `rare`, takes another byte to choose from the second table.
 */
#ifndef HZ_TESTS_OPERATIONS_TABLE_H
#define HZ_TESTS_OPERATIONS_TABLE_H

#include "operations/process_operations.h"

namespace operations {

enum class When : uint8_t {
    always,
    not_in_child,     /* a child of a process with threads may not use stdio and dlopen, whose locks may be held */
    with_system_names /* also not in a child */
};

struct Operation {
    const char *name;
    size_t weight; /* of 256 */
    void (*run)(Actor &actor);
    When when = When::always;
};

inline constexpr Operation rare_operations[] = {
    {"purge", 50, do_purge},
    {"limit", 50, do_limit},
    {"fork", 16, do_fork},
    {"free all", 40, do_free_all},
    {"introspect", 40, do_introspect, When::with_system_names},
    {"mallopt", 30, do_mallopt, When::with_system_names},
    {"library", 30, do_library, When::with_system_names},
};

inline void do_rare(Actor &actor);

inline constexpr Operation common_operations[] = {
    {"malloc", 50, do_malloc},
    {"calloc", 16, do_calloc},
    {"aligned", 16, do_aligned},
    {"new", 8, do_new, When::with_system_names},
    {"realloc", 30, do_realloc},
    {"free", 24, do_free},
    {"verify", 4, do_verify},
    {"widen", 8, do_widen},
    {"refuse", 2, do_refuse},
    {"give", 24, do_give},
    {"take", 20, do_take},
    {"burst", 10, do_burst},
    {"zone", 4, do_zone},
    {"pass", 24, do_pass},
    {"thread", 4, do_thread},
    {"signal", 4, do_signal},
    {"stats", 4, do_stats, When::not_in_child},
    {"rare", 4, do_rare},
};

template <size_t count> constexpr size_t weight_of(const Operation (&table)[count]) {
    size_t sum = 0;
    for (const Operation &operation : table)
        sum += operation.weight;
    return sum;
}
static_assert(weight_of(common_operations) == 256 && weight_of(rare_operations) == 256, "one byte chooses");

inline bool is_possible(const Actor &actor, When when) {
    if (when == When::always)
        return true;
    return !actor.world->alone && (when == When::not_in_child || t_system);
}

template <size_t count> void run_one(Actor &actor, const Operation (&table)[count]) {
    size_t choice = actor.below(256);
    const Operation *operation = table;
    while (choice >= operation->weight)
        choice -= operation++->weight;
    actor.operation = operation->name;
    if (is_possible(actor, operation->when))
        operation->run(actor);
}

inline void do_rare(Actor &actor) {
    run_one(actor, rare_operations);
}

/* At most so many steps; in lockstep also ends with the bytes. */
inline void act(Actor &actor, uint64_t step_count) {
    for (uint64_t i = 0; i < step_count; i++) {
        if (!actor.source->more())
            return;
        actor.steps++;
        run_one(actor, common_operations);
    }
}

} // namespace operations

#endif
