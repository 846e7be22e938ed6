/* Lane default of hz4, for any number of threads: small blocks go home, in lists sent to their owner's inbox. */
#ifndef HZ4_LANES_DEFAULT_H
#define HZ4_LANES_DEFAULT_H

#ifndef HZ_LANE_NAME
#define HZ_LANE_NAME "default"
#endif

#define LANE_HZ_HOME_BELOW_BYTES HZ_SET(129)
#define LANE_HZ_DEPOT_FROM_BYTES HZ_SET(129)
#define LANE_HZ_REMOTE_COUNT     HZ_SET(96)

#endif
