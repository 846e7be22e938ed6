/* Lane default: lists of small blocks are posted to their owner's inbox, for any number of threads. The knobs are
 * explained in core/knobs.def and engine_knobs.def. */
#ifndef HZ4_LANES_DEFAULT_H
#define HZ4_LANES_DEFAULT_H

#ifndef HZ_LANE_NAME
#define HZ_LANE_NAME "default"
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
#define HZ_DEPOT_FROM_BYTES 129
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
#define HZ_HOME_BELOW_BYTES 129
#endif
#ifndef HZ_REMOTE_COUNT
#define HZ_REMOTE_COUNT 96
#endif
#ifndef HZ_REMOTE_INBOX
#define HZ_REMOTE_INBOX 1
#endif
#ifndef HZ_INBOX_BYTES
#define HZ_INBOX_BYTES 1048576
#endif
#ifndef HZ_PAGE_LOCAL_THRESHOLD
#define HZ_PAGE_LOCAL_THRESHOLD 1
#endif
#ifndef HZ_PAGE_LOCAL_DRAIN_ALL
#define HZ_PAGE_LOCAL_DRAIN_ALL 1
#endif

#endif
