/*
 * hooks.h - tells the layer above when a thread ends and when the process has forked.
 */
#ifndef HZ_BASE_HOOKS_H
#define HZ_BASE_HOOKS_H

#include "base/compiler.h"

/* Once per process: `on_exit` is called with the armed value when a thread ends, `after_fork` in the child of each
   fork. May allocate, so the calling thread must already be able to. */
void hz_hooks_install(void (*on_exit)(void *), void (*after_fork)(void));

/* Arms the exit hook of the calling thread. `value` is not NULL. May allocate. False while there is no hook, or no
   memory for it. */
bool hz_hooks_arm_exit(void *value);

#endif
