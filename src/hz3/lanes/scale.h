/* Lane scale, the default: 63 shards, for any number of threads. The knobs are explained in knobs.def. */
#ifndef HZ3_LANES_SCALE_H
#define HZ3_LANES_SCALE_H

#define HZ3_LANE_NAME "scale"

#ifndef HZ3_NUM_SHARDS
#define HZ3_NUM_SHARDS 63
#endif
#ifndef HZ3_BIN_BYTES
#define HZ3_BIN_BYTES 24576
#endif
#ifndef HZ3_BIN_COUNT
#define HZ3_BIN_COUNT 128
#endif
#ifndef HZ3_BIN_COUNT_MIN
#define HZ3_BIN_COUNT_MIN 8
#endif
#ifndef HZ3_BATCH_COUNT
#define HZ3_BATCH_COUNT 64
#endif
#ifndef HZ3_DEPOT_BYTES
#define HZ3_DEPOT_BYTES 1048576
#endif
#ifndef HZ3_DEPOT_PERCENT
#define HZ3_DEPOT_PERCENT 10
#endif
#ifndef HZ3_DEPOT_AGE_MS
#define HZ3_DEPOT_AGE_MS 100
#endif
#ifndef HZ3_HOME_BELOW_BYTES
#define HZ3_HOME_BELOW_BYTES 0
#endif
#ifndef HZ3_REMOTE_COUNT
#define HZ3_REMOTE_COUNT 128
#endif
#ifndef HZ3_STASH_BYTES
#define HZ3_STASH_BYTES 262144
#endif
#ifndef HZ3_CENTRAL_BYTES
#define HZ3_CENTRAL_BYTES 1048576
#endif

#endif
