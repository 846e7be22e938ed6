/*
 * library.h - the internal headers of the way home by stages; see unit/library.h.
 */
#ifndef HZ_TESTS_UNIT_WAYS_STAGES_LIBRARY_H
#define HZ_TESTS_UNIT_WAYS_STAGES_LIBRARY_H

#include "unit/ways/lists/lists.h"

extern "C" {
#include "central.h"
#include "shadow.h"
#include "transfer.h"
}

#endif
