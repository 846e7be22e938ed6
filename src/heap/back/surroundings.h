/*
 * surroundings.h - what the heap follows of the machine around the process: the limits of its control group, the
 * kernel's setting of huge pages, and which CPUs exist. All of it comes from files.
 *
 * A program may close any descriptor at any time; a daemon closes all of them at its start. If the library had a file
 * open then, its descriptor could be another file's a moment later. So the library reads files while the process has
 * one thread, or in the keeper, which has a table of files of its own (hz_os_files_own).
 */
#ifndef HZ_HEAP_BACK_SURROUNDINGS_H
#define HZ_HEAP_BACK_SURROUNDINGS_H

#include "base/os/compiler.h"

/* Reads everything, once in a process: the default limits come from the control group (limit.h). Call it in a process
   with one thread, or in a thread with files of its own. */
void hz_surroundings_read(void);

/* Whether hz_surroundings_read was called. */
bool hz_surroundings_are_known(void);

/* Reads again what can change, at most once a second. Call it in a thread with files of its own. */
void hz_surroundings_follow(void);

/* Looks again at what the process holds beside the heap, if the heap has grown (hz_heap_limit_look). Call it in a
   process with one thread, or in a thread with files of its own. */
void hz_surroundings_memory_look(void);

#endif
