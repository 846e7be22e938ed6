/* Lane default of hz4, for any number of threads. A small block that a thread of another shard frees goes home,
   to the stack of its shard in the depot. The bins of many threads and the depot may hold less than in hz3
   (docs/engines.md says what that brings). */
#ifndef HZ4_LANES_DEFAULT_H
#define HZ4_LANES_DEFAULT_H

#ifndef HZ_LANE_NAME
#define HZ_LANE_NAME "default"
#endif

#define LANE_HZ_HOME_BELOW_BYTES  HZ_SET(129)
#define LANE_HZ_REMOTE_COUNT      HZ_SET(256)
#define LANE_HZ_ROOM_SHARED_BYTES HZ_SET(16777216)
#define LANE_HZ_DEPOT_BYTES       HZ_SET(524288)

#endif
