/*
 * huge.c - see huge.h.
 *
 * A part of a unit can go back while another thread collapses the unit. The thread that gives the part back first
 * clears the unit's TRYING bit and refuses the unit. Then the kernel either refuses the collapse, or it collapsed the
 * unit before, and the part goes back from a huge page as any other part does. A unit that goes back as a whole only
 * loses the bit: the kernel finds nothing to collapse in it, and answers EINVAL.
 */
#include "base/map/huge.h"

#include "base/map/pagetag.h"
#include "base/os/os.h"

#include <errno.h>
#include <string.h>

enum {
    WANTED_BYTES = 32 << 20, /* of dense runs: one unit is then at most 1/16 more */
    OTHER_SHARE = 8,         /* at most 1/8 of the bytes in runs may be in others */
    SLOW_US = 2000,          /* a unit takes 0.1 to 0.3 ms, 512 faults of small pages 0.6 to 1 ms */
    PAUSE_LOG2 = 2, /* after a slow unit no other is wanted for 4 times as long; each time in a row doubles that, */
    PAUSE_LOG2_MAX = 10, /* to at most 1024 times */
    TRYING_SHIFT = 2,
    REFUSED_SHIFT = 4,
    COLLAPSE_SHARE = 20,         /* collapsing takes at most 1/20 of the time */
    COLLAPSE_RETRY_MS = 1000,    /* wait after the kernel refused a collapse. Each refusal in a row doubles the wait, */
    COLLAPSE_RETRY_LOG2_MAX = 6, /* up to 64 times */
    BLOCK_BYTES_MIN = 4 << 20,   /* shorter blocks get no huge pages, */
    BLOCK_SHARE = 4,             /* and all that have them are at most a quarter of the dense bytes */
    BLOCK_LOOP_MS = 1000,
    UNIT_PAGES = HZ_HUGE_BYTES / HZ_PAGE_BYTES,
    REFUSED_MAX = 4096, /* units that are refused at a time: each can cost a mapping, of which a process has 65,530 */
};

#define UNIT_MASK ((UINT64_C(1) << UNIT_PAGES) - 1)

enum mode { MADVISE, ALWAYS, NEVER };
enum { PATH_ROOM = 128, TEXT_ROOM = 64 };

static _Atomic(size_t) huge_dense_bytes; /* counter */
static _Atomic(size_t) huge_block_bytes; /* counter: of large blocks for which huge pages were asked */
static _Atomic(size_t) ended_bytes;      /* hint: length of the block with huge pages that ended last, */
static _Atomic(uint64_t) ended_at_ms;    /* hint: and when */
static _Atomic(uint8_t) thp_mode;        /* hint */
static _Atomic(uint64_t) pause_end_ms;   /* hint */
static _Atomic(uint32_t) pause_log2;     /* hint */
static _Atomic(size_t) asked_count;      /* counter */
static _Atomic(size_t) refused_count;    /* counter */
static _Atomic(size_t) refused_now;      /* counter */
static _Atomic(size_t) slow_count;       /* counter */
static _Atomic(size_t) huge_most_us;     /* hint */
static _Atomic(bool) cannot_collapse;    /* hint: the kernel cannot collapse, or its huge pages are not 2 MiB */
static _Atomic(uint64_t) collapse_at_ms; /* hint: the earliest time of the next collapse */
static _Atomic(uint32_t) collapse_fails; /* hint: refusals in a row */
static _Atomic(size_t) collapsed_count;  /* counter */

void hz_huge_count_dense(ptrdiff_t bytes) {
    hz_add_rlx(&huge_dense_bytes, (size_t)bytes); /* relaxed: counter */
}

void hz_huge_dense_set(size_t bytes) {
    hz_store_rlx(&huge_dense_bytes, bytes); /* relaxed: one thread */
}

static void folder_read(const char *folder, const char *name, char text[TEXT_ROOM]) {
    char path[PATH_ROOM];
    size_t length = strlen(folder);
    text[0] = '\0';
    if (length + strlen(name) >= sizeof(path))
        return;
    memcpy(path, folder, length);
    memcpy(path + length, name, strlen(name) + 1);
    hz_os_read_file(path, text, TEXT_ROOM);
}

