"""Small libraries to preload, as C code for workload_programs.build_library: glibc's malloc with a flaw each."""

# Its configuration string makes a library one of ours.
OURS = """
#include "next.h"
const char *hz_config_string(void) { return "engine=test lane=none"; }
void *malloc(size_t size) { return next_malloc(size); }
"""
CRASHES = """
#include "next.h"
#include <signal.h>
void *malloc(size_t size) {
    static _Thread_local int calls;
    if (size >= 1024 && size <= 2048 && ++calls == 5) raise(SIGSEGV);
    return next_malloc(size);
}
"""
NO_MALLOC = "int nothing_to_see_here(void) { return 1; }\n"


def slow(turns: int) -> str:
    """A malloc with a loop of `turns` rounds before it."""
    return f"""
#include "next.h"
void *malloc(size_t size) {{
    for (volatile int i = 0; i < {turns}; i++) {{ }}
    return next_malloc(size);
}}
"""
