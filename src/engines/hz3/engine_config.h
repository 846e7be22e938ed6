/*
 * engine_config.h - the heap's parameter hz3: its name and its lane.
 */
#ifndef HZ3_ENGINE_CONFIG_H
#define HZ3_ENGINE_CONFIG_H

#define HZ_ENGINE_NAME "hz3"

#ifndef HZ_LANE_HEADER
#define HZ_LANE_HEADER "lanes/scale.h"
#endif
#include HZ_LANE_HEADER

#endif