/* The kernel's word for the mode is in brackets: "always [madvise] never". Since Linux 6.8 each size has a mode of its
   own. "inherit", the first one, means the common mode. */
void hz_huge_look(const char *folder) {
    char text[TEXT_ROOM];
    folder_read(folder, "/hpage_pmd_size", text);
    if (text[0] != '\0' && strcmp(text, "2097152\n") != 0)
        hz_store_rlx(&cannot_collapse, true); /* relaxed, both: hint */
    folder_read(folder, "/hugepages-2048kB/enabled", text);
    if (text[0] == '\0' || strstr(text, "[inherit]") != NULL)
        folder_read(folder, "/enabled", text);
    if (text[0] == '\0') /* perhaps the program has changed its root since, or has no file descriptor left */
        return;
    bool is_always = strstr(text, "[always]") != NULL;
    bool is_never = strstr(text, "[never]") != NULL;
    hz_store_rlx(&thp_mode, is_always ? ALWAYS : is_never ? NEVER : MADVISE);
}

/* Whether there are many dense runs, and few others. */
static bool heap_is_dense(size_t used_bytes) {
    size_t dense = hz_load_rlx(&huge_dense_bytes); /* relaxed: hint */
    return dense >= WANTED_BYTES && used_bytes <= dense + dense / (OTHER_SHARE - 1);
}

/* Whether the kernel gives huge pages when asked, and may be asked. */
static bool can_ask(void) {
    return hz_load_rlx(&thp_mode) != NEVER && !hz_os_is_confined(); /* relaxed: hint */
}

/* Whether the kernel was slow not long ago. */
static bool is_pausing(void) {
    uint64_t end = hz_load_rlx(&pause_end_ms); /* relaxed: hint */
    return HZ_UNLIKELY(end != 0) && hz_os_now_ms() < end;
}

bool hz_huge_is_wanted(size_t used_bytes) {
    return heap_is_dense(used_bytes) && can_ask() && !is_pausing();
}

/* How much of `wall_us`, the time since `before`, the kernel may have spent on the unit. With more threads than CPUs a
   thread can lose its CPU in the middle of the page fault, and a pause would not make the next unit quicker. If the
   thread has not slept since `before`, the kernel worked on the unit only while the thread had a CPU, so the CPU time
   counts. If it has slept, the kernel may have waited while another thread moved memory. Nothing tells for how long, so
   all of the time counts. */
static uint64_t kernel_us(uint64_t wall_us, const struct hz_os_usage *before) {
    struct hz_os_usage after;
    if (HZ_LIKELY(wall_us <= SLOW_US) || before == NULL || !hz_os_usage_get(&after) || after.sleeps != before->sleeps)
        return wall_us;
    return hz_min(wall_us, after.cpu_us - before->cpu_us);
}

/* Touches the first byte of the run, which makes the kernel find a huge page for the unit. */
static void unit_touch(char *run) {
    struct hz_os_usage usage;
    bool known = hz_os_usage_get(&usage); /* costs 0.5 % of the time that the kernel takes for a unit */
    uint64_t before = hz_os_now_us();
    *(volatile char *)run = 0;
    uint64_t took = kernel_us(hz_os_now_us() - before, known ? &usage : NULL);
    if (took > hz_load_rlx(&huge_most_us)) /* relaxed, all: hint, counter */
        hz_store_rlx(&huge_most_us, took);
    uint32_t log2 = hz_load_rlx(&pause_log2);
    if (HZ_LIKELY(took <= SLOW_US)) {
        if (log2 != 0)
            hz_store_rlx(&pause_log2, 0);
        return;
    }
    log2 = (uint32_t)hz_min(hz_max(log2 + 1, PAUSE_LOG2), PAUSE_LOG2_MAX);
    hz_store_rlx(&pause_log2, log2);
    hz_add_rlx(&slow_count, 1);
    hz_store_rlx(&pause_end_ms, hz_os_now_ms() + (took << log2) / 1000);
}

void hz_huge_ask(hz_huge_units *units, char *base, unsigned unit, char *run) {
    uint8_t bit = (uint8_t)(1U << unit);
    uint8_t refused = (uint8_t)(bit << REFUSED_SHIFT);
    if ((hz_and_rlx(units, (uint8_t)~refused) & refused) != 0) /* relaxed, all: hint, counter */
        hz_sub_rlx(&refused_now, 1);
    if ((hz_or_rlx(units, bit) & bit) == 0)
        hz_add_rlx(&asked_count, 1);
    hz_os_huge(base + ((size_t)unit << HZ_HUGE_LOG2), HZ_HUGE_BYTES);
    unit_touch(run);
}

