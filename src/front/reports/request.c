/*
 * request.c - see request.h.
 */
#include "front/reports/request.h"

#include "base/profile/profile.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

struct named_signal {
    const char *name;
    int number;
};

/* Signals that a program may leave unused. Not those that a fault raises, and not those that stop or end a process. */
static const struct named_signal signals[] = {
    {"HUP", SIGHUP},   {"USR1", SIGUSR1}, {"USR2", SIGUSR2},   {"ALRM", SIGALRM}, {"VTALRM", SIGVTALRM},
    {"PROF", SIGPROF}, {"URG", SIGURG},   {"WINCH", SIGWINCH}, {"IO", SIGIO},     {"PWR", SIGPWR},
};

#define ALLOWED_SIGNALS "HUP, USR1, USR2, ALRM, VTALRM, PROF, URG, WINCH, IO, PWR, or the number of a real-time signal"

enum { EVERY_MAX_S = 86400 };

static const char default_file[] = "%e.%p.heap"; /* of a profile */

struct word {
    const char *start;
    size_t length;
};

static bool is(struct word word, const char *wanted) {
    return word.length == strlen(wanted) && memcmp(word.start, wanted, word.length) == 0;
}

/* Whether the word is `key` and a value, which replaces it. */
static bool has_key(struct word *word, const char *key) {
    size_t length = strlen(key);
    if (word->length < length || memcmp(word->start, key, length) != 0)
        return false;
    word->start += length;
    word->length -= length;
    return true;
}

/* A decimal number of 1..most; 0 when the word is none. */
static uint32_t number_of(struct word word, uint32_t most) {
    uint64_t number = 0;
    for (size_t i = 0; i < word.length; i++) {
        if (word.start[i] < '0' || word.start[i] > '9')
            return 0;
        number = 10 * number + (uint64_t)(word.start[i] - '0');
        if (number > most)
            return 0;
    }
    return (uint32_t)number;
}

/* A number of bytes of 1..HZ_PROFILE_RATE_MAX, with K or M behind it for KiB or MiB; 0 when the word is none. */
static uint64_t rate_of_word(struct word word) {
    unsigned shift = 0;
    if (word.length > 1 && (word.start[word.length - 1] == 'K' || word.start[word.length - 1] == 'M')) {
        shift = word.start[word.length - 1] == 'K' ? 10 : 20;
        word.length--;
    }
    uint64_t bytes = (uint64_t)number_of(word, HZ_PROFILE_RATE_MAX) << shift;
    return bytes <= HZ_PROFILE_RATE_MAX ? bytes : 0;
}

/* 0 when the word names none. */
static int signal_of(struct word word) {
    struct word name = word;
    (void)has_key(&name, "SIG");
    for (size_t i = 0; i < HZ_ARRAY_LENGTH(signals); i++)
        if (is(name, signals[i].name))
            return signals[i].number;
    int number = (int)number_of(word, (uint32_t)SIGRTMAX);
    return number >= SIGRTMIN ? number : 0;
}

/* Each '%' is followed by one of the letters, and the pattern is not empty. */
static bool is_pattern(struct word word) {
    for (size_t i = 0; i < word.length; i++) {
        if (word.start[i] != '%')
            continue;
        i++;
        if (i == word.length || strchr("pe%", word.start[i]) == NULL)
            return false;
    }
    return word.length > 0 && word.length < HZ_REQUEST_ROOM;
}

/* The word that only leaks have; as read_word. */
static const char *read_leaks_word(struct word word, struct hz_request *request) {
    enum { STATUS_MAX = 255 };
    if (!has_key(&word, "status="))
        return HZ_REQUEST_LEAKS_WORDS;
    uint32_t status = number_of(word, STATUS_MAX);
    if (status == 0)
        return "a status of 1 to " HZ_STRINGIFY(255);
    request->status = (int)status;
    return NULL;
}

