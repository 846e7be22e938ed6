/* deep.c - a library that deep_host.c opens with RTLD_DEEPBIND: its own dependencies come before the preloaded library.
 */
#include <stdlib.h>
#include <string.h>

void *deep_swap(void *block);

/* Frees a block of the program's, and allocates one that the program frees. */
void *deep_swap(void *block) {
    free(block);
    return strdup("allocated by the C library for this one");
}

__attribute__((constructor)) static void begin(void) {
    free(strdup("the C library's own call of malloc"));
}