/* Whether the kernel has to be told that it must not make the unit huge. */
static bool must_refuse(uint8_t seen, uint8_t bit) {
    if (hz_load_rlx(&refused_now) >= REFUSED_MAX || hz_os_is_confined()) /* relaxed, both: hint */
        return false;
    return (seen & (bit | bit << TRYING_SHIFT)) != 0 ||
           (hz_load_rlx(&thp_mode) == ALWAYS && (seen & (unsigned)bit << REFUSED_SHIFT) == 0);
}

/* The unit's pages if it is refused now, else 0. */
static uint64_t unit_refuse(hz_huge_units *units, char *base, unsigned unit) {
    uint8_t bit = (uint8_t)(1U << unit);
    uint8_t refused = (uint8_t)(bit << REFUSED_SHIFT);
    if (!must_refuse(hz_load_rlx(units), bit)) /* relaxed, all: hint, counter; two threads may both tell the kernel */
        return 0;
    (void)hz_and_rlx(units, (uint8_t) ~(bit | bit << TRYING_SHIFT));
    if ((hz_or_rlx(units, refused) & refused) == 0) {
        hz_add_rlx(&refused_count, 1);
        hz_add_rlx(&refused_now, 1);
    }
    hz_os_sparse(base + ((size_t)unit << HZ_HUGE_LOG2), HZ_HUGE_BYTES);
    return UNIT_MASK << (unit * UNIT_PAGES);
}

bool hz_huge_collapse_is_wanted(size_t used_bytes) {
    /* relaxed, all: hint. When no more units can be refused, khugepaged could make a purged part resident again */
    return heap_is_dense(used_bytes) && can_ask() && !hz_load_rlx(&cannot_collapse) &&
           hz_load_rlx(&refused_now) < REFUSED_MAX && hz_os_now_ms() >= hz_load_rlx(&collapse_at_ms);
}

bool hz_huge_collapse_begin(hz_huge_units *units, unsigned unit) {
    unsigned bit = 1U << unit;
    if ((hz_load_rlx(units) & (bit | bit << REFUSED_SHIFT)) != 0) /* relaxed: hint */
        return false;
    /* relaxed: the caller looks at the unit's pages under their locks. A thread that gives a part back after that look
     * holds the same lock, so it sees the bit */
    (void)hz_or_rlx(units, (uint8_t)(bit << TRYING_SHIFT));
    return true;
}

/* Ends an attempt. With `asked` the unit becomes one that was asked for. False if the unit, or a part of it, went back
   meanwhile. */
static bool trying_end(hz_huge_units *units, unsigned unit, bool asked) {
    uint8_t trying = (uint8_t)(1U << unit << TRYING_SHIFT);
    uint8_t becomes = (uint8_t)((unsigned)asked << unit);
    uint8_t seen = hz_load_rlx(units); /* relaxed, both: hint; see hz_huge_collapse_begin */
    do {
        if ((seen & trying) == 0)
            return false;
    } while (!hz_cas_rlx_rlx(units, &seen, (uint8_t)((seen & ~trying) | becomes)));
    return true;
}

void hz_huge_collapse_cancel(hz_huge_units *units, unsigned unit) {
    (void)trying_end(units, unit, false); /* a refused unit has ended the attempt already */
}

static void collapse_failed(int error) {
    uint32_t fails = hz_load_rlx(&collapse_fails);             /* relaxed, all: hint */
    if (error == EINVAL && hz_load_rlx(&collapsed_count) == 0) /* otherwise only this unit cannot be collapsed */
        hz_store_rlx(&cannot_collapse, true);
    hz_store_rlx(&collapse_fails, (uint32_t)hz_min(fails + 1, COLLAPSE_RETRY_LOG2_MAX));
    hz_store_rlx(&collapse_at_ms, hz_os_now_ms() + ((uint64_t)COLLAPSE_RETRY_MS << fails));
}

