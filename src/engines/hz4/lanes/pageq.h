/* Lane pageq, for comparison: lane default, but blocks are sent to their pages, and pages queued for their owner. */
#ifndef HZ4_LANES_PAGEQ_H
#define HZ4_LANES_PAGEQ_H

#define HZ_LANE_NAME "pageq"

#define LANE_HZ_REMOTE_INBOX HZ_SET(0)

#include "lanes/default.h"

#endif
