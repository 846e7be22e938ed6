/* host.c - opens plugin.c, calls it, closes it, and says whether the keeper in it goes on. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 2000, PAUSE_US = 5000, ROUNDS = 4 };

/* How often the keeper was switched away: it rises with each of its rounds. -1: there is no keeper. */
static long keepers_switches(void) {
    char line[200];
    long switches = -1;
    FILE *found = popen("grep -h -A100 '^Name:.hakozuna$' /proc/$PPID/task/*/status | grep ^voluntary", "r");
    if (found == NULL)
        return -1;
    if (fgets(line, sizeof(line), found) == NULL || sscanf(line, "voluntary_ctxt_switches: %ld", &switches) != 1)
        switches = -1;
    (void)pclose(found);
    return switches;
}

static int await(long switches) {
    for (int i = 0; i < TRIES && keepers_switches() < switches; i++)
        (void)usleep(PAUSE_US);
    return keepers_switches() >= switches;
}

int main(int count, char **arguments) {
    void *plugin = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void (*run)(void) = NULL;
    if (plugin != NULL)
        *(void **)&run = dlsym(plugin, "run");
    if (run == NULL)
        return 1;
    run();
    if (!await(0) || dlclose(plugin) != 0)
        return 2;
    puts("closed");
    if (!await(keepers_switches() + ROUNDS))
        return 3;
    puts("the keeper runs");
    return 0;
}
