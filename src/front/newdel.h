/*
 * newdel.h - operator new when memory is short.
 */
#ifndef HZ_FRONT_NEWDEL_H
#define HZ_FRONT_NEWDEL_H

#include "base/compiler.h"

/* operator new after a failed allocation: calls the new_handler and tries again, for as long as there is a handler.
   Then throws bad_alloc, or returns NULL if `nothrow`. */
HZ_COLD void *hz_front_new_slow(size_t size, size_t alignment, bool nothrow);

#endif
