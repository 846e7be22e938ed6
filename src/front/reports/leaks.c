/*
 * leaks.c - see leaks.h.
 */
#include "front/reports/leaks.h"

#include "base/arena/spread.h"
#include "base/os/atomic.h"
#include "base/os/os.h"
#include "base/os/os_stop.h"
#include "base/process/process.h"
#include "base/profile/callstack.h"
#include "base/profile/profile.h"
#include "base/profile/profile_sites.h"
#include "base/watch/report.h"
#include "front/quarantine.h"
#include "heap/report/leaks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the search ------------------------------------------------------------------------------------------- */

/* A search, and how it went. */
struct leak_look {
    struct hz_leaks_search search;
    enum hz_leaks_result result;
};

static void look_with(void *context, const struct hz_stopped_world *world) {
    struct leak_look *look = context;
    look->search.others = world;
    look->result = hz_leaks_find(&look->search);
}

static bool look_may_stay(void *context, const struct hz_stopped *thread) {
    const struct leak_look *look = context;
    return hz_leaks_may_stay(&look->search, thread);
}

static bool has_one_thread(void) {
    struct hz_process self;
    hz_process_get(&self);
    return self.is_known && self.threads == 1;
}

static int leaks_error_of(enum hz_leaks_result result) {
    switch (result) {
    case HZ_LEAKS_NO_MAP:
        return ENOENT;
    case HZ_LEAKS_NO_MEMORY:
        return ENOMEM;
    default:
        return 0;
    }
}

/* What lies below the caller's frame is ours. */
static HZ_NOINLINE int look_take(struct leak_look *look) {
    look->search.own_stack = (uintptr_t)__builtin_frame_address(0);
    const struct hz_stopped_world nobody = {.count = 0};
    const struct hz_stopped_work work = {look_may_stay, look_with, look};
    int error = 0;
    if (has_one_thread())
        look_with(look, &nobody);
    else
        error = hz_os_stopped_run(&work);
    return error != 0 ? error : leaks_error_of(look->result);
}

/* ---- the report ------------------------------------------------------------------------------------------- */

/* Leaks that are one line of the report: of one call stack, or, if they were not sampled, of one size. */
struct leak_group {
    uint32_t site; /* 0: not sampled */
    bool is_direct;
    size_t block_bytes;
    size_t blocks;
    size_t bytes;
    uintptr_t first;
};

/* Finds the leak's block in the profile. A leak has the block's place; the block begins less than HZ_SPREAD_BYTES
   behind it. Sampled blocks of up to 64 KiB begin there. */
static bool leak_is_sampled(const struct hz_leak *leak, struct hz_profile_block *sampled) {
    size_t most = hz_profile_rate() != 0 && leak->bytes > HZ_SPREAD_BYTES ? HZ_SPREAD_BYTES - HZ_SPREAD_STEP : 0;
    for (size_t offset = 0; offset <= most; offset += HZ_SPREAD_STEP)
        if (hz_profile_block_get((const void *)(leak->start + offset), sampled)) /* NOLINT(performance-no-int-to-ptr) */
            return true;
    return false;
}

static struct leak_group leak_group_of(const struct hz_leak *leak) {
    struct hz_profile_block sampled;
    struct leak_group group = {.is_direct = leak->is_direct, .blocks = 1, .bytes = leak->bytes, .first = leak->start};
    if (leak_is_sampled(leak, &sampled))
        group.site = sampled.site;
    else
        group.block_bytes = leak->bytes;
    return group;
}

/* By what makes a group; in a group by address. */
static bool is_key_before(const struct leak_group *a, const struct leak_group *b) {
    if (a->is_direct != b->is_direct)
        return a->is_direct;
    if (a->site != b->site)
        return a->site > b->site;
    return a->block_bytes != b->block_bytes ? a->block_bytes > b->block_bytes : a->first < b->first;
}

/* Direct ones first, then the largest ones. */
static bool is_group_larger(const struct leak_group *a, const struct leak_group *b) {
    if (a->is_direct != b->is_direct)
        return a->is_direct;
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->first < b->first;
}

static void leak_groups_sort(struct leak_group *leak_groups, size_t count,
                             bool (*is_before)(const struct leak_group *a, const struct leak_group *b)) {
    for (size_t gap = count / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < count; i++) {
            struct leak_group group = leak_groups[i];
            size_t at = i;
            for (; at >= gap && is_before(&group, &leak_groups[at - gap]); at -= gap)
                leak_groups[at] = leak_groups[at - gap];
            leak_groups[at] = group;
        }
}

