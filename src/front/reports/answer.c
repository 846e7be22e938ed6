/*
 * answer.c - see answer.h.
 */
#include "front/reports/answer.h"

#include "hakozuna/hakozuna.h"

#include "base/os/os.h"
#include "base/profile/profile.h"
#include "base/profile/profile_write.h"
#include "heap/threads/sample.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FOR_SECONDS_MAX = 86400, SECOND_IN_MS = 1000 };

static bool is_waiting; /* set before other threads exist */

void hz_answer_use(bool waits) {
    is_waiting = waits;
}

bool hz_answer_is_waiting(void) {
    return is_waiting;
}

static int answer_text(int file, const char *text) {
    return hz_os_write(file, text, strlen(text));
}

static int answer_refusal(int file, const char *why) {
    int error = answer_text(file, "no: ");
    error = error != 0 ? error : answer_text(file, why);
    return error != 0 ? error : answer_text(file, "\n");
}

static bool begins_with(const char *text, const char *wanted) {
    return strlen(text) >= strlen(wanted) && memcmp(text, wanted, strlen(wanted)) == 0;
}

/* A decimal number of 1..FOR_SECONDS_MAX; 0 when the text is none. */
static uint32_t seconds_of(const char *text) {
    uint32_t number = 0;
    for (; *text >= '0' && *text <= '9' && number <= FOR_SECONDS_MAX; text++)
        number = 10 * number + (uint32_t)(*text - '0');
    return *text == '\0' && number <= FOR_SECONDS_MAX ? number : 0;
}

/* ---- statistics -------------------------------------------------------------------------------------- */

static int answer_stats(int file, enum hz_stats_format format) {
    int error = answer_text(file, "ok\n");
    if (error == 0 && hz_stats_print(file, format) != 0)
        error = errno;
    return error != 0 ? error : answer_text(file, "end\n");
}

/* ---- the profile ------------------------------------------------------------------------------------- */

/* `done`: NULL, or what was done, for a line of its own. */
static int answer_profile(int file, const char *done, uint32_t left) {
    char line[64];
    int error = answer_text(file, "ok\n");
    if (error == 0 && done != NULL && snprintf(line, sizeof(line), "%s %u\n", done, left) > 0)
        error = answer_text(file, line);
    error = error != 0 ? error : hz_profile_write(file);
    return error != 0 ? error : answer_text(file, "end\n");
}

/* `seconds`: 0 for good. */
static int answer_begin(int file, uint32_t seconds) {
    const char *done = hz_profile_is_on() ? "runs" : "began";
    return answer_profile(file, done, hz_sample_begin(seconds * SECOND_IN_MS));
}

static int answer_end(int file) {
    if (!is_waiting)
        return answer_refusal(
            file, "it samples from its start to its end; only with HAKOZUNA_PROFILE=wait can that be stopped");
    if (hz_profile_rate() == 0)
        return answer_refusal(file, "nobody has asked it to sample yet, so there is nothing to stop");
    return answer_profile(file, "ended", hz_sample_end());
}

static int answer_about_profile(const char *words, int file) {
    static const char duration[] = " for=";
    if (hz_profile_prepared_rate() == 0)
        return answer_refusal(file, "the process makes no heap profile");
    if (strcmp(words, " start") == 0)
        return answer_begin(file, HZ_SAMPLE_FOR_GOOD);
    if (strcmp(words, " stop") == 0)
        return answer_end(file);
    if (begins_with(words, duration)) {
        uint32_t seconds = seconds_of(words + sizeof(duration) - 1);
        return seconds != 0 ? answer_begin(file, seconds)
                            : answer_refusal(file, "profile for=SECONDS: allowed are 1 to " HZ_STRINGIFY(86400));
    }
    if (hz_profile_rate() == 0)
        return answer_refusal(file, "it waits to be asked to sample: profile start, or profile for=SECONDS");
    return answer_profile(file, NULL, 0);
}

/* ---- all requests ------------------------------------------------------------------------------------ */

static int answer_any(const char *request, int file) {
    static const char about_profile[] = "profile";
    static const struct {
        const char *name;
        enum hz_stats_format format;
    } kinds[] = {{"text", HZ_STATS_TEXT}, {"verbose", HZ_STATS_VERBOSE}, {"json", HZ_STATS_JSON}};
    const char *behind = request + sizeof(about_profile) - 1;
    for (size_t i = 0; i < HZ_ARRAY_LENGTH(kinds); i++)
        if (strcmp(request, kinds[i].name) == 0)
            return answer_stats(file, kinds[i].format);
    if (strcmp(request, about_profile) == 0 || strcmp(request, "profile start") == 0 ||
        strcmp(request, "profile stop") == 0 || begins_with(request, "profile for="))
        return answer_about_profile(behind, file);
    return answer_refusal(file, "what is asked is not known to this version of the library");
}

const struct hz_listener_duties hz_answer_duties = {.answer = answer_any, .look = hz_sample_look};
