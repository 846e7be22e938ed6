/*
 * memory.cc - models memory orders, after C11 with the release sequences of C++20. A load can return any value that the
 * loading thread does not know to be overwritten: its past has no later store to the object, and no load of a later
 * store's value by any thread. An acquire load of a released value gets the releaser's past. A read-modify-write always
 * finds the newest value, and passes on what was released there before it.
 *
 * Old values show all that a thread's loads can do before its earlier stores are visible. The store buffers add what
 * only read-modify-writes and other stores can see: stores that become visible after later operations of their thread.
 * A store is not delayed beyond a later release of its thread, nor beyond a later change of the same object, nor
 * beyond a barrier, a wait or a wake. C11 allows the rest.
 */
#include "model/hooks.h"
#include "model/run.h"

#include <algorithm>
#include <cstring>

namespace model {

namespace {

constexpr size_t history_most = 8;
constexpr unsigned old_one_in = 4;
constexpr unsigned failure_one_in = 16;
constexpr unsigned delay_one_in = 2;
constexpr unsigned settle_one_in = 8;
constexpr unsigned delay_most = 12; /* in points of the thread */

/* A single thread needs no watching. */
bool is_watched() {
    return myself != nullptr && run->together;
}

bool acquires(int order) {
    return order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
}

bool releases(int order) {
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

/* The store is part of the past that it releases. `passed_on`: what a read-modify-write found released there. */
void add_store(Place &place, uint64_t value, int order, const Clock &passed_on) {
    Moment moment = now();
    Clock released = passed_on;
    if (releases(order))
        released.join(myself->clock);
    place.stores.push_back({value, moment, released, {}});
    if (place.stores.size() > history_most)
        place.stores.erase(place.stores.begin());
}

uint64_t value_at(const volatile void *address, unsigned size) {
    uint64_t value = 0;
    std::memcpy(&value, const_cast<const void *>(address), size);
    return value;
}

/* The store gets the place in the object's order of stores that it would have had if it were made now. */
void make_visible(const Delayed &store) {
    Place &place = place_of(store.address, value_at(store.address, store.size));
    std::memcpy(const_cast<void *>(store.address), &store.value, store.size);
    place.stores.push_back({store.value, store.moment, store.released, {}});
    if (place.stores.size() > history_most)
        place.stores.erase(place.stores.begin());
}

/* The store at `index` leaves the buffer, if it is a release after all older ones. */
void settle(Thread &thread, size_t index) {
    auto at = thread.delayed.begin() + static_cast<ptrdiff_t>(index);
    auto first = at->is_release ? thread.delayed.begin() : at;
    std::for_each(first, at + 1, make_visible);
    thread.delayed.erase(first, at + 1);
}

/* The number of the buffered store to the object, or the number of buffered stores. */
size_t find_delayed(const Thread &thread, const volatile void *address) {
    size_t index = 0;
    while (index < thread.delayed.size() && thread.delayed[index].address != address)
        index++;
    return index;
}

/* A thread that has this moment in its past cannot read an older value than this store's. */
void note_read(Store &store) {
    if (store.read_at[myself->index] == 0)
        store.read_at[myself->index] = now().time;
}

bool is_known(const Store &store) {
    bool known = has_happened(store.moment);
    for (unsigned thread = 0; thread < THREADS_MAX; thread++)
        known = known || (store.read_at[thread] != 0 && has_happened({thread, store.read_at[thread]}));
    return known;
}

/* The oldest value that the calling thread can still see. */
size_t oldest_visible(const Place &place) {
    size_t at = place.stores.size() - 1;
    while (at > 0 && !is_known(place.stores[at]))
        at--;
    return at;
}

} // namespace

void Clock::join(const Clock &other) {
    for (unsigned thread = 0; thread < THREADS_MAX; thread++)
        at[thread] = std::max(at[thread], other.at[thread]);
}

Moment now() {
    return {myself->index, ++myself->clock.at[myself->index]};
}

bool has_happened(Moment moment) {
    return myself->clock.at[moment.thread] >= moment.time;
}

/* A value that was stored without the hooks (zeroed memory, a bin's top, what the main thread did alone) is in every
   thread's past. */
Place &place_of(const volatile void *address, uint64_t newest) {
    auto [found, is_new] = run->places.try_emplace(address);
    Place &place = found->second;
    if (is_new)
        place.number = static_cast<unsigned>(run->places.size());
    if (place.stores.empty() || place.stores.back().value != newest) {
        place.stores.assign(1, {newest, {0, 0}, {}, {}});
    }
    return place;
}

void settle_some(Thread &thread) {
    for (size_t index = thread.delayed.size(); index-- > 0;) {
        if (index >= thread.delayed.size()) /* a release took older ones along */
            continue;
        if (--thread.delayed[index].points_left == 0 || run->schedule.chance(settle_one_in))
            settle(thread, index);
    }
}

void settle_all(Thread &thread) {
    std::for_each(thread.delayed.begin(), thread.delayed.end(), make_visible);
    thread.delayed.clear();
}

} // namespace model

using namespace model;

void hz_model_settle(const volatile void *address, int order) {
    if (!is_watched() || myself->delayed.empty())
        return;
    if (releases(order)) {
        settle_all(*myself);
        return;
    }
    size_t index = find_delayed(*myself, address);
    if (index < myself->delayed.size())
        settle(*myself, index);
}

bool hz_model_delays(const volatile void *address, uint64_t before, uint64_t after, unsigned size, int order) {
    if (!is_watched())
        return false;
    bool is_delayed = run->schedule.is_delaying() && !myself->at_private && order != __ATOMIC_SEQ_CST &&
                      before != after && run->schedule.chance(delay_one_in);
    if (!is_delayed) {
        hz_model_settle(address, order);
        return false;
    }
    hz_model_settle(address, __ATOMIC_RELAXED);
    Moment moment = now();
    Clock released = releases(order) ? myself->clock : Clock{};
    myself->delayed.push_back({address, after, size, releases(order), moment, released, delay_most});
    return true;
}

uint64_t hz_model_loaded(const volatile void *address, uint64_t newest, int order) {
    if (!is_watched())
        return newest;
    size_t own = find_delayed(*myself, address);
    if (own < myself->delayed.size())
        return myself->delayed[own].value;
    if (run->places.count(address) == 0)
        return newest;
    Place &place = place_of(address, newest);
    size_t at = place.stores.size() - 1;
    if (run->schedule.is_weak() && run->schedule.chance(old_one_in)) {
        size_t oldest = oldest_visible(place);
        size_t chosen = oldest + run->schedule.below(static_cast<unsigned>(at - oldest + 1));
        Report &report = *run->report;
        report.last[(report.noted - 1) % Report::STEPS_KEPT].is_old = chosen != at;
        at = chosen;
    }
    note_read(place.stores[at]);
    if (acquires(order))
        myself->clock.join(place.stores[at].released);
    return place.stores[at].value;
}

void hz_model_stored(const volatile void *address, uint64_t before, uint64_t after, int order) {
    if (!is_watched())
        return;
    add_store(place_of(address, before), after, order, Clock{});
    if (releases(order))
        point_after();
}

void hz_model_changed(const volatile void *address, uint64_t before, uint64_t after, int order) {
    if (!is_watched())
        return;
    Place &place = place_of(address, before);
    Clock passed_on = place.stores.back().released;
    if (acquires(order))
        myself->clock.join(passed_on);
    note_read(place.stores.back());
    add_store(place, after, order, passed_on);
    point_after();
}

void hz_model_failed(const volatile void *address, uint64_t seen, int order) {
    if (!is_watched() || run->places.count(address) == 0)
        return;
    Place &place = place_of(address, seen);
    note_read(place.stores.back());
    if (acquires(order))
        myself->clock.join(place.stores.back().released);
}

bool hz_model_fails_by_chance() {
    return is_watched() && run->schedule.is_weak() && run->schedule.chance(failure_one_in);
}
