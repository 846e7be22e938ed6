/* Lane scale, the default: 63 shards, for any number of threads. The knobs are explained in core/knobs.def and
 * engine_knobs.def. */
#ifndef HZ3_LANES_SCALE_H
#define HZ3_LANES_SCALE_H

#ifndef HZ_LANE_NAME
#define HZ_LANE_NAME "scale"
#endif

#ifndef HZ_NUM_SHARDS
#define HZ_NUM_SHARDS 63
#endif
#ifndef HZ_SHARDS_PER_CPU
#define HZ_SHARDS_PER_CPU 1
#endif
#ifndef HZ_SHARD_COLLISION_FAILFAST
#define HZ_SHARD_COLLISION_FAILFAST 0
#endif
#ifndef HZ_EXCLUSIVE_ALWAYS
#define HZ_EXCLUSIVE_ALWAYS 1
#endif
#ifndef HZ_LIST_FAILFAST
#define HZ_LIST_FAILFAST 0
#endif
#ifndef HZ_BIN_BYTES
#define HZ_BIN_BYTES 16384
#endif
#ifndef HZ_BIN_COUNT
#define HZ_BIN_COUNT 256
#endif
#ifndef HZ_BIN_COUNT_MIN
#define HZ_BIN_COUNT_MIN 36
#endif
#ifndef HZ_BIN_BYTES_MAX
#define HZ_BIN_BYTES_MAX 524288
#endif
#ifndef HZ_BIN_START_BYTES
#define HZ_BIN_START_BYTES 4096
#endif
#ifndef HZ_BIN_STREAK
#define HZ_BIN_STREAK 3
#endif
#ifndef HZ_BATCH_COUNT
#define HZ_BATCH_COUNT 128
#endif
#ifndef HZ_DEPOT_FROM_BYTES
#define HZ_DEPOT_FROM_BYTES 0
#endif
#ifndef HZ_DEPOT_BYTES
#define HZ_DEPOT_BYTES 1048576
#endif
#ifndef HZ_DEPOT_PERCENT
#define HZ_DEPOT_PERCENT 50
#endif
#ifndef HZ_DEPOT_PARTS
#define HZ_DEPOT_PARTS 8
#endif
#ifndef HZ_DEPOT_AGE_MS
#define HZ_DEPOT_AGE_MS 100
#endif
#ifndef HZ_HOME_BELOW_BYTES
#define HZ_HOME_BELOW_BYTES 0
#endif
#ifndef HZ_REMOTE_COUNT
#define HZ_REMOTE_COUNT 128
#endif
#ifndef HZ_STASH_BYTES
#define HZ_STASH_BYTES 262144
#endif
#ifndef HZ_PAGE_LOCAL_REMOTE
#define HZ_PAGE_LOCAL_REMOTE 0
#endif
#ifndef HZ_CENTRAL_BYTES
#define HZ_CENTRAL_BYTES 1048576
#endif
#ifndef HZ_TRANSFER_LOCKFREE
#define HZ_TRANSFER_LOCKFREE 1
#endif
#ifndef HZ_CENTRAL_LOCKFREE
#define HZ_CENTRAL_LOCKFREE 1
#endif
#ifndef HZ_TRANSFER_FAILFAST
#define HZ_TRANSFER_FAILFAST 0
#endif
#ifndef HZ_CENTRAL_SHADOW
#define HZ_CENTRAL_SHADOW 0
#endif
#ifndef HZ_PAGE_LOCAL_THRESHOLD
#define HZ_PAGE_LOCAL_THRESHOLD 1
#endif
#ifndef HZ_PAGE_LOCAL_DRAIN_ALL
#define HZ_PAGE_LOCAL_DRAIN_ALL 1
#endif

#endif
