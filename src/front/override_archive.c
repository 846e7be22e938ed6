/*
 * override_archive.c - reads the surroundings when a program starts that is linked with the archive. In the archive
 * only: the shared library does so in the program's first pthread_create, which most programs never call.
 */
#include "heap/keeper.h"
#include "heap/surroundings.h"

__attribute__((constructor)) static void surroundings_load(void) {
    if (hz_keeper_is_possible())
        hz_surroundings_read();
}
