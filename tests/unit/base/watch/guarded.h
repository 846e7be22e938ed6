/*
 * guarded.h - what the tests of the sampling guard share: a process of its own for each test, since a process can make
 * only one pool; and a look at memory that may be inaccessible.
 */
#ifndef HZ_TESTS_UNIT_BASE_WATCH_GUARDED_H
#define HZ_TESTS_UNIT_BASE_WATCH_GUARDED_H

#include "stress/children.h"
#include "unit/base/fixture.h"

namespace guarded {

using children::require;

/* Runs the body in a child that has a fresh pool. */
template <typename Body> void with_pool(Body body) {
    children::expect_good_end(children::start([&] {
        hz_callstack_prime();
        require(hz_guard_pool_make(7), "there is memory for the pool");
        body();
        return 0;
    }));
}

inline uintptr_t number(const void *address) {
    return reinterpret_cast<uintptr_t>(address);
}

/* Whether the program may read the byte: the kernel tries to read it for us. */
inline bool accessible(const void *address) {
    int ends[2];
    require(pipe(ends) == 0, "there is a pipe");
    bool done = write(ends[1], address, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return done;
}

inline size_t os_page() {
    return hz_os_page_bytes();
}

inline size_t stride() {
    return hz_round_up(HZ_GUARD_BLOCK_MAX, os_page()) + os_page();
}

/* The number of the slot in whose room the address is. */
inline size_t slot_of(const void *address) {
    return (number(address) - hz_load_rlx(&hz_guard_range.begin)) / stride();
}

inline bool at_left_edge(const void *block) {
    return number(block) % stride() == (hz_load_rlx(&hz_guard_range.begin) + os_page()) % stride();
}

/* The first byte behind the room of the block's slot. */
inline char *room_end(const void *block) {
    uintptr_t begin = hz_load_rlx(&hz_guard_range.begin);
    return reinterpret_cast<char *>(begin + (slot_of(block) + 1) * stride());
}

} // namespace guarded

#endif
