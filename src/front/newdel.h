/*
 * newdel.h - operator new when memory is short, and when the program has replaced a part of the operators.
 */
#ifndef HZ_FRONT_NEWDEL_H
#define HZ_FRONT_NEWDEL_H

#include "base/os/compiler.h"

/* operator new after a failed allocation: calls the new_handler and tries again, for as long as there is a handler.
   Then throws bad_alloc, or returns NULL if `nothrow`. */
HZ_COLD void *hz_front_new_slow(size_t size, size_t alignment, bool nothrow);

enum hz_new_form { HZ_NEW, HZ_NEW_ARRAY, HZ_NEW_ALIGNED, HZ_NEW_ARRAY_ALIGNED };

/* For a nothrow new in a program that has replaced a throwing new: the C++ runtime's own nothrow new calls the
   program's operator inside a try block. *block is NULL if the operator throws. False, with nothing called, if no
   runtime is loaded. */
HZ_COLD bool hz_front_new_caught(enum hz_new_form form, size_t size, size_t alignment, void **block);

#endif
