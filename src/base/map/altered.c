/*
 * altered.c - see altered.h.
 */
#include "base/map/altered.h"

#include "base/map/budget.h"
#include "base/os/os.h"

enum {
    MARKS_OF_PAGE = HZ_PAGE_BYTES >> HZ_MARK_LOG2,
    CHILD_RENEWALS = 1024, /* so often a fork's child maps memory without marks anew: each time can add two mappings */
};

static _Atomic(bool) new_is_locked;                  /* hint */
static _Atomic(uint32_t) renewals_left = UINT32_MAX; /* hint; UINT32_MAX: any number */

/* The marks of word `word` within [first, after). */
static uint64_t marks_within(size_t word, size_t first, size_t after) {
    uint64_t from = first > word * 64 ? UINT64_MAX << (first - word * 64) : UINT64_MAX;
    uint64_t to = after < word * 64 + 64 ? (UINT64_C(1) << (after - word * 64)) - 1 : UINT64_MAX;
    return from & to;
}

void hz_altered_mark(struct hz_altered *altered, size_t offset, size_t bytes) {
    size_t first = offset >> HZ_MARK_LOG2;
    size_t after = (offset + bytes) >> HZ_MARK_LOG2;
    for (size_t word = first / 64; word * 64 < after; word++)
        (void)hz_or_rlx(&altered->marks[word], marks_within(word, first, after)); /* relaxed, both: see altered.h */
    unsigned page = (unsigned)(first / MARKS_OF_PAGE);
    unsigned pages = (unsigned)((after + MARKS_OF_PAGE - 1) / MARKS_OF_PAGE) - page;
    (void)hz_or_rlx(&altered->pages, UINT64_MAX >> (64 - pages) << page);
}

static void marks_clear(struct hz_altered *altered, size_t first, size_t after) {
    for (size_t word = first / 64; word * 64 < after; word++)
        if ((hz_load_rlx(&altered->marks[word]) & marks_within(word, first, after)) != 0) /* relaxed, both: owner */
            (void)hz_and_rlx(&altered->marks[word], ~marks_within(word, first, after));
}

/* The first run of marks in [first, after); *length is 0 if there is none. */
static size_t marks_find(struct hz_altered *altered, size_t first, size_t after, size_t *length) {
    size_t found = after, last = after;
    for (size_t word = first / 64; word * 64 < after; word++) {
        uint64_t marks = hz_load_rlx(&altered->marks[word]) & marks_within(word, first, after); /* relaxed: owner */
        if (found == after && marks != 0)
            found = word * 64 + (unsigned)__builtin_ctzll(marks);
        if (found == after)
            continue;
        uint64_t gaps = ~marks & marks_within(word, hz_max(found, word * 64), after);
        if (gaps != 0) {
            last = word * 64 + (unsigned)__builtin_ctzll(gaps);
            break;
        }
    }
    *length = last - found;
    return found;
}

static bool renew(struct hz_altered *altered, hz_huge_units *units, char *base, size_t offset, size_t bytes) {
    if (!hz_os_renew(base + offset, bytes))
        return false;
    hz_os_name(base + offset, bytes, HZ_NAME_BLOCKS); /* otherwise it stays a mapping of its own */
    hz_huge_tell_again(units, base, offset, bytes);
    marks_clear(altered, offset >> HZ_MARK_LOG2, (offset + bytes) >> HZ_MARK_LOG2);
    return true;
}

bool hz_altered_heal(struct hz_altered *altered, hz_huge_units *units, char *base, size_t offset, size_t bytes) {
    size_t first = offset >> HZ_MARK_LOG2;
    size_t after = (offset + bytes) >> HZ_MARK_LOG2;
    size_t length;
    bool is_usable = true;
    while ((first = marks_find(altered, first, after, &length)) < after) {
        size_t begin = first << HZ_MARK_LOG2, span = length << HZ_MARK_LOG2;
        if (!renew(altered, units, base, begin, span))
            is_usable &= hz_os_commit(base + begin, span);
        first += length;
    }
    return is_usable;
}

void hz_altered_forget(struct hz_altered *altered, unsigned first, unsigned pages) {
    for (unsigned page = first; page < first + pages; page++) {
        size_t length;
        size_t from = (size_t)page * MARKS_OF_PAGE;
        (void)marks_find(altered, from, from + MARKS_OF_PAGE, &length);
        if (length == 0)
            (void)hz_and_rlx(&altered->pages, ~(UINT64_C(1) << page)); /* relaxed: owner */
    }
}

/* Whether memory without marks may be mapped anew now. */
static bool may_renew(void) {
    uint32_t left = hz_load_rlx(&renewals_left); /* relaxed, all: hint */
    if (hz_load_rlx(&new_is_locked) || left == 0 || hz_os_is_confined())
        return false;
    if (HZ_UNLIKELY(left != UINT32_MAX))
        hz_store_rlx(&renewals_left, left - 1);
    return true;
}

/* The kernel does not take locked memory back. A new mapping is not locked, unless the program wants all new ones
   locked. If the program has said so behind our back, only the purge of the new mapping shows it. */
static bool unlock(struct hz_altered *altered, hz_huge_units *units, char *base, size_t offset, size_t bytes) {
    if (hz_load_rlx(&new_is_locked) || !renew(altered, units, base, offset, bytes)) /* relaxed, both: hint */
        return false;
    bool done = hz_os_purge(base + offset, bytes);
    if (!done)
        hz_store_rlx(&new_is_locked, true);
    return done;
}

/* The memory goes back. Notes whether its arena pages become plain. For a page in use the note means nothing: such a
   page is dirty. */
static void went_back(struct hz_altered *altered, size_t offset, size_t bytes, bool is_plain) {
    unsigned first = (unsigned)(offset >> HZ_PAGE_LOG2);
    unsigned last = (unsigned)((offset + bytes - 1) >> HZ_PAGE_LOG2);
    uint64_t pages = UINT64_MAX >> (63 - (last - first)) << first;
    if (is_plain)
        (void)hz_or_rlx(&altered->plain, pages); /* relaxed, all: owner */
    else if ((hz_load_rlx(&altered->plain) & pages) != 0)
        (void)hz_and_rlx(&altered->plain, ~pages);
}

bool hz_altered_give_back(struct hz_altered *altered, hz_huge_units *units, char *base, size_t offset, size_t bytes,
                          bool anew) {
    unsigned first = (unsigned)(offset >> HZ_PAGE_LOG2);
    unsigned last = (unsigned)((offset + bytes - 1) >> HZ_PAGE_LOG2);
    bool is_plain = anew && may_renew() && renew(altered, units, base, offset, bytes);
    went_back(altered, offset, bytes, is_plain);
    if (is_plain)
        return true;
    if (hz_altered_is_likely(altered, first, last - first + 1))
        (void)hz_altered_heal(altered, units, base, offset, bytes); /* if refused, the marks stay */
    bool done = hz_os_purge(base + offset, bytes) || unlock(altered, units, base, offset, bytes);
    hz_budget_told(done);
    return done;
}

void hz_altered_lock_set(bool is_locked) {
    hz_store_rlx(&new_is_locked, is_locked); /* relaxed: hint */
}

void hz_altered_after_fork(void) {
    hz_store_rlx(&new_is_locked, false); /* relaxed, both: one thread */
    hz_store_rlx(&renewals_left, CHILD_RENEWALS);
}
