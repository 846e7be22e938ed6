/* deep_host.c - opens a library with RTLD_DEEPBIND and swaps blocks with it. The program's RUNPATH leads to the
   library, so the C library must see that the program calls dlopen. Usage: deep_host NAME */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 2000, SIZES = 300 };

int main(int argc, char **argv) {
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) : NULL;
    if (library == NULL) {
        fprintf(stderr, "deep_host: %s\n", dlerror());
        return 1;
    }
    void *(*swap)(void *) = (void *(*)(void *))dlsym(library, "deep_swap");
    for (size_t i = 0; i < ROUNDS && swap != NULL; i++)
        free(swap(malloc(i % SIZES)));
    puts(swap != NULL ? "swapped" : "no deep_swap");
    return 0;
}
