/*
 * hooks.h - the functions that the library (points.h) and the scenarios (points_cc.h) call around each atomic
 * operation. scheduler.cc and memory.cc implement them. `place` is the address of the atomic object, values are
 * zero-extended to 64 bits, and `order` is one of the __ATOMIC_* numbers.
 */
#ifndef HZ_TESTS_MODEL_HOOKS_H
#define HZ_TESTS_MODEL_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Before the operation. Another thread can run here. */
void hz_model_point(const char *file, int line, const volatile void *place);

/* The value that a load returns: the newest one, or an older one that the memory order still allows. */
uint64_t hz_model_loaded(const volatile void *place, uint64_t newest, int order);

/* Before a store. True: the store waits in the thread's store buffer, so the caller does nothing. False: the caller
   stores `after` now, and says so with hz_model_stored. */
bool hz_model_delays(const volatile void *place, uint64_t before, uint64_t after, unsigned size, int order);

/* Before a read-modify-write: what has to be visible by then leaves the thread's store buffer. */
void hz_model_settle(const volatile void *place, int order);

/* After a store, and after a read-modify-write. */
void hz_model_stored(const volatile void *place, uint64_t before, uint64_t after, int order);
void hz_model_changed(const volatile void *place, uint64_t before, uint64_t after, int order);

/* After a compare-and-swap that changed nothing. */
void hz_model_failed(const volatile void *place, uint64_t seen, int order);

/* Whether a weak compare-and-swap fails although the values are equal. */
bool hz_model_fails_by_chance(void);

#ifdef __cplusplus
}
#endif

#endif
