/*
 * prefix.c - two allocators in one program: malloc is the C library's, and the hz_ names are hakozuna's. With an
 * argument it mixes them up, which hz_free reports.
 */
#include <hakozuna/hakozuna.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    (void)argv;
    void *other = malloc(100);
    void *ours = hz_malloc(100);
    if (other == NULL || ours == NULL)
        return 1;
    hz_free(argc > 1 ? other : ours);
    free(other);
    puts(hz_config_string());
    return 0;
}
