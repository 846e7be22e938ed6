/*
 * points_cc.h - makes every atomic operation in a scenario a point of the model's scheduler, as points.h does in the
 * library. That covers the scenario's own operations, and the library's inline functions in it. Only
 * tests/c11/stdatomic.h includes this file.
 */
#ifndef HZ_TESTS_MODEL_POINTS_CC_H
#define HZ_TESTS_MODEL_POINTS_CC_H

#include "model/hooks.h"

#include <cstring>

template <typename T> uint64_t hz_model_bits(T value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(value));
    return bits;
}

/* The source line of an operation, which is the default argument of the functions below. */
struct hz_model_here {
    const char *file;
    int line;
};
#define HZ_MODEL_HERE                                                                                                  \
    hz_model_here {                                                                                                    \
        __builtin_FILE(), __builtin_LINE()                                                                             \
    }

template <typename T>
T atomic_load_explicit(const T *place, std::memory_order order, hz_model_here here = HZ_MODEL_HERE) {
    hz_model_point(here.file, here.line, place);
    T newest = *const_cast<const volatile T *>(place);
    uint64_t bits = hz_model_loaded(place, hz_model_bits(newest), static_cast<int>(order));
    T value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

template <typename T>
void atomic_store_explicit(T *place, hz_value<T> value, std::memory_order order, hz_model_here here = HZ_MODEL_HERE) {
    hz_model_point(here.file, here.line, place);
    T after = value;
    uint64_t before = hz_model_bits(*place);
    if (hz_model_delays(place, before, hz_model_bits(after), sizeof(T), static_cast<int>(order)))
        return;
    *place = after;
    hz_model_stored(place, before, hz_model_bits(after), static_cast<int>(order));
}

/* A read-modify-write, after its point. Returns what was there before. */
template <typename T> T hz_model_change(T *place, hz_value<T> after, std::memory_order order) {
    T before = *place;
    *place = after;
    hz_model_changed(place, hz_model_bits(before), hz_model_bits(after), static_cast<int>(order));
    return before;
}

template <typename T>
T atomic_exchange_explicit(T *place, hz_value<T> value, std::memory_order order, hz_model_here here = HZ_MODEL_HERE) {
    hz_model_point(here.file, here.line, place);
    hz_model_settle(place, static_cast<int>(order));
    return hz_model_change(place, value, order);
}
template <typename T>
T atomic_fetch_add_explicit(T *place, hz_value<T> value, std::memory_order order, hz_model_here here = HZ_MODEL_HERE) {
    hz_model_point(here.file, here.line, place);
    hz_model_settle(place, static_cast<int>(order));
    return hz_model_change(place, static_cast<T>(*place + value), order);
}
template <typename T>
T atomic_fetch_sub_explicit(T *place, hz_value<T> value, std::memory_order order, hz_model_here here = HZ_MODEL_HERE) {
    hz_model_point(here.file, here.line, place);
    hz_model_settle(place, static_cast<int>(order));
    return hz_model_change(place, static_cast<T>(*place - value), order);
}
template <typename T>
T atomic_fetch_or_explicit(T *place, hz_value<T> value, std::memory_order order, hz_model_here here = HZ_MODEL_HERE) {
    hz_model_point(here.file, here.line, place);
    hz_model_settle(place, static_cast<int>(order));
    return hz_model_change(place, static_cast<T>(*place | value), order);
}
template <typename T>
T atomic_fetch_and_explicit(T *place, hz_value<T> value, std::memory_order order, hz_model_here here = HZ_MODEL_HERE) {
    hz_model_point(here.file, here.line, place);
    hz_model_settle(place, static_cast<int>(order));
    return hz_model_change(place, static_cast<T>(*place & value), order);
}

/* A compare-and-swap, after its point. A failed one is a load of the newest value. */
template <typename T>
bool hz_model_swap(T *place, T *expected, hz_value<T> value, std::memory_order success, std::memory_order failure,
                   bool fails_by_chance) {
    hz_model_settle(place, static_cast<int>(success));
    if (*place == *expected && !fails_by_chance) {
        hz_model_change(place, value, success);
        return true;
    }
    *expected = *place;
    hz_model_failed(place, hz_model_bits(*place), static_cast<int>(failure));
    return false;
}

template <typename T>
bool atomic_compare_exchange_weak_explicit(T *place, hz_value<T> *expected, hz_value<T> value,
                                           std::memory_order success, std::memory_order failure,
                                           hz_model_here here = HZ_MODEL_HERE) {
    hz_model_point(here.file, here.line, place);
    return hz_model_swap(place, expected, value, success, failure, hz_model_fails_by_chance());
}
template <typename T>
bool atomic_compare_exchange_strong_explicit(T *place, hz_value<T> *expected, hz_value<T> value,
                                             std::memory_order success, std::memory_order failure,
                                             hz_model_here here = HZ_MODEL_HERE) {
    hz_model_point(here.file, here.line, place);
    return hz_model_swap(place, expected, value, success, failure, false);
}

#endif
