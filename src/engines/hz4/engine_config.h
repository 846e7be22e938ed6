/*
 * engine_config.h - the heap's parameter hz4: its name and its lane.
 */
#ifndef HZ4_ENGINE_CONFIG_H
#define HZ4_ENGINE_CONFIG_H

#define HZ_ENGINE_NAME "hz4"

#ifndef HZ_LANE_HEADER
#define HZ_LANE_HEADER "lanes/default.h"
#endif
#include HZ_LANE_HEADER

#endif
