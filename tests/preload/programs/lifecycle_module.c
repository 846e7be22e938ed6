/* lifecycle_module.c - the module of lifecycle.c. Its atexit handler runs when it is closed. */
#include "lifecycle.h"

static struct blocks here;

__attribute__((constructor)) static void module_begins(void) {
    stage(&here, "module: constructor");
}

static void module_at_exit(void) {
    stage(&here, "module: atexit handler");
}

void visit(void);
void visit(void) {
    stage(&here, "module: call");
    if (atexit(module_at_exit) != 0)
        abort();
}

__attribute__((destructor)) static void module_ends(void) {
    stage(&here, "module: destructor");
    free_all(&here);
}
