/*
 * override_load.c - what happens when the library is loaded and when the program ends. In the products only.
 */
#include "hakozuna/hakozuna.h"

#include "base/cpus.h"
#include "base/os.h"
#include "heap/thread.h"

#include <string.h>
#include <unistd.h>

static bool is_set(const char *variable, const char *wanted) {
    const char *value = hz_os_getenv(variable);
    return value != NULL && strcmp(value, wanted) == 0;
}

/* When the library is loaded: attaches the first thread, and installs the hooks. HAKOZUNA_SHOW_CONFIG=1 prints the
   configuration on stderr. */
__attribute__((constructor)) static void at_load(void) {
    if (is_set("HAKOZUNA_BACKGROUND", "0"))
        hz_cpus_look_never();
    if (hz_os_is_first_thread())
        hz_thread_start(true);
    else
        (void)hz_thread_attach(); /* dlopen; without memory the first allocation tries again */
    if (!is_set("HAKOZUNA_SHOW_CONFIG", "1"))
        return;
    const char *config = hz_config_string();
    (void)hz_os_write(STDERR_FILENO, config, strlen(config)); /* diagnostics: a closed stderr cannot be reported */
    (void)hz_os_write(STDERR_FILENO, "\n", 1);
}

/* When the program ends: HAKOZUNA_SHOW_STATS=1 or =json prints the statistics on stderr. */
__attribute__((destructor)) static void at_unload(void) {
    bool json = is_set("HAKOZUNA_SHOW_STATS", "json");
    if (json || is_set("HAKOZUNA_SHOW_STATS", "1"))
        (void)hz_stats_print(STDERR_FILENO, json ? HZ_STATS_JSON : HZ_STATS_TEXT); /* diagnostics, as above */
}
