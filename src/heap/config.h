/*
 * config.h - the configuration that the library was compiled with, as text.
 */
#ifndef HZ_HEAP_CONFIG_H
#define HZ_HEAP_CONFIG_H

/* One line of key=value words: engine, lane, overrides, version, every knob, build. Constant; any thread. */
const char *hz_heap_config_string(void);

/* The lane's name for users: "hz3-scale"; that of an engine's lane default is the engine's, "hz4". Constant; any
   thread. */
const char *hz_heap_lane(void);

#endif