/* Makes the kernel find a huge page, and gives it back. As a rule, the collapse that follows takes the same page. While
   a collapse fills its page, no other thread can map memory, or fault in that unit. If a hypervisor first has to find
   memory for the page, that takes 5 ms; copying takes 0.5. So the hypervisor should be done before the collapse. */
static void huge_page_warm(void) {
    static char *own;       /* owner, both: the one thread that collapses */
    static bool is_useless; /* what is touched does not go back (mlockall) */
    if (own == NULL && !is_useless) {
        own = hz_os_map(HZ_HUGE_BYTES, HZ_HUGE_BYTES, true);
        if (own != NULL) {
            hz_os_huge(own, HZ_HUGE_BYTES);
            hz_os_wipe_in_child(own, HZ_HUGE_BYTES);
            hz_os_hide(own, HZ_HUGE_BYTES);
            hz_os_name(own, HZ_HUGE_BYTES, HZ_NAME_TABLES);
        }
    }
    if (own == NULL)
        return;
    *(volatile char *)own = 0;
    if (!hz_os_purge(own, HZ_HUGE_BYTES) && hz_os_unmap(own, HZ_HUGE_BYTES)) {
        own = NULL;
        is_useless = true;
    }
}

static bool is_tried(hz_huge_units *units, unsigned unit) {
    return (hz_load_rlx(units) >> unit >> TRYING_SHIFT & 1) != 0; /* relaxed: hint; spares the kernel the work */
}

bool hz_huge_collapse(hz_huge_units *units, char *base, unsigned unit) {
    if (!is_tried(units, unit))
        return false;
    char *start = base + ((size_t)unit << HZ_HUGE_LOG2);
    huge_page_warm();
    if (!is_tried(units, unit)) /* a part has gone back meanwhile: it must not become resident again */
        return false;
    int error = hz_os_collapse(start, HZ_HUGE_BYTES);
    bool is_mine = trying_end(units, unit, error == 0);
    if (!is_mine) /* it went back meanwhile, so an EINVAL does not mean that the kernel cannot collapse */
        return false;
    if (error != 0) {
        collapse_failed(error);
        return false;
    }
    hz_store_rlx(&collapse_fails, 0); /* relaxed, both: hint, counter */
    hz_add_rlx(&collapsed_count, 1);
    hz_os_huge(start, HZ_HUGE_BYTES); /* so that it is huge again when it is reused after it went back as a whole */
    if (!hz_huge_is_asked(units, unit))
        hz_os_sparse(start, HZ_HUGE_BYTES); /* refused meanwhile: the refusal must be the last word */
    return true;
}

void hz_huge_collapse_rest(uint64_t took_us) {
    uint64_t end = hz_os_now_ms() + took_us * (COLLAPSE_SHARE - 1) / 1000;
    hz_store_rlx(&collapse_at_ms, hz_max(end, hz_load_rlx(&collapse_at_ms))); /* relaxed, both: hint, one thread */
}

void hz_huge_run_begin(hz_huge_units *units, char *base, unsigned first, unsigned pages, uint64_t dirty_mask,
                       size_t used_bytes) {
    for (unsigned unit = first / UNIT_PAGES; unit <= (first + pages - 1) / UNIT_PAGES; unit++) {
        uint64_t unit_mask = UNIT_MASK << (unit * UNIT_PAGES);
        if ((dirty_mask & unit_mask) != 0)
            continue;
        if (hz_huge_is_asked(units, unit)) {
            if (!heap_is_dense(used_bytes))
                (void)unit_refuse(units, base, unit); /* all its pages are clean: it holds no memory */
            continue;
        }
        if (!hz_huge_is_wanted(used_bytes))
            continue;
        unsigned touched = unit * UNIT_PAGES > first ? unit * UNIT_PAGES : first;
        hz_huge_ask(units, base, unit, base + ((size_t)touched << HZ_PAGE_LOG2));
    }
}

/* Before the unit, or a part of it, goes back. */
static void collapse_end(hz_huge_units *units, unsigned unit) {
    uint8_t trying = (uint8_t)(1U << unit << TRYING_SHIFT);
    if (HZ_UNLIKELY((hz_load_rlx(units) & trying) != 0)) /* relaxed, both: hint; see hz_huge_collapse_begin */
        (void)hz_and_rlx(units, (uint8_t)~trying);
}

