/* starter_host.c - a program for starter.cc, which writes "started". Usage: starter_host [LIBRARY], a library to open.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc > 1 && dlopen(argv[1], RTLD_NOW) == NULL) {
        fprintf(stderr, "starter_host: %s\n", dlerror());
        return 1;
    }
    free(malloc(100));
    return 0;
}
