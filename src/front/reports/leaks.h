/*
 * leaks.h - looks for leaked blocks (heap/report/leaks.h) and reports them: for hz_leaks_check and HAKOZUNA_LEAKS.
 *
 * Nothing here runs unless it is asked for. The calling thread stops all others for as long as the search takes, and
 * writes the report when they go on. A process with one thread needs no stop.
 */
#ifndef HZ_FRONT_LEAKS_H
#define HZ_FRONT_LEAKS_H

#include "hakozuna/hakozuna.h"

#include "base/os/compiler.h"

/* Looks, and writes a report to the descriptor, unless it is -1. Returns 0, or an errno value if there was no search,
   which the report says; EIO: the report could not be written. */
int hz_leaks_report(int fd, struct hz_leaks *leaks);

/* A block that begins with this name, a constant, is no leak: the library has set the variable of the environment, and
   bash has a putenv of its own that copies what it gets, and later forgets it. Before other threads exist; a few times.
 */
void hz_leaks_keep(const char *name);

/* HAKOZUNA_LEAKS asks for a status with which the process ends if its last check has found leaks, or could not be made;
   0: it does not. */
void hz_leaks_status_begin(int status);
void hz_leaks_status_set(bool is_leaky);

/* The library is unloaded, perhaps because the process ends: the last thing to do. May end the process. */
void hz_leaks_status_end(void);

#endif
