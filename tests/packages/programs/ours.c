/*
 * ours.c - prints the configuration string if malloc is hakozuna's, in the program and in the C library. If it is
 * another allocator's, hz_free reports a foreign pointer and ends the program.
 */
#include <hakozuna/hakozuna.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    char *block = malloc(100 + (size_t)argc);
    char *copy = strdup(argv[0]); /* allocated inside the C library */
    void *named = hz_malloc(100);
    if (block == NULL || copy == NULL || named == NULL)
        return 1;
    memset(block, 1, hz_usable_size(block));
    hz_free(block);
    hz_free(copy);
    free(named);
    puts(hz_config_string());
    return 0;
}
