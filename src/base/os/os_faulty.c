/*
 * os_faulty.c - an operating system that refuses calls on request, and whose clocks a test can set. The faulty
 * build puts it in front of os_linux.c; see os_faulty.h. Invariant: a refused call changes nothing, but for the target
 * that hz_os_remap gives up.
 */
#include "base/os/os_faulty.h"

#include "base/os/atomic.h"
#include "base/os/os.h"

#include <errno.h>

static _Atomic(uint64_t) calls;                   /* counter */
static _Atomic(uint64_t) failures;                /* counter */
static _Atomic(uint64_t) fail_after = UINT64_MAX; /* hint */
static _Atomic(uint64_t) fail_count;              /* hint */
static _Atomic(size_t) faulty_mapped;             /* counter; wraps around */
static _Atomic(size_t) faulty_kept;               /* counter */

void hz_os_faulty_fail(uint64_t after, uint64_t count) {
    /* relaxed, all: a test calls this while no other thread runs, or does not care which calls fail */
    hz_store_rlx(&fail_after, UINT64_MAX);
    hz_store_rlx(&calls, 0);
    hz_store_rlx(&failures, 0);
    hz_store_rlx(&fail_count, count);
    hz_store_rlx(&fail_after, after);
}

uint64_t hz_os_faulty_calls(void) {
    return hz_load_rlx(&calls); /* relaxed: counter */
}

uint64_t hz_os_faulty_failures(void) {
    return hz_load_rlx(&failures); /* relaxed: counter */
}

size_t hz_os_faulty_mapped_bytes(void) {
    return hz_load_rlx(&faulty_mapped); /* relaxed: counter */
}

size_t hz_os_faulty_kept_bytes(void) {
    return hz_load_rlx(&faulty_kept); /* relaxed: counter */
}

static bool refuse(void) {
    uint64_t number = hz_add_rlx(&calls, 1); /* relaxed, all: counter; as in hz_os_faulty_fail */
    uint64_t after = hz_load_rlx(&fail_after);
    if (number < after || number - after >= hz_load_rlx(&fail_count))
        return false;
    hz_add_rlx(&failures, 1);
    return true;
}

static void *mapped_count(void *mapped, size_t bytes) {
    hz_add_rlx(&faulty_mapped, mapped != NULL ? bytes : 0); /* relaxed: counter */
    return mapped;
}

void *hz_os_reserve(size_t bytes, size_t alignment) {
    return refuse() ? NULL : mapped_count(hz_os_linux_reserve(bytes, alignment), bytes);
}

bool hz_os_commit(void *address, size_t bytes) {
    return !refuse() && hz_os_linux_commit(address, bytes);
}

void *hz_os_map(size_t bytes, size_t alignment, bool lazy) {
    return refuse() ? NULL : mapped_count(hz_os_linux_map(bytes, alignment, lazy), bytes);
}

void *hz_os_map_zero(size_t bytes, size_t alignment) {
    return refuse() ? NULL : mapped_count(hz_os_linux_map_zero(bytes, alignment), bytes);
}

int hz_os_collapse(void *address, size_t bytes) {
    return refuse() ? ENOMEM : hz_os_linux_collapse(address, bytes);
}

bool hz_os_purge(void *address, size_t bytes) {
    return !refuse() && hz_os_linux_purge(address, bytes);
}

bool hz_os_renew(void *address, size_t bytes) {
    return !refuse() && hz_os_linux_renew(address, bytes);
}

bool hz_os_unmap(void *address, size_t bytes) {
    bool done = !refuse() && hz_os_linux_unmap(address, bytes);
    hz_sub_rlx(&faulty_mapped, done ? bytes : 0); /* relaxed, both: counters */
    hz_add_rlx(&faulty_kept, done ? 0 : bytes);
    return done;
}

bool hz_os_close(void *address, size_t bytes) {
    return !refuse() && hz_os_linux_close(address, bytes);
}

bool hz_os_fill(void *address, size_t bytes) {
    return !refuse() && mapped_count(hz_os_linux_fill(address, bytes) ? address : NULL, bytes) != NULL;
}

/* The target was reserved before. It takes the place of the old range, or is given up. */
void *hz_os_remap(void *address, size_t old_bytes, size_t new_bytes, void *target) {
    bool refused = refuse();
    void *moved = refused ? NULL : hz_os_linux_remap(address, old_bytes, new_bytes, target);
    if (refused && target != NULL)
        (void)hz_os_linux_unmap(target, new_bytes); /* it cannot be refused */
    if (target != NULL)
        hz_sub_rlx(&faulty_mapped, moved != NULL ? old_bytes : new_bytes); /* relaxed, both: counter */
    else if (moved != NULL)
        hz_add_rlx(&faulty_mapped, new_bytes - old_bytes);
    return moved;
}

/* ---- time ------------------------------------------------------------------------------------------ */

static _Atomic(uint64_t) step_us;     /* hint: what each reading adds; 0: the clocks are the real ones */
static _Atomic(uint64_t) step_cpu_us; /* hint */
static _Atomic(uint64_t) step_sleeps; /* hint */
static _Atomic(bool) usage_is_known;  /* hint */
static _Atomic(uint64_t) ahead_us;    /* counter: sums of what was added */
static _Atomic(uint64_t) sum_cpu_us;  /* counter */
static _Atomic(uint64_t) sum_sleeps;  /* counter */

void hz_os_faulty_pace(uint64_t wall_us, const struct hz_os_usage *used) {
    /* relaxed, all: a test calls this while no other thread reads a clock */
    hz_store_rlx(&step_us, wall_us);
    hz_store_rlx(&step_cpu_us, used != NULL ? used->cpu_us : 0);
    hz_store_rlx(&step_sleeps, used != NULL ? used->sleeps : 0);
    hz_store_rlx(&usage_is_known, used != NULL);
}

uint64_t hz_os_now_us(void) {
    return hz_os_linux_now_us() + hz_add_rlx(&ahead_us, hz_load_rlx(&step_us)); /* relaxed, both: hint, counter */
}

bool hz_os_usage_get(struct hz_os_usage *usage) {
    if (hz_load_rlx(&step_us) == 0) /* relaxed, all: hint, counter */
        return hz_os_linux_usage_get(usage);
    usage->cpu_us = hz_add_rlx(&sum_cpu_us, hz_load_rlx(&step_cpu_us));
    usage->sleeps = hz_add_rlx(&sum_sleeps, hz_load_rlx(&step_sleeps));
    return hz_load_rlx(&usage_is_known);
}
