/*
 * chores.h - the chores that give memory back, and their drivers; chores.def says which driver does which chore. A tick
 * does its chores in small steps, in a slow path of malloc or free. A round of the keeper does each of its chores
 * whole. On demand, chores do not wait until memory has aged.
 *
 * With a keeper, ticks do only what cannot wait for its next round. Without one, ticks do nearly all chores, because
 * each tick can be the thread's last.
 */
#ifndef HZ_HEAP_BACK_CHORES_H
#define HZ_HEAP_BACK_CHORES_H

#include "heap/back/pressure.h"
#include "heap/threads/sleepers.h"

/* What one turn of a driver knows and finds. */
struct hz_turn {
    enum hz_driver driver;
    uint64_t now_ms;
    unsigned busy;             /* of a tick: the bin for which the thread is in a slow path */
    bool can_park;             /* others can be parked: the barrier of all threads works */
    bool anew;                 /* on demand: map what is purged anew, */
    size_t keep_bytes;         /* and leave so many bytes of free pages */
    bool has_more;             /* found by a tick: the next one should come soon */
    bool has_changed;          /* found by a round: something has changed, or waits for the next one */
    enum hz_activity activity; /* found by a round: the busiest thread's */
    size_t rest_bytes;         /* found by a round: in the depot, and in bins of threads that are not parked */
};

/* Does the driver's chores. Any thread that is attached, in a slow path, holding no lock. */
void hz_chores_do(struct hz_thread_block *self, struct hz_turn *turn);

#define CHORE(name, drivers, every_ms, text) HZ_CHORE_##name,
enum hz_chore {
#include "heap/back/chores.def"
    HZ_CHORES
};
#undef CHORE

/* Does one chore, as if it was its time. True if a tick has left some of it for the next one. */
bool hz_chore_do(struct hz_thread_block *self, enum hz_chore chore, struct hz_turn *turn);

#endif
