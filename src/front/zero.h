/*
 * zero.h - the guard build's addresses for malloc(0): unique, and not accessible. Any thread, lock-free.
 */
#ifndef HZ_FRONT_ZERO_H
#define HZ_FRONT_ZERO_H

#include "base/os/compiler.h"

/* An address of no bytes; NULL when all are in use. */
void *hz_zero_alloc(void);

/* Whether the address is in the range that hz_zero_alloc takes from. */
bool hz_zero_has(const void *block);

/* Gives an address back; false if it is not in the range. Ends the program if it is not in use; `function`: one of
   HZ_IN_*. */
bool hz_zero_free(const void *block, const char *function);

#endif
