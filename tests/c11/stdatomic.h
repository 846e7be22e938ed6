/*
 * stdatomic.h - lets C++ tests read the library's C11 headers. It stands in for the C standard's header of that name,
 * and maps what base/os/atomic.h uses to the compiler's own atomic operations, or, in model tests, to points of the
 * model's scheduler. The library itself is never compiled with it.
 *
 * _Atomic(T) becomes T, which has the same size and alignment on the machines we test on (static_asserts below).
 */
#ifndef HZ_TESTS_C11_STDATOMIC_H
#define HZ_TESTS_C11_STDATOMIC_H

#pragma GCC system_header

/* the library's headers are included inside extern "C" */
extern "C++" {

#include <atomic>
#include <cstdint>

#define _Atomic(type) type
#define _Static_assert static_assert

static_assert(sizeof(std::atomic<uint64_t>) == sizeof(uint64_t) && alignof(std::atomic<uint64_t>) == alignof(uint64_t));
static_assert(sizeof(std::atomic<uint8_t>) == 1 && sizeof(std::atomic<bool>) == 1);

using std::atomic_signal_fence;
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

template <typename T> struct hz_same { using type = T; };
/* Keeps the compiler from deducing T from this parameter: T comes from another one. */
template <typename T> using hz_value = typename hz_same<T>::type;

#ifdef HZ_MODEL_POINTS
#include "model/points_cc.h"
#else

template <typename T> T atomic_load_explicit(const T *place, std::memory_order order) {
    return __atomic_load_n(place, static_cast<int>(order));
}
template <typename T> void atomic_store_explicit(T *place, hz_value<T> value, std::memory_order order) {
    __atomic_store_n(place, value, static_cast<int>(order));
}
template <typename T> T atomic_exchange_explicit(T *place, hz_value<T> value, std::memory_order order) {
    return __atomic_exchange_n(place, value, static_cast<int>(order));
}
template <typename T> T atomic_fetch_add_explicit(T *place, hz_value<T> value, std::memory_order order) {
    return __atomic_fetch_add(place, value, static_cast<int>(order));
}
template <typename T> T atomic_fetch_sub_explicit(T *place, hz_value<T> value, std::memory_order order) {
    return __atomic_fetch_sub(place, value, static_cast<int>(order));
}
template <typename T> T atomic_fetch_or_explicit(T *place, hz_value<T> value, std::memory_order order) {
    return __atomic_fetch_or(place, value, static_cast<int>(order));
}
template <typename T> T atomic_fetch_and_explicit(T *place, hz_value<T> value, std::memory_order order) {
    return __atomic_fetch_and(place, value, static_cast<int>(order));
}
template <typename T>
bool atomic_compare_exchange_weak_explicit(T *place, hz_value<T> *expected, hz_value<T> value,
                                           std::memory_order success, std::memory_order failure) {
    return __atomic_compare_exchange_n(place, expected, value, true, static_cast<int>(success),
                                       static_cast<int>(failure));
}
template <typename T>
bool atomic_compare_exchange_strong_explicit(T *place, hz_value<T> *expected, hz_value<T> value,
                                             std::memory_order success, std::memory_order failure) {
    return __atomic_compare_exchange_n(place, expected, value, false, static_cast<int>(success),
                                       static_cast<int>(failure));
}

#endif
} /* extern "C++" */

#endif
