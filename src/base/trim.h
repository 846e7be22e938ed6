/*
 * trim.h - gives back memory of the arena beyond what rests: descriptions of unused runs, and free memory that the
 * kernel or the program has changed behind the arena's back. Called by malloc_trim, by purges and by the keeper. Any
 * thread.
 */
#ifndef HZ_BASE_TRIM_H
#define HZ_BASE_TRIM_H

#include "base/compiler.h"

/* Gives back the memory that describes the runs of segments in which no run is handed out. Returns the bytes. */
size_t hz_trim_meta(void);

/* Maps all free pages anew and closes all free units, also those that should hold no memory: the kernel may have filled
   them again (huge pages), and the program may have changed them by system calls of its own. Returns the bytes that
   should have held memory. */
size_t hz_trim_free(void);

/* Looks whether free pages hold memory that should hold none, and gives that back. Returns whether there was any. A
   system call for each segment; none in a process that may be filtered. */
bool hz_trim_filled(void);

#endif
