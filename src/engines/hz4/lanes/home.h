/* Lane home, hz4 as its documents describe it: each block that a thread of another shard frees goes home to its shard,
   through the inbox. No depot, a shard for each thread. The rest is lane default's. */
#ifndef HZ4_LANES_HOME_H
#define HZ4_LANES_HOME_H

#define HZ_LANE_NAME "home"

#define LANE_HZ_SHARDS_PER_CPU    HZ_SET(0)
#define LANE_HZ_HOME_BELOW_BYTES  HZ_SET(65552)
#define LANE_HZ_REMOTE_COUNT      HZ_SET(96)
#define LANE_HZ_ROOM_SHARED_BYTES HZ_SET(16777216)
#define LANE_HZ_DEPOT_BYTES       HZ_SET(0)
#define LANE_HZ_INBOX_BYTES       HZ_SET(16777216)

#endif
