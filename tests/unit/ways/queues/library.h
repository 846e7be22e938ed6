/*
 * library.h - the internal header of the way home by page queues; see unit/library.h.
 */
#ifndef HZ_TESTS_UNIT_WAYS_QUEUES_LIBRARY_H
#define HZ_TESTS_UNIT_WAYS_QUEUES_LIBRARY_H

#include "unit/ways/lists/lists.h"

extern "C" {
#include "page_local.h"
}

#endif
