/*
 * profile_write.h - writes the heap profile: as a stream that command/heap_profile.py reads, or as a list of leaks for
 * people.
 *
 * Nothing is allocated. The dynamic linker's lock is taken, for the names of files, but not while anything is written;
 * so call it outside malloc and signal handlers. Other threads go on: what they sample meanwhile may be missing. Any
 * thread.
 */
#ifndef HZ_BASE_PROFILE_PROFILE_WRITE_H
#define HZ_BASE_PROFILE_PROFILE_WRITE_H

#include "base/os/compiler.h"

/* Writes the profile as it is now, a *moment*. docs/formats.md describes the bytes. A file can have
   several moments, one behind the other. Returns 0 or an errno value. */
int hz_profile_write(int fd);

/* Writes the sites that hold the most live bytes, as text with the file and offset of each call, for addr2line. What
   cannot be written is lost. */
void hz_profile_write_leaks(int fd);

#endif
