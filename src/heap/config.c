/*
 * config.c - see config.h. The preprocessor puts the line together.
 */
#include "heap/config.h"

#include "hakozuna/hakozuna.h"
#include "heap/knobs.h"

#include "base/os/anatomy.h"
#include "base/os/compiler.h"

#define VERSION HZ_STRINGIFY(HZ_VERSION_MAJOR) "." HZ_STRINGIFY(HZ_VERSION_MINOR) "." HZ_STRINGIFY(HZ_VERSION_PATCH)

#if defined(__clang__)
#define COMPILER "clang-" HZ_STRINGIFY(__clang_major__) "." HZ_STRINGIFY(__clang_minor__)
#else
#define COMPILER "gcc-" HZ_STRINGIFY(__GNUC__) "." HZ_STRINGIFY(__GNUC_MINOR__)
#endif

/* The knobs that a variant sets, as NAME:VALUE,... without HZ_ (tools/variant.py). */
#ifndef HZ_OVERRIDES
#define HZ_OVERRIDES "none"
#endif

/* "shards=63" in front repeats one knob under a short name that tools read. SHARDS_HZ_NUM_SHARDS picks that knob out of
 * the list. */
#define NUMBER_OF_SHARDS(value) " shards=" HZ_STRINGIFY(value)
#define NOTHING(value)
#define SHARDS_HZ_NUM_SHARDS HZ_SET(NUMBER_OF_SHARDS)

/* Not const: core files have it then. */
static char config_line[] =
    "engine=" HZ_ENGINE_NAME " lane=" HZ_LANE_NAME " overrides=" HZ_OVERRIDES " version=" VERSION
#define KNOB(name, smallest, largest, default_value, unit, text)                                                       \
    HZ_PICK(SHARDS_##name, NOTHING)(HZ_KNOB_VALUE(name, default_value))
#include "heap/knobs.def"
#undef KNOB
#define KNOB(name, smallest, largest, default_value, unit, text)                                                       \
    " " #name "=" HZ_STRINGIFY(HZ_KNOB_VALUE(name, default_value))
#include "engine_knobs.def"
#include "heap/knobs.def"
#undef KNOB
    " checks=" HZ_STRINGIFY(HZ_CHECKS) " fences=" HZ_STRINGIFY(HZ_FENCES) " stats=" HZ_STRINGIFY(
        HZ_STATS) " build=" HZ_BUILD_NAME " compiler=" COMPILER;

HZ_ANATOMY(config, HZ_ANATOMY_OBJECT(config, config_line));

const char *hz_heap_config_string(void) {
    return config_line;
}
