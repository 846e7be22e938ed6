/* Lane p32: 255 shards, as many as a page tag's owner can name, for very many threads. Otherwise as scale. */
#ifndef HZ3_LANES_P32_H
#define HZ3_LANES_P32_H

#define HZ_LANE_NAME "p32"

#ifndef HZ_NUM_SHARDS
#define HZ_NUM_SHARDS 255
#endif
#ifndef HZ_SHARDS_PER_CPU
#define HZ_SHARDS_PER_CPU 0
#endif

#include "lanes/scale.h"

#endif
