/*
 * broken.h - allocators with one bug each, made from the one under test. They show that the operations find such bugs.
 */
#ifndef HZ_TESTS_OPERATIONS_BROKEN_H
#define HZ_TESTS_OPERATIONS_BROKEN_H

#include "contract/support.h"

#include <atomic>
#include <cerrno>

namespace broken {

/* True once in a while: on every 50th call. */
inline bool now() {
    static std::atomic<size_t> calls{0};
    return ++calls % 50 == 0;
}

inline std::atomic<void *> last{nullptr};

/* A block is handed out twice. It is never freed, so only its contents show the bug. */
inline void *give_twice(size_t size) {
    if (size >= 64 && now()) {
        void *block = last.load();
        if (block != nullptr && t_usable_size(block) >= size && t_usable_size(block) <= size + size / 8)
            return block;
    }
    void *block = t_malloc(size);
    if (size >= 64)
        last.store(block);
    return block;
}

inline void keep(void *block) {
    if (block != last.load())
        t_free(block);
}

inline void lose(void *block) {
    if (!now())
        t_free(block);
}

inline void free_and_set_errno(void *block) {
    t_free(block);
    errno = ENOENT;
}

inline void *leave_dirt(size_t count, size_t size) {
    auto *block = static_cast<unsigned char *>(t_calloc(count, size));
    if (block != nullptr && count * size > 100 && now())
        block[99] = 1;
    return block;
}

inline size_t overstate(const void *block) {
    return t_usable_size(block) + (t_usable_size(block) > 200 ? 16 : 0);
}

/* As when a block is put into a bin of another class. */
inline void *mix_up(void *block, size_t size) {
    return t_realloc(block, size > 300 && now() ? size / 2 : size);
}

inline void *forget(void *block, size_t size) {
    void *moved = t_realloc(block, size);
    if (moved != nullptr && size > 100 && now())
        memset(static_cast<char *>(moved) + 50, 0, 8);
    return moved;
}

inline void *misalign(size_t alignment, size_t size) {
    return t_aligned_alloc(alignment > 64 ? 16 : alignment, size);
}

inline void *accept_all(size_t size) {
    return t_malloc(size > PTRDIFF_MAX ? 100 : size);
}

inline void *give_up(size_t size) {
    if (size != 0 && now())
        return nullptr;
    return t_malloc(size);
}

inline int ignore_limit(size_t soft, size_t) {
    return t_table.limit_set_fn(soft, 0);
}

/* The common heap instead of the zone. */
inline void *leave_zone(struct hz_zone *, size_t size) {
    return t_malloc(size);
}

inline void *leave_dirt_in_zone(struct hz_zone *zone, size_t count, size_t size) {
    auto *block = static_cast<unsigned char *>(t_table.zone_calloc_fn(zone, count, size));
    if (block != nullptr && count * size > 100)
        block[99] = 1;
    return block;
}

struct Bug {
    const char *name;
    const char *text; /* one of these words is in the report */
    void (*plant)(t_entries &);
};

inline constexpr Bug bugs[] = {
    {"GivesABlockTwice", "contents were damaged|usable size changed|double free",
     [](t_entries &e) { e.malloc_fn = give_twice, e.free_fn = keep; }},
    {"LosesABlock", "live bytes", [](t_entries &e) { e.free_fn = lose; }},
    {"ChangesErrno", "free changed errno", [](t_entries &e) { e.free_fn = free_and_set_errno; }},
    {"LeavesDirt", "calloc gave bytes that are not zero", [](t_entries &e) { e.calloc_fn = leave_dirt; }},
    {"LeavesTheZone", "a block is not of its zone", [](t_entries &e) { e.zone_malloc_fn = leave_zone; }},
    {"LeavesDirtInAZone", "a zone's calloc gave bytes that are not zero",
     [](t_entries &e) { e.zone_calloc_fn = leave_dirt_in_zone; }},
    {"OverstatesTheUsableSize", "usable size is not the good size|contents were damaged",
     [](t_entries &e) { e.usable_size_fn = overstate; }},
    {"MixesUpClasses", "usable size below the size|realloc lost contents", [](t_entries &e) { e.realloc_fn = mix_up; }},
    {"ForgetsContents", "realloc lost contents", [](t_entries &e) { e.realloc_fn = forget; }},
    {"Misaligns", "wrong alignment", [](t_entries &e) { e.aligned_alloc_fn = misalign; }},
    {"AcceptsEverySize", "a bad request did not fail", [](t_entries &e) { e.malloc_fn = accept_all; }},
    {"GivesUp", "NULL without a limit", [](t_entries &e) { e.malloc_fn = give_up; }},
    {"IgnoresTheLimit", "limit: limit_get", [](t_entries &e) { e.limit_set_fn = ignore_limit; }},
};

} // namespace broken

#endif
