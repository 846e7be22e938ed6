/*
 * load.c - what every library does when it is loaded, the archive that leaves malloc alone too: reads
 * HAKOZUNA_BACKGROUND, while the process has one thread, and tells the keeper which thread is the process's first.
 */
#include "base/os/os.h"
#include "base/process/os_life.h"
#include "heap/back/keeper.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void say_unknown(const char *value) {
    char text[160];
    int length = snprintf(text, sizeof(text), "hakozuna: HAKOZUNA_BACKGROUND=%.80s: allowed are 0 and 1\n", value);
    if (length > 0)
        (void)hz_os_write(STDERR_FILENO, text, (size_t)length); /* diagnostics: a closed stderr cannot be reported */
}

/* Before override_load.c's constructor, which prints what this one has read. */
__attribute__((constructor(HZ_PRIORITY_EARLY))) static void library_load(void) {
    const char *background = hz_os_getenv("HAKOZUNA_BACKGROUND");
    hz_life_load();
    if (hz_os_is_first_thread())
        hz_keeper_follow_first();
    if (background == NULL)
        return;
    if (strcmp(background, "0") == 0)
        hz_keeper_forbid();
    else if (strcmp(background, "1") == 0)
        hz_keeper_trust_filter();
    else
        say_unknown(background);
}
