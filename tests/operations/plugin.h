/* plugin.h - the library that operations open and close. */
#ifndef HZ_TESTS_OPERATIONS_PLUGIN_H
#define HZ_TESTS_OPERATIONS_PLUGIN_H

#include <cstddef>

/* Allocates, verifies and frees. Returns 0 when all contents were intact. */
extern "C" __attribute__((visibility("default"))) int plugin_use(size_t seed);

#endif
