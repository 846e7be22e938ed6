/* Lane pageq, for comparison: as default, but blocks are sent to their pages, and pages are queued for their owner. */
#ifndef HZ4_LANES_PAGEQ_H
#define HZ4_LANES_PAGEQ_H

#define HZ_LANE_NAME "pageq"

#ifndef HZ_REMOTE_INBOX
#define HZ_REMOTE_INBOX 0
#endif

#include "lanes/default.h"

#endif
