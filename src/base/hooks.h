/*
 * hooks.h - tells the layer above when a thread ends and when the process has forked. That layer's thread code calls
 * it.
 *
 * Edge "hooks": a thread that finds the exit hook's key sees it as glibc has made it.
 */
#ifndef HZ_BASE_HOOKS_H
#define HZ_BASE_HOOKS_H

#include "base/compiler.h"

/* Installs the hooks unless the process has them already. When a thread ends, `on_exit` gets the value that the thread
   armed. In the child of each fork `after_fork` is called. Can allocate, so the calling thread must be able to allocate
   already. */
void hz_hooks_install(void (*on_exit)(void *), void (*after_fork)(void));

/* Arms the exit hook of the calling thread. `value` is not NULL. Can allocate. False when there is no hook, or no
   memory to arm it. */
bool hz_hooks_arm_exit(void *value);

#endif
