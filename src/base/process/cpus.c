/*
 * cpus.c - see cpus.h.
 */
#include "base/process/cpus.h"

#include "base/lists/lock.h"
#include "base/os/atomic.h"
#include "base/os/os.h"
#include "base/process/cgroup.h"

enum { WORDS = HZ_CPU_WORDS, LOOK_MS = 1000, ONLINE_ROOM = 1024 };

static struct hz_lock look_lock = HZ_LOCK_INIT(HZ_RANK_LEAF);
static _Atomic(uint64_t) cpus_allowed[WORDS];    /* hint: the first thread's affinity; no bit set: unknown */
static _Atomic(uint64_t) cpus_seen[WORDS];       /* hint: CPUs on which threads ran since the last look */
static _Atomic(uint64_t) cpus_before[WORDS];     /* hint: CPUs on which threads ran between the two last looks */
static _Atomic(uint32_t) cpu_quota = UINT32_MAX; /* hint: whole CPUs */
static _Atomic(uint64_t) aged_at_ms;             /* hint; written under the lock; 0: never */
static _Atomic(uint64_t) asked_at_ms;            /* the same. A caller that may not ask does not put off one that may */

/* All loads and stores of hints are relaxed: a thread that sees old hints counts CPUs as before the look. */

void hz_cpus_note(void) {
    uint32_t cpu = hz_os_cpu() % HZ_CPUS;
    uint64_t bit = UINT64_C(1) << cpu % 64;
    if ((hz_load_rlx(&cpus_seen[cpu / 64]) & bit) == 0)
        hz_or_rlx(&cpus_seen[cpu / 64], bit);
}

uint32_t hz_cpus_count(void) {
    uint32_t may = 0;
    uint32_t were = 0;
    for (unsigned i = 0; i < WORDS; i++) {
        may += (uint32_t)__builtin_popcountll(hz_load_rlx(&cpus_allowed[i]));
        were += (uint32_t)__builtin_popcountll(hz_load_rlx(&cpus_seen[i]) | hz_load_rlx(&cpus_before[i]));
    }
    uint32_t most = (uint32_t)hz_max(hz_max(may, were), 1);
    return (uint32_t)hz_min(most, hz_load_rlx(&cpu_quota));
}

/* Parses a list as "0-3,8\n". Other CPUs lose their bits; nothing changes when the list is empty. */
static void online_parse(const char *text, uint64_t mask[WORDS]) {
    uint64_t online[WORDS] = {0};
    unsigned first = 0, number = 0;
    bool is_range = false;
    for (const char *next = text; *next != '\0'; next++) {
        if (*next >= '0' && *next <= '9') {
            number = (10 * number + (unsigned)(*next - '0')) % (2 * HZ_CPUS);
            continue;
        }
        if (*next == '-') {
            first = number;
        } else {
            for (unsigned cpu = is_range ? first : number; cpu <= number && cpu < HZ_CPUS; cpu++)
                online[cpu / 64] |= UINT64_C(1) << cpu % 64;
        }
        is_range = *next == '-';
        number = 0;
    }
    for (unsigned i = 0; text[0] != '\0' && i < WORDS; i++)
        mask[i] &= online[i];
}

static bool allow_locked(const uint64_t mask[WORDS]) {
    bool changed = false;
    for (unsigned i = 0; i < WORDS; i++) {
        changed |= hz_load_rlx(&cpus_allowed[i]) != mask[i];
        hz_store_rlx(&cpus_allowed[i], mask[i]);
    }
    return changed;
}

bool hz_cpus_allow(const uint64_t cpus[WORDS]) {
    hz_lock_acquire(&look_lock);
    bool changed = allow_locked(cpus);
    hz_lock_release(&look_lock);
    return changed;
}

void hz_cpus_look_at(const char *online, const char *groups, const char *root) {
    uint64_t mask[WORDS];
    char text[ONLINE_ROOM];
    uint32_t quota = hz_cgroup_cpus(groups, root);
    hz_os_read_file(online, text, sizeof(text));
    hz_lock_acquire(&look_lock);
    for (unsigned i = 0; i < WORDS; i++)
        mask[i] = hz_load_rlx(&cpus_allowed[i]);
    online_parse(text, mask); /* a task that is not bound has all CPUs that may ever be there */
    (void)allow_locked(mask);
    hz_store_rlx(&cpu_quota, quota);
    hz_lock_release(&look_lock);
}

static void seen_age_locked(void) {
    for (unsigned i = 0; i < WORDS; i++) {
        hz_store_rlx(&cpus_before[i], hz_load_rlx(&cpus_seen[i]));
        hz_store_rlx(&cpus_seen[i], 0);
    }
}

void hz_cpus_forget_seen(void) {
    hz_lock_acquire(&look_lock);
    seen_age_locked();
    hz_lock_release(&look_lock);
}

static bool look_is_due(const _Atomic(uint64_t) *at_ms, uint64_t now_ms) {
    uint64_t last_ms = hz_load_rlx(at_ms);
    return last_ms == 0 || now_ms >= last_ms + LOOK_MS;
}

bool hz_cpus_look(bool asks) {
    uint64_t mask[WORDS] = {0};
    uint64_t now_ms = hz_os_now_ms();
    if (!look_is_due(&aged_at_ms, now_ms) && !(asks && look_is_due(&asked_at_ms, now_ms)))
        return false;
    hz_lock_acquire(&look_lock);
    bool changed = false;
    if (look_is_due(&aged_at_ms, now_ms)) { /* otherwise another thread has done it; the same below */
        seen_age_locked();
        hz_store_rlx(&aged_at_ms, hz_max(now_ms, 1));
    }
    if (asks && look_is_due(&asked_at_ms, now_ms)) {
        /* the process's number is that of its first thread */
        if (hz_os_is_unfiltered() && hz_os_affinity(hz_os_process_id(), mask, WORDS))
            changed = allow_locked(mask);
        hz_store_rlx(&asked_at_ms, hz_max(now_ms, 1));
    }
    hz_lock_release(&look_lock);
    return changed;
}

uint32_t hz_cpus_groups(uint8_t group[HZ_CPUS], uint32_t most) {
    uint64_t mask[WORDS];
    uint32_t total = 0;
    for (unsigned i = 0; i < WORDS; i++) {
        mask[i] = hz_load_rlx(&cpus_allowed[i]);
        total += (uint32_t)__builtin_popcountll(mask[i]);
    }
    uint32_t groups = (uint32_t)hz_max(hz_min(total, most), 1);
    uint32_t rank = 0;
    for (unsigned cpu = 0; cpu < HZ_CPUS; cpu++) {
        bool may = (mask[cpu / 64] >> cpu % 64 & 1) != 0;
        group[cpu] = (uint8_t)(may ? rank++ * groups / total : cpu % groups);
    }
    return groups;
}

void hz_cpus_after_fork(void) {
    hz_lock_settle(&look_lock); /* the fields are sound after each step */
}
