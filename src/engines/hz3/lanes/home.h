/* Lane home, hz3 as its documents describe it: each block that a thread of another shard frees goes home to its shard,
   through transfer and central. No depot, no stash, a shard for each thread. */
#ifndef HZ3_LANES_HOME_H
#define HZ3_LANES_HOME_H

#define HZ_LANE_NAME "home"

#define LANE_HZ_SHARDS_PER_CPU   HZ_SET(0)
#define LANE_HZ_HOME_BELOW_BYTES HZ_SET(65552)
#define LANE_HZ_DEPOT_BYTES      HZ_SET(0)
#define LANE_HZ_STASH_BYTES      HZ_SET(0)
#define LANE_HZ_TRANSFER_CENTRAL HZ_SET(1)
#define LANE_HZ_CENTRAL_BYTES    HZ_SET(16777216)

#endif