/* Makes leak_groups of the leaks, and returns their number. */
static size_t leak_groups_make(struct leak_group *leak_groups, const struct hz_leaks_search *search) {
    size_t count = 0;
    for (size_t i = 0; i < search->count; i++)
        leak_groups[i] = leak_group_of(&search->leaks[i]);
    leak_groups_sort(leak_groups, search->count, is_key_before);
    for (size_t i = 0; i < search->count; i++) {
        struct leak_group *last = count > 0 ? &leak_groups[count - 1] : NULL;
        bool is_same = last != NULL && last->is_direct == leak_groups[i].is_direct &&
                       last->site == leak_groups[i].site && last->block_bytes == leak_groups[i].block_bytes;
        if (is_same) {
            last->blocks++;
            last->bytes += leak_groups[i].bytes;
        } else {
            leak_groups[count++] = leak_groups[i];
        }
    }
    leak_groups_sort(leak_groups, count, is_group_larger);
    return count;
}

static const char *plural_of(size_t blocks) {
    return blocks == 1 ? "" : "s";
}

static int leak_line_write(int fd, const char *text, int length, size_t room) {
    return length > 0 ? hz_os_write(fd, text, hz_min((size_t)length, room - 1)) : 0;
}

static int leak_group_write(int fd, const struct leak_group *group) {
    char text[200];
    const char *kind = group->is_direct ? "direct" : "indirect";
    int length;
    if (group->site == 0)
        length = snprintf(text, sizeof(text), "  %s: %zu bytes in %zu block%s of %zu bytes, not sampled, at 0x%zx%s\n",
                          kind, group->bytes, group->blocks, plural_of(group->blocks), group->block_bytes,
                          (size_t)group->first, group->blocks > 1 ? " and elsewhere" : "");
    else
        length = snprintf(text, sizeof(text), "  %s: %zu bytes in %zu block%s, allocated by:\n", kind, group->bytes,
                          group->blocks, plural_of(group->blocks));
    int error = leak_line_write(fd, text, length, sizeof(text));
    if (group->site != 0) {
        struct hz_profile_stack stack = hz_profile_site_stack(hz_profile_site_at(group->site));
        hz_callstack_write_lines(fd, stack.addresses, stack.depth);
    }
    return error;
}

static int leaks_summary_write(int fd, const struct hz_leaks *leaks) {
    char text[300];
    int length;
    if (leaks->direct_blocks + leaks->indirect_blocks == 0)
        length = snprintf(text, sizeof(text), "hakozuna: leaks: none; %zu block%s of %zu bytes %s live\n",
                          leaks->live_blocks, plural_of(leaks->live_blocks), leaks->live_bytes,
                          leaks->live_blocks == 1 ? "is" : "are");
    else
        length = snprintf(text, sizeof(text),
                          "hakozuna: leaks: %zu block%s of %zu bytes leaked directly, and %zu of %zu bytes indirectly; "
                          "%zu of %zu bytes are live\n",
                          leaks->direct_blocks, plural_of(leaks->direct_blocks), leaks->direct_bytes,
                          leaks->indirect_blocks, leaks->indirect_bytes, leaks->live_blocks, leaks->live_bytes);
    int error = leak_line_write(fd, text, length, sizeof(text));
    static const char unsure[] = "  not exact: a thread was inside malloc or free, and its blocks count as reached\n";
    if (error == 0 && leaks->is_exact == 0)
        error = hz_os_write(fd, unsure, sizeof(unsure) - 1);
    return error;
}

static int leaks_write(int fd, const struct hz_leaks_search *search, const struct hz_leaks *leaks) {
    int error = leaks_summary_write(fd, leaks);
    size_t bytes = hz_round_up((search->count + 1) * sizeof(struct leak_group), hz_os_page_bytes());
    struct leak_group *leak_groups = search->count > 0 ? hz_os_map(bytes, hz_os_page_bytes(), true) : NULL;
    if (leak_groups == NULL)
        return error == 0 && search->count > 0 ? ENOMEM : error;
    size_t count = leak_groups_make(leak_groups, search);
    for (size_t i = 0; i < count && error == 0; i++)
        error = leak_group_write(fd, &leak_groups[i]);
    (void)hz_os_unmap(leak_groups, bytes); /* if refused, address space is lost */
    return error;
}

static const char *leaks_reason_of(int error) {
    switch (error) {
    case EPERM:
    case EACCES:
        return "the system does not let us stop the threads: a debugger traces them already, or a filter or a security "
               "module forbids ptrace";
    case EBUSY:
        return "another check is under way, or a thread waits in the kernel and cannot be stopped";
    case ENOENT:
        return "/proc/self/maps cannot be read";
    case ENOMEM:
        return "there is no memory for it";
    case ENOTSUP:
        return "the program has restricted its system calls";
    default:
        return "the threads cannot be stopped";
    }
}

static void leaks_refusal_write(int fd, int error) {
    char text[300];
    int length =
        snprintf(text, sizeof(text), "hakozuna: leaks: not checked: %s (error %d)\n", leaks_reason_of(error), error);
    (void)leak_line_write(fd, text, length, sizeof(text)); /* the caller gets the error */
}

enum { KEPT_NAMES = 4, KEPT_BYTES_MOST = 2048 };

