/* show_maps.c - a C program that allocates in two threads and prints its memory mappings. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(void *unused) {
    (void)unused;
    for (size_t size = 1; size < 8000000; size *= 3) {
        void *block = malloc(size);
        if (block == NULL)
            abort();
        memset(block, 1, size);
        free(block);
    }
    return NULL;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, allocate, NULL) != 0)
        return 1;
    allocate(NULL);
    pthread_join(thread, NULL);
    char line[1000];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        fputs(line, stdout);
    return 0;
}
