/*
 * vdso.h - functions that the kernel maps into each process (vdso(7)), such as clock_gettime without a system call.
 * os_linux.c calls them directly, since the program can replace the C library's function.
 */
#ifndef HZ_BASE_OS_VDSO_H
#define HZ_BASE_OS_VDSO_H

#include "base/os/compiler.h"

/* The address of a function in an ELF image whose bytes lie in memory as in its file. 0 when it has no such function,
   or there is no image (NULL). Reads memory only. Any thread. */
uintptr_t hz_vdso_find(const void *image, const char *name);

#endif