/* The words that only statistics, profiles or leaks have; as read_word. */
static const char *read_own_word(struct word word, struct hz_request *request) {
    if (request->of == HZ_REQUEST_STATS) {
        if (is(word, "text"))
            request->format = HZ_STATS_TEXT;
        else if (is(word, "verbose"))
            request->format = HZ_STATS_VERBOSE;
        else if (is(word, "json"))
            request->format = HZ_STATS_JSON;
        else
            return HZ_REQUEST_WORDS;
        return NULL;
    }
    if (request->of == HZ_REQUEST_LEAKS)
        return read_leaks_word(word, request);
    if (is(word, "leak")) {
        request->leaks = true;
    } else if (is(word, "peak")) {
        request->at_peak = true;
    } else if (is(word, "limit")) {
        request->at_limit = true;
    } else if (is(word, "wait")) {
        request->waits = true;
        request->listens = true;
    } else if (has_key(&word, "rate=")) {
        uint64_t bytes = rate_of_word(word);
        if (bytes == 0)
            return "1 to " HZ_STRINGIFY(HZ_PROFILE_RATE_MAX) " bytes, also with K or M behind the number";
        request->rate = bytes;
    } else if (has_key(&word, "unwind=")) {
        if (!is(word, "tables") && !is(word, "frame-pointer"))
            return "tables, frame-pointer";
        request->by_frames = is(word, "frame-pointer");
    } else {
        return HZ_REQUEST_PROFILE_WORDS;
    }
    return NULL;
}

/* What is allowed instead of the word; NULL when the word is good. */
static const char *read_word(struct word word, struct hz_request *request) {
    if (is(word, "1") || is(word, "exit")) {
        request->at_exit = true;
    } else if (is(word, "listen") && request->of != HZ_REQUEST_LEAKS) {
        request->listens = true;
    } else if (is(word, "children")) {
        request->in_children = true;
    } else if (has_key(&word, "signal=")) {
        int number = signal_of(word);
        if (number == 0)
            return ALLOWED_SIGNALS;
        request->signal = number;
    } else if (has_key(&word, "every=")) {
        uint32_t seconds = number_of(word, EVERY_MAX_S);
        if (seconds == 0)
            return "1 to " HZ_STRINGIFY(86400) " seconds";
        request->every_s = seconds;
    } else if (has_key(&word, "file=")) {
        if (!is_pattern(word))
            return "a path of 1 to 511 characters with %p (process), %e (program) and %% (%)";
        memcpy(request->file, word.start, word.length);
        request->file[word.length] = '\0';
    } else {
        return read_own_word(word, request);
    }
    return NULL;
}

void hz_request_read(enum hz_request_of of, const char *words, struct hz_request *request,
                     void (*refuse)(const char *word, size_t length, const char *allowed)) {
    bool is_good = false;
    *request = (struct hz_request){.of = of, .format = HZ_STATS_TEXT, .rate = HZ_REQUEST_RATE};
    if (of == HZ_REQUEST_PROFILE) /* bytes, which a terminal cannot show */
        memcpy(request->file, default_file, sizeof(default_file));
    if (words[0] == '\0' || strcmp(words, "0") == 0)
        return;
    for (const char *start = words;;) {
        struct word word = {start, strcspn(start, ",")};
        const char *allowed = read_word(word, request);
        if (allowed != NULL)
            refuse(word.start, word.length, allowed);
        is_good |= allowed == NULL;
        if (word.start[word.length] == '\0')
            break;
        start = word.start + word.length + 1;
    }
    if (is_good && !hz_request_is_any(request))
        request->at_exit = true;
}

bool hz_request_is_meanwhile(const struct hz_request *request) {
    return request->at_peak || request->at_limit || request->signal != 0 || request->every_s != 0;
}

bool hz_request_is_any(const struct hz_request *request) {
    return request->at_exit || request->leaks || request->listens || hz_request_is_meanwhile(request);
}

bool hz_request_path(const char *pattern, const char *program, uint32_t id, char *path, size_t room) {
    size_t used = 0;
    for (; *pattern != '\0'; pattern++) {
        char number[16];
        const char *part = number;
        number[0] = *pattern;
        number[1] = '\0';
        if (*pattern == '%') {
            pattern++;
            if (*pattern == 'e')
                part = program;
            else if (*pattern == 'p' && snprintf(number, sizeof(number), "%u", id) < 0)
                return false;
        }
        size_t length = strlen(part);
        if (used + length >= room)
            return false;
        memcpy(path + used, part, length);
        used += length;
    }
    path[used] = '\0';
    return true;
}
