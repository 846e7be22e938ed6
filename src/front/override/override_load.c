/*
 * override_load.c - what happens when the library is loaded and when the program ends. In the products only.
 */
#include "base/os/os.h"
#include "base/process/symbols.h"
#include "base/profile/profile.h"
#include "base/watch/guard_pool.h"
#include "front/reports/leaks.h"
#include "front/reports/reporter.h"
#include "front/reports/request.h"
#include "heap/report/overview.h"
#include "heap/threads/sample.h"
#include "heap/threads/thread.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void load_say(const char *variable, const char *value, const char *what) {
    char text[200];
    int length = snprintf(text, sizeof(text), "hakozuna: %s=%.80s: %s\n", variable, value, what);
    if (length > 0)
        (void)hz_os_write(STDERR_FILENO, text, (size_t)length); /* diagnostics: a closed stderr cannot be reported */
}

/* A decimal number of 0..HZ_GUARD_RATE_MAX, or -1. */
static int64_t rate_of(const char *value) {
    int64_t rate = value[0] == '\0' ? -1 : 0;
    for (const char *digit = value; *digit != '\0' && rate >= 0; digit++) {
        rate = *digit >= '0' && *digit <= '9' ? 10 * rate + (*digit - '0') : -1;
        if (rate > HZ_GUARD_RATE_MAX)
            rate = -1;
    }
    return rate;
}

/* HAKOZUNA_SAMPLE_GUARD: one allocation in this many is guarded; 0 or unset: none. */
static void sample(void) {
    const char *variable = "HAKOZUNA_SAMPLE_GUARD";
    const char *value = hz_os_getenv("HAKOZUNA_SAMPLE_GUARD");
    if (value == NULL)
        return;
    int64_t rate = rate_of(value);
    if (rate < 0)
        load_say(variable, value, "allowed are 0 (off) to " HZ_STRINGIFY(HZ_GUARD_RATE_MAX));
    else if (rate > 0 && HZ_CONFIG_FENCES)
        load_say(variable, value, "no effect in the guard build, which guards every block");
    else if (rate > 0 && !hz_sample_start((uint32_t)rate))
        load_say(variable, value, "no address space for the guarded blocks");
}

static void profile_start(const char *variable, const char *value, uint64_t rate) {
    if (hz_reporter_profile_by_frames() && !hz_profile_use_frames())
        load_say(variable, value, "no unwinding by frame pointers here; stack traces use unwind tables");
    bool waits = hz_reporter_profile_waits();
    if (waits ? !hz_profile_prepare(rate) : !hz_sample_start_profile(rate))
        load_say(variable, value, "no address space for the profile");
}

/* HAKOZUNA_PROFILE: a heap profile. The first thread reads the variable, so a library that another thread loads has no
   profile. */
static void profile_begin(const char *value) {
    const char *variable = "HAKOZUNA_PROFILE";
    uint64_t rate = hz_reporter_profile_rate();
    if (rate == 0)
        return;
    if (HZ_CONFIG_FENCES)
        load_say(variable, value, "no effect in the guard build");
    else if (hz_guard_rate() != 0)
        load_say(variable, value, "no effect beside HAKOZUNA_SAMPLE_GUARD");
    else
        profile_start(variable, value, rate);
}

/* HAKOZUNA_SHOW_CONFIG: 1 prints a line on stderr, 2 the configuration too. */
static void show_config(void) {
    const char *value = hz_os_getenv("HAKOZUNA_SHOW_CONFIG");
    if (value == NULL || value[0] == '\0' || strcmp(value, "0") == 0)
        return;
    if (strcmp(value, "1") == 0 || strcmp(value, "2") == 0)
        hz_overview_introduce(STDERR_FILENO, value[0] == '2');
    else
        load_say("HAKOZUNA_SHOW_CONFIG", value, "allowed are 0 (off), 1 (a line) and 2 (the knobs too)");
}

/* When the library is loaded: attaches the first thread, and installs the hooks. */
__attribute__((constructor)) static void at_load(void) {
    hz_symbols_load();
    sample();
    const char *profile_words = hz_os_getenv("HAKOZUNA_PROFILE");
    if (hz_os_is_first_thread()) {
        const char *leaks_words = hz_os_getenv("HAKOZUNA_LEAKS");
        const struct hz_reporter_words asked[HZ_REQUESTS] = {
            [HZ_REQUEST_STATS] = {hz_os_getenv("HAKOZUNA_STATS"), hz_os_getenv("HAKOZUNA_STATS_OWNER")},
            [HZ_REQUEST_PROFILE] = {profile_words, hz_os_getenv("HAKOZUNA_PROFILE_OWNER")},
            [HZ_REQUEST_LEAKS] = {leaks_words, leaks_words != NULL ? hz_os_getenv("HAKOZUNA_LEAKS_OWNER") : NULL},
        };
        hz_reporter_read(asked);
    }
    profile_begin(profile_words);
    if (hz_os_is_first_thread())
        hz_thread_start();
    else
        (void)hz_thread_attach(); /* dlopen; without memory the first allocation tries again */
    if (hz_os_is_first_thread())
        hz_reporter_start();
    show_config();
}

/* When the program ends. */
__attribute__((destructor)) static void at_unload(void) {
    hz_reporter_exit();
    hz_leaks_status_end();
}
