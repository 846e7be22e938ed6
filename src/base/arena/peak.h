/*
 * peak.h - the most memory that the arena held at a time. Noted where memory is handed out (large.c, and the layer
 * above when it uses hollow bytes), so freeing costs nothing. Any thread; takes no lock.
 */
#ifndef HZ_BASE_ARENA_PEAK_H
#define HZ_BASE_ARENA_PEAK_H

#include "base/os/compiler.h"

/* Notes the bytes that the arena holds (hz_arena_held_bytes) if they are the most so far. The sum is exact while no
   other thread gets or frees memory; otherwise it can be wrong by what other threads are moving at that moment. */
void hz_peak_note(void);

/* Forgets what was noted; the next peak begins at what is held now. */
void hz_peak_reset(void);

/* The most that was noted. A fork's child begins with its parent's. */
size_t hz_peak_bytes(void);

#endif
