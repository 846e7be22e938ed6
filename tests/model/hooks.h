/*
 * hooks.h - what the library calls around each atomic operation when it is compiled for the model tests (points.h).
 * scheduler.cc answers. `place` is the address of the atomic object; values travel as 64 bits, zero-extended; `order`
 * is one of the __ATOMIC_* numbers.
 */
#ifndef HZ_TESTS_MODEL_HOOKS_H
#define HZ_TESTS_MODEL_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Before the operation: here another thread may be let run. */
void hz_model_point(const char *file, int line, const volatile void *place);

/* What a load gives, of which the newest value is known: that, or an older one that the order still allows. */
uint64_t hz_model_loaded(const volatile void *place, uint64_t newest, int order);

/* After a store, and after a read-modify-write: what was there, what is there now. */
void hz_model_stored(const volatile void *place, uint64_t before, uint64_t after, int order);
void hz_model_changed(const volatile void *place, uint64_t before, uint64_t after, int order);

/* After a compare-and-swap that changed nothing. */
void hz_model_failed(const volatile void *place, uint64_t seen, int order);

/* Whether this weak compare-and-swap fails although the values agree. */
bool hz_model_fails_by_chance(void);

#ifdef __cplusplus
}
#endif

#endif
