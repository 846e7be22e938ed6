/*
 * points.h - makes every atomic operation of the library a point of the model's scheduler. The compiler reads it before
 * each source (`-include`). src/base/os/atomic.h uses only the standard's macros, and this file redefines them. So
 * nothing in src knows of the model, and the model cannot change any other build.
 *
 * Only the thread that has the baton runs, so the operations themselves are plain. memory.cc models their memory
 * orders. hz_slot_* and hz_owner_add_rel are no points, because only its owner changes a bin.
 */
#ifndef HZ_TESTS_MODEL_POINTS_H
#define HZ_TESTS_MODEL_POINTS_H

/* Nested uses of the macros below would warn about names that hide others. */
#pragma GCC system_header

#include "hooks.h"

#include <stdatomic.h>
#include <string.h>

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_compare_exchange_strong_explicit

static inline uint64_t hz_model_bits(const void *value, size_t size) {
    uint64_t bits = 0;
    memcpy(&bits, value, size);
    return bits;
}

/* Defines `hz_place`, and `hz_type`: the type of the object there, without _Atomic. */
#define HZ_MODEL_PLACE(p)                                                                                              \
    __auto_type hz_place = (p);                                                                                        \
    typedef __typeof__((void)0, *hz_place) hz_type

#define HZ_MODEL_POINT() hz_model_point(__FILE__, __LINE__, (const volatile void *)hz_place)
#define HZ_MODEL_NOW     (*(volatile hz_type *)hz_place)

#define atomic_load_explicit(p, order)                                                                                 \
    __extension__({                                                                                                    \
        HZ_MODEL_PLACE(p);                                                                                             \
        HZ_MODEL_POINT();                                                                                              \
        hz_type hz_value = HZ_MODEL_NOW;                                                                               \
        uint64_t hz_bits =                                                                                             \
            hz_model_loaded((const volatile void *)hz_place, hz_model_bits(&hz_value, sizeof(hz_value)), (order));     \
        memcpy(&hz_value, &hz_bits, sizeof(hz_value));                                                                 \
        hz_value;                                                                                                      \
    })

#define atomic_store_explicit(p, v, order)                                                                             \
    __extension__({                                                                                                    \
        HZ_MODEL_PLACE(p);                                                                                             \
        hz_type hz_after = (v);                                                                                        \
        HZ_MODEL_POINT();                                                                                              \
        hz_type hz_before = HZ_MODEL_NOW;                                                                              \
        uint64_t hz_old = hz_model_bits(&hz_before, sizeof(hz_before));                                                \
        uint64_t hz_new = hz_model_bits(&hz_after, sizeof(hz_after));                                                  \
        if (!hz_model_delays((const volatile void *)hz_place, hz_old, hz_new, sizeof(hz_after), (order))) {            \
            HZ_MODEL_NOW = hz_after;                                                                                   \
            hz_model_stored((const volatile void *)hz_place, hz_old, hz_new, (order));                                 \
        }                                                                                                              \
    })

/* `result` may use hz_before and hz_operand. The value is what was there before. */
#define HZ_MODEL_CHANGE(p, v, order, result)                                                                           \
    __extension__({                                                                                                    \
        HZ_MODEL_PLACE(p);                                                                                             \
        hz_type hz_operand = (v);                                                                                      \
        HZ_MODEL_POINT();                                                                                              \
        hz_model_settle((const volatile void *)hz_place, (order));                                                     \
        hz_type hz_before = HZ_MODEL_NOW;                                                                              \
        hz_type hz_after = (hz_type)(result);                                                                          \
        HZ_MODEL_NOW = hz_after;                                                                                       \
        hz_model_changed((const volatile void *)hz_place, hz_model_bits(&hz_before, sizeof(hz_before)),                \
                         hz_model_bits(&hz_after, sizeof(hz_after)), (order));                                         \
        hz_before;                                                                                                     \
    })

#define atomic_exchange_explicit(p, v, order)  HZ_MODEL_CHANGE(p, v, order, hz_operand)
#define atomic_fetch_add_explicit(p, v, order) HZ_MODEL_CHANGE(p, v, order, hz_before + hz_operand)
#define atomic_fetch_sub_explicit(p, v, order) HZ_MODEL_CHANGE(p, v, order, hz_before - hz_operand)
#define atomic_fetch_or_explicit(p, v, order)  HZ_MODEL_CHANGE(p, v, order, hz_before | hz_operand)
#define atomic_fetch_and_explicit(p, v, order) HZ_MODEL_CHANGE(p, v, order, hz_before &hz_operand)

/* A failed swap is a load of the newest value. */
#define HZ_MODEL_SWAP(p, e, v, success, failure, chance)                                                               \
    __extension__({                                                                                                    \
        HZ_MODEL_PLACE(p);                                                                                             \
        hz_type *hz_expected = (e);                                                                                    \
        hz_type hz_after = (v);                                                                                        \
        HZ_MODEL_POINT();                                                                                              \
        hz_model_settle((const volatile void *)hz_place, (success));                                                   \
        hz_type hz_before = HZ_MODEL_NOW;                                                                              \
        bool hz_swaps = hz_before == *hz_expected && !(chance);                                                        \
        if (hz_swaps)                                                                                                  \
            HZ_MODEL_NOW = hz_after;                                                                                   \
        else                                                                                                           \
            *hz_expected = hz_before;                                                                                  \
        uint64_t hz_bits = hz_model_bits(&hz_before, sizeof(hz_before));                                               \
        if (hz_swaps)                                                                                                  \
            hz_model_changed((const volatile void *)hz_place, hz_bits, hz_model_bits(&hz_after, sizeof(hz_after)),     \
                             (success));                                                                               \
        else                                                                                                           \
            hz_model_failed((const volatile void *)hz_place, hz_bits, (failure));                                      \
        hz_swaps;                                                                                                      \
    })

#define atomic_compare_exchange_weak_explicit(p, e, v, success, failure)                                               \
    HZ_MODEL_SWAP(p, e, v, success, failure, hz_model_fails_by_chance())
#define atomic_compare_exchange_strong_explicit(p, e, v, success, failure)                                             \
    HZ_MODEL_SWAP(p, e, v, success, failure, false)

#endif
