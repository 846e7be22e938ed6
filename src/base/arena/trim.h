/*
 * trim.h - gives back what a purge of resting memory leaves: descriptions of unused runs, and free memory that the
 * kernel or the program has changed behind the arena's back. Any thread.
 */
#ifndef HZ_BASE_ARENA_TRIM_H
#define HZ_BASE_ARENA_TRIM_H

#include "base/os/compiler.h"

/* Gives back the memory that describes the runs of segments in which no run is handed out. Returns the bytes. */
size_t hz_trim_meta(void);

/* Maps free pages anew and closes free units, also those that should hold no memory: the kernel may have filled them
   again (huge pages), and the program may have changed them by system calls of its own. Leaves alone what was mapped
   anew since its last use and holds nothing. Returns the bytes that counted as resting. */
size_t hz_trim_free(void);

/* Gives back the memory of free pages that should hold none. Returns whether there was any. Asks the kernel by one
   system call for each segment; does nothing in a process that may be filtered. */
bool hz_trim_filled(void);

#endif
