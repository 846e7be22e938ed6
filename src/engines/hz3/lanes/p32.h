/* Lane p32, for very many threads: 255 shards, the most that HZ_NUM_SHARDS allows. */
#ifndef HZ3_LANES_P32_H
#define HZ3_LANES_P32_H

#define HZ_LANE_NAME "p32"

#define LANE_HZ_NUM_SHARDS     HZ_SET(255)
#define LANE_HZ_SHARDS_PER_CPU HZ_SET(0)

#endif
