/*
 * plain.c - knows nothing of hakozuna. Under hakozuna, HAKOZUNA_SHOW_CONFIG=2 makes it print the configuration string.
 */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    char *block = malloc(100 + (size_t)argc);
    if (block == NULL)
        return 1;
    block[0] = argv[0][0];
    printf("%d\n", block[0] != '\0');
    free(block);
    return 0;
}
