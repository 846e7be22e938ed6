/* Lane fast, for few threads and mostly local work: 8 shards. */
#ifndef HZ3_LANES_FAST_H
#define HZ3_LANES_FAST_H

#define HZ_LANE_NAME "fast"

#define LANE_HZ_NUM_SHARDS     HZ_SET(8)
#define LANE_HZ_SHARDS_PER_CPU HZ_SET(0)

#endif
