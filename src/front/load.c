/*
 * load.c - what every library does when it is loaded, the archive that leaves malloc alone too: reads
 * HAKOZUNA_BACKGROUND, while the process has one thread, and tells the keeper which thread is the process's first. It
 * also keeps a library that contains the archive loaded after dlclose: the keeper runs its code, and the program may
 * have its blocks. The shared library is linked with -z nodelete.
 */
#define _GNU_SOURCE
#include "base/os/os.h"
#include "base/process/os_life.h"
#include "heap/back/keeper.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static void say_unknown(const char *value) {
    char text[160];
    int length = snprintf(text, sizeof(text), "hakozuna: HAKOZUNA_BACKGROUND=%.80s: allowed are 0 and 1\n", value);
    if (length > 0)
        (void)hz_os_write(STDERR_FILENO, text, (size_t)length); /* diagnostics: a closed stderr cannot be reported */
}

/* The beginning of the program or library that contains this file; the linker defines it. */
extern HZ_HIDDEN const char __ehdr_start[]; /* NOLINT(bugprone-reserved-identifier) */

/* Weak: a static program does without. */
extern __typeof__(dlopen) dlopen __attribute__((weak));
extern __typeof__(dladdr) dladdr __attribute__((weak));

static bool is_in_program(void) {
    const ElfW(Ehdr) *header = (const void *)__ehdr_start;
    return (uintptr_t)__ehdr_start + header->e_phoff == getauxval(AT_PHDR);
}

/* Only in a constructor: there the dynamic linker allows dlopen. */
static void stay_loaded(void) {
    Dl_info own;
    if (HZ_IS_SHARED || is_in_program() || dlopen == NULL || dladdr == NULL)
        return;
    if (dladdr(__ehdr_start, &own) != 0 && own.dli_fname != NULL)
        (void)dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE); /* it is loaded: only a flag is set */
}

/* In a set-user-ID program, whose user may have set the variables: it does not read them. A program that it executes
   would, if both its users are the other one, since that one is not set-user-ID. */
static void variables_remove(void) {
    static const char ours[] = "HAKOZUNA_";
    char **kept = environ;
    for (char **each = environ; each != NULL && *each != NULL; each++)
        if (strncmp(*each, ours, sizeof(ours) - 1) != 0)
            *kept++ = *each;
    if (kept != NULL)
        *kept = NULL;
}

/* Before override_load.c's constructor, which prints what this one has read. */
__attribute__((constructor(HZ_PRIORITY_EARLY))) static void library_load(void) {
    const char *background = hz_os_getenv("HAKOZUNA_BACKGROUND");
    stay_loaded();
    hz_life_load();
    if (hz_os_is_first_thread()) {
        hz_keeper_follow_first();
        if (getauxval(AT_SECURE) != 0 && !hz_os_has_threads()) /* another one could be in getenv */
            variables_remove();
    }
    if (background == NULL)
        return;
    if (strcmp(background, "0") == 0)
        hz_keeper_forbid();
    else if (strcmp(background, "1") == 0)
        hz_keeper_trust_filter();
    else
        say_unknown(background);
}
