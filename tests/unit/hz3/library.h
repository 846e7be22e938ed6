/*
 * library.h - the internal headers that only hz3 has; see unit/library.h.
 */
#ifndef HZ_TESTS_UNIT_HZ3_LIBRARY_H
#define HZ_TESTS_UNIT_HZ3_LIBRARY_H

#include "unit/library.h"

extern "C" {
#include "central.h"
#include "shadow.h"
#include "transfer.h"
}

#endif
