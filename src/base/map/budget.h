/*
 * budget.h - how much free memory may rest, and how much memory the heap may hold. arena.c knows the figures and does
 * the purging. Any thread.
 */
#ifndef HZ_BASE_MAP_BUDGET_H
#define HZ_BASE_MAP_BUDGET_H

#include "base/os/compiler.h"

/* All in bytes: what is used, what rests, and how much of that in units of regions. */

/* The dirty budget: what may rest, that is, be free and hold memory. The fixed part, 1/64 of what is used, and for a
   loop that frees and allocates it again up to 128 MiB more. */
size_t hz_budget_limit(size_t used, size_t resting_units);

/* `bytes` were purged because the budget was exceeded. */
void hz_budget_purged(size_t bytes);

/* An allocation got `fresh` bytes that hold no memory and `reused` bytes that rested. */
void hz_budget_learn(size_t fresh, size_t reused, size_t used, size_t resting);

/* Whether there is an addition for loops that no allocation has needed yet since the last tick. */
bool hz_budget_has_idle_loop(void);

/* At each tick: halves the addition for loops if it was not needed since the last one, and ends it once nothing rests.
 */
void hz_budget_age(size_t resting);

/* Sets the fixed part, at first 4 MiB. True if it was larger; then the addition for loops is forgotten, and the caller
   purges what exceeds the budget. */
bool hz_budget_rest_set(size_t bytes);

/* The kernel took pages back, or refused to (`done` is false), since they are locked. After a refusal no page is purged
   unasked for a second. Each further refusal doubles the pause, up to 64 s. */
void hz_budget_told(bool done);
bool hz_budget_is_paused(void);

/* Limits of what is held; 0: none. `is_groups`: the soft limit is the control group's. It does not count direct
   blocks, which the program may not have touched, but it counts metadata, at most 1/16 of the limit. */
void hz_budget_limits_set(size_t soft_bytes, size_t hard_bytes, bool is_groups);
bool hz_budget_limit_is_groups(void);
size_t hz_budget_soft_limit(void);
size_t hz_budget_hard_limit(void);

#endif