uint64_t hz_huge_refuse_parts(hz_huge_units *units, char *base, size_t offset, size_t bytes) {
    size_t end = offset + bytes;
    size_t first = offset >> HZ_HUGE_LOG2;
    size_t last = (end - 1) >> HZ_HUGE_LOG2;
    uint64_t pages = 0;
    if (offset % HZ_HUGE_BYTES != 0 || (first == last && end % HZ_HUGE_BYTES != 0))
        pages |= unit_refuse(units, base, (unsigned)first);
    if (last != first && end % HZ_HUGE_BYTES != 0)
        pages |= unit_refuse(units, base, (unsigned)last);
    for (size_t unit = first; unit <= last; unit++)
        collapse_end(units, (unsigned)unit);
    return pages;
}

void hz_huge_tell_again(hz_huge_units *units, char *base, size_t offset, size_t bytes) {
    unsigned seen = hz_load_rlx(units); /* relaxed: hint */
    for (size_t at = offset, next; seen != 0 && at < offset + bytes; at = next) {
        unsigned unit = (unsigned)(at >> HZ_HUGE_LOG2);
        next = hz_min(offset + bytes, ((size_t)unit + 1) << HZ_HUGE_LOG2);
        if ((seen >> unit & 1) != 0)
            hz_os_huge(base + at, next - at);
        else if ((seen >> unit >> REFUSED_SHIFT & 1) != 0)
            hz_os_sparse(base + at, next - at);
    }
}

static bool block_fits(size_t bytes, size_t others) {
    size_t dense = hz_load_rlx(&huge_dense_bytes); /* relaxed: hint */
    return bytes >= BLOCK_BYTES_MIN && dense >= WANTED_BYTES && others + bytes <= dense / BLOCK_SHARE && can_ask();
}

bool hz_huge_block_is_wanted(size_t bytes, size_t resting_bytes) {
    /* relaxed, all: hint */
    if (bytes <= resting_bytes || !block_fits(bytes, hz_load_rlx(&huge_block_bytes)) || is_pausing())
        return false;
    return bytes > hz_load_rlx(&ended_bytes) || hz_os_now_ms() >= hz_load_rlx(&ended_at_ms) + BLOCK_LOOP_MS;
}

/* Counts a block if the quota allows it. */
static bool block_claim(size_t bytes) {
    size_t before = hz_load_rlx(&huge_block_bytes); /* relaxed, both: counter */
    do {
        if (!block_fits(bytes, before))
            return false;
    } while (!hz_cas_rlx_rlx(&huge_block_bytes, &before, before + bytes));
    return true;
}

bool hz_huge_block_begin(char *base, size_t bytes) {
    bool is_huge = !is_pausing() && block_claim(bytes);
    if (is_huge)
        hz_os_huge(base, bytes);
    return is_huge;
}

bool hz_huge_block_resized(char *base, size_t huge_bytes, size_t bytes) {
    if (huge_bytes == 0)
        return hz_huge_block_begin(base, bytes);
    hz_sub_rlx(&huge_block_bytes, huge_bytes); /* relaxed: counter */
    bool is_huge = block_claim(bytes);
    if (!is_huge)
        hz_os_sparse(base, bytes); /* the longer part has the advice of the shorter one */
    return is_huge;
}

void hz_huge_block_end(size_t bytes) {
    hz_sub_rlx(&huge_block_bytes, bytes); /* relaxed, all: counter, hints */
    hz_store_rlx(&ended_bytes, bytes);
    hz_store_rlx(&ended_at_ms, hz_os_now_ms());
}

void hz_huge_forget(hz_huge_units *units) {
    uint8_t seen = hz_and_rlx(units, 0); /* relaxed: owner of the segment */
    hz_sub_rlx(&refused_now, (size_t)__builtin_popcount((unsigned)seen >> REFUSED_SHIFT));
}

void hz_huge_figures_get(struct hz_huge_figures *figures) {
    *figures = (struct hz_huge_figures){
        .asked = hz_load_rlx(&asked_count), /* relaxed, all: counters, hint */
        .refused = hz_load_rlx(&refused_count),
        .slow = hz_load_rlx(&slow_count),
        .most_us = hz_load_rlx(&huge_most_us),
        .collapsed = hz_load_rlx(&collapsed_count),
    };
}
