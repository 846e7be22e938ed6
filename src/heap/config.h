/*
 * config.h - the configuration that the library was compiled with, as text.
 */
#ifndef HZ_HEAP_CONFIG_H
#define HZ_HEAP_CONFIG_H

/* One line of key=value words: engine, lane, overrides, version, every knob, build. Constant; any thread. */
const char *hz_heap_config_string(void);

#endif