static const char *kept_names[KEPT_NAMES]; /* const after the start, both */
static uint32_t kept_count;

void hz_leaks_keep(const char *name) {
    if (kept_count < KEPT_NAMES)
        kept_names[kept_count++] = name;
}

static bool is_kept(const struct hz_leak *leak) {
    const char *block = (const char *)leak->start; /* NOLINT(performance-no-int-to-ptr) */
    for (uint32_t i = 0; i < kept_count; i++) {
        size_t length = strlen(kept_names[i]);
        if (length < leak->bytes && leak->bytes <= KEPT_BYTES_MOST && memcmp(block, kept_names[i], length) == 0)
            return true;
    }
    return false;
}

/* Takes out what is no leak. */
static void kept_forget(struct hz_leaks_search *search) {
    size_t count = 0;
    for (size_t i = 0; i < search->count; i++)
        if (!is_kept(&search->leaks[i]))
            search->leaks[count++] = search->leaks[i];
    search->count = count;
}

static void leaks_count(struct hz_leaks *leaks, const struct hz_leaks_search *search) {
    *leaks = (struct hz_leaks){
        .live_blocks = search->live_blocks, .live_bytes = search->live_bytes, .is_exact = search->is_exact};
    for (size_t i = 0; i < search->count; i++) {
        const struct hz_leak *leak = &search->leaks[i];
        *(leak->is_direct ? &leaks->direct_blocks : &leaks->indirect_blocks) += 1;
        *(leak->is_direct ? &leaks->direct_bytes : &leaks->indirect_bytes) += leak->bytes;
    }
}

/* The number of the process that checks now: a fork's child finds its parent's. */
static _Atomic(uint32_t) checking; /* cas */

static bool check_claim(uint32_t number) {
    uint32_t seen = hz_load_rlx(&checking); /* relaxed: cas */
    return seen != number && hz_cas_strong_acq_rlx(&checking, &seen, number);
}

int hz_leaks_report(int fd, struct hz_leaks *leaks) {
    *leaks = (struct hz_leaks){0};
    uint32_t number = hz_os_is_confined() ? 0 : hz_os_process_id();
    struct leak_look look = {.search = {.process = number, .own_local = hz_os_thread_pointer()}};
    look.search.forget = HZ_CONFIG_FENCES ? hz_quarantine_walk : NULL;
    bool is_mine = number != 0 && check_claim(number);
    int error = number == 0 ? ENOTSUP : EBUSY;
    if (is_mine) {
        /* what the program has in these is in registers still, or in this function's frame */
        look.search.own_word_count = hz_os_kept_registers(look.search.own_words);
        error = look_take(&look);
        hz_store_rel(&checking, 0); /* release: with the next check's cas */
    }
    if (error == 0) {
        kept_forget(&look.search);
        leaks_count(leaks, &look.search);
        error = fd >= 0 && leaks_write(fd, &look.search, leaks) != 0 ? EIO : 0;
    } else if (fd >= 0) {
        leaks_refusal_write(fd, error);
    }
    hz_leaks_found_end(&look.search);
    return error;
}

/* ---- the status ------------------------------------------------------------------------------------------- */

static int status_wanted;               /* 0: none; const after the start */
static _Atomic(bool) status_is_due;     /* hint: the process is to end with it */
static _Atomic(bool) handlers_are_over; /* hint: the handlers of exit have run */

/* glibc runs the handlers of exit that the program has registered, then the libraries' destructors, then this one,
   which was registered before the program began. exit goes on where it is, and only the status is another one. musl,
   and glibc in a program that the library is linked into, run this one before the destructors: then it is too early. */
static void status_give(void *unused) {
    (void)unused;
    hz_store_rlx(&handlers_are_over, true); /* relaxed, both: hint */
    if (hz_load_rlx(&status_is_due))
        exit(status_wanted); /* NOLINT(concurrency-mt-unsafe) */
}

extern int __cxa_atexit(void (*function)(void *), void *argument, void *library); /* NOLINT */

void hz_leaks_status_begin(int status) {
    status_wanted = status;
    if (status != 0)
        (void)__cxa_atexit(status_give, NULL,
                           NULL); /* without memory the status stays as it is, and the report tells */
}

void hz_leaks_status_set(bool is_leaky) {
    hz_store_rlx(&status_is_due, is_leaky && status_wanted != 0); /* relaxed: hint */
}

/* As exit would do next; but another thread can wait in the FILE, with its lock held. */
static void file_write_out(FILE *file) {
    if (ftrylockfile(file) != 0)
        return;
    (void)fflush(file);
    funlockfile(file);
}

void hz_leaks_status_end(void) {
    if (!hz_load_rlx(&status_is_due) || !hz_load_rlx(&handlers_are_over)) /* relaxed, both: hint */
        return;
    file_write_out(stdout);
    file_write_out(stderr);
    _exit(status_wanted);
}
