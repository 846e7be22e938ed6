/*
 * cpus.c - see cpus.h. Called when a thread attaches or ticks, by the keeper, and by the code that divides the depot
 * and shards.
 */
#include "base/cpus.h"

#include "base/atomic.h"
#include "base/cgroup.h"
#include "base/lock.h"
#include "base/os.h"

#include <string.h>

enum { WORDS = HZ_CPUS / 64, LOOK_MS = 1000, CPUS_TEXT_BYTES = 4096 };

static struct hz_lock look_lock = HZ_LOCK_INIT(HZ_RANK_LEAF);
static _Atomic(uint64_t) cpus_allowed[WORDS];    /* hint: the first thread's affinity; no bit set: unknown */
static _Atomic(uint64_t) cpus_seen[WORDS];       /* hint: CPUs on which threads ran since the last look */
static _Atomic(uint64_t) cpus_before[WORDS];     /* hint: CPUs on which threads ran between the two last looks */
static _Atomic(uint32_t) cpu_quota = UINT32_MAX; /* hint: whole CPUs */
static _Atomic(bool) cpus_are_hidden;            /* hint: no file may be read */
static _Atomic(uint64_t) looked_at_ms;           /* hint; written under the lock; 0: never */

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

/* The value of a hexadecimal digit; -1 for another character. */
static int digit_of(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parses "Cpus_allowed:\tf,00000003\n", highest CPU first. Sets no bit when there is no such line, or the text stops
   before its end. */
static void mask_parse(const char *text, uint64_t mask[WORDS]) {
    static const char label[] = "\nCpus_allowed:\t";
    memset(mask, 0, WORDS * sizeof(mask[0]));
    const char *line = strstr(text, label);
    const char *end = line != NULL ? strchr(line + sizeof(label) - 1, '\n') : NULL;
    if (end == NULL)
        return;
    unsigned cpu = 0;
    for (const char *next = end - 1; *next != '\t'; next--) {
        int digit = digit_of(*next);
        if (digit < 0)
            continue; /* a comma */
        mask[cpu / 64 % WORDS] |= (uint64_t)digit << cpu % 64;
        cpu += 4;
    }
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

/* True if the mask has changed. */
static bool look_locked(const char *status, const char *online, const char *groups, const char *root) {
    static char text[CPUS_TEXT_BYTES]; /* lock: look_lock; a thread with a small stack may come here */
    uint64_t mask[WORDS];
    text[0] = '\0';
    for (unsigned i = 0; i < WORDS; i++) {
        hz_store_rlx(&cpus_before[i], hz_load_rlx(&cpus_seen[i]));
        hz_store_rlx(&cpus_seen[i], 0);
    }
    if (!hz_load_rlx(&cpus_are_hidden))
        hz_os_read_file(status, text, sizeof(text));
    if (text[0] == '\0') /* old values are better than none */
        return false;
    bool changed = false;
    mask_parse(text, mask);
    hz_os_read_file(online, text, sizeof(text)); /* a task that is not bound has all CPUs that may ever be there */
    online_parse(text, mask);
    for (unsigned i = 0; i < WORDS; i++) {
        changed |= hz_load_rlx(&cpus_allowed[i]) != mask[i];
        hz_store_rlx(&cpus_allowed[i], mask[i]);
    }
    hz_store_rlx(&cpu_quota, hz_cgroup_cpus(groups, root));
    return changed;
}

bool hz_cpus_look_at(const char *status, const char *online, const char *groups, const char *root) {
    hz_lock_acquire(&look_lock);
    bool changed = look_locked(status, online, groups, root);
    hz_lock_release(&look_lock);
    return changed;
}

void hz_cpus_look_never(void) {
    hz_store_rlx(&cpus_are_hidden, true);
}

bool hz_cpus_look(void) {
    uint64_t now = hz_os_now_ms();
    uint64_t last = hz_load_rlx(&looked_at_ms);
    if (last != 0 && now < last + LOOK_MS)
        return false;
    hz_lock_acquire(&look_lock);
    bool changed = false;
    if (hz_load_rlx(&looked_at_ms) == last) { /* relaxed: lock. Otherwise another thread has just looked */
        changed =
            look_locked("/proc/self/status", "/sys/devices/system/cpu/online", "/proc/self/cgroup", "/sys/fs/cgroup");
        hz_store_rlx(&looked_at_ms, hz_max(now, 1));
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
