/*
 * config.c - the configuration as one line of words, put together by the preprocessor.
 */
#include "core/engine.h"
#include "core/knobs.h"
#include "hakozuna/hakozuna.h"

#define VERSION HZ_STRINGIFY(HZ_VERSION_MAJOR) "." HZ_STRINGIFY(HZ_VERSION_MINOR) "." HZ_STRINGIFY(HZ_VERSION_PATCH)

#if defined(__clang__)
#define COMPILER "clang-" HZ_STRINGIFY(__clang_major__) "." HZ_STRINGIFY(__clang_minor__)
#else
#define COMPILER "gcc-" HZ_STRINGIFY(__GNUC__) "." HZ_STRINGIFY(__GNUC_MINOR__)
#endif

/* Knobs that a variant sets otherwise than its lane: NAME:VALUE,... without HZ_ (tools/variant.py). */
#ifndef HZ_OVERRIDES
#define HZ_OVERRIDES "none"
#endif

#define KNOB(name, smallest, largest, text) " " #name "=" HZ_STRINGIFY(name)

const char *hz_engine_config_string(void) {
    return "engine=" HZ_ENGINE_NAME " lane=" HZ_LANE_NAME " overrides=" HZ_OVERRIDES " version=" VERSION
           " shards=" HZ_STRINGIFY(HZ_NUM_SHARDS)
#include "core/knobs.def"
#include "engine_knobs.def"
               " HZ_LINEAR_LOG2=" HZ_STRINGIFY(HZ_LINEAR_LOG2) " checks=" HZ_STRINGIFY(
                   HZ_CHECKS) " stats=" HZ_STRINGIFY(HZ_STATS) " build=" HZ_BUILD_NAME " compiler=" COMPILER;
}
