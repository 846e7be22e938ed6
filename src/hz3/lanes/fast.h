/* Lane fast: 8 shards, for few threads and mostly local work; transfer and central with locks. Otherwise as scale. */
#ifndef HZ3_LANES_FAST_H
#define HZ3_LANES_FAST_H

#define HZ_LANE_NAME "fast"

#ifndef HZ_NUM_SHARDS
#define HZ_NUM_SHARDS 8
#endif
#ifndef HZ_SHARDS_PER_CPU
#define HZ_SHARDS_PER_CPU 0
#endif
#ifndef HZ_TRANSFER_LOCKFREE
#define HZ_TRANSFER_LOCKFREE 0
#endif
#ifndef HZ_CENTRAL_LOCKFREE
#define HZ_CENTRAL_LOCKFREE 0
#endif

#include "lanes/scale.h"

#endif
