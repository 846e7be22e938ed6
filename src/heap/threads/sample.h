/*
 * sample.h - switches sampling on: for the sampling guard, or for the heap profile.
 */
#ifndef HZ_HEAP_THREADS_SAMPLE_H
#define HZ_HEAP_THREADS_SAMPLE_H

#include "base/os/compiler.h"

/* From now on about one in `rate` allocations of up to HZ_GUARD_BLOCK_MAX bytes is guarded (base/watch/guard.h), of the
   calling thread and of all threads that attach later. rate: 1..HZ_GUARD_RATE_MAX. Once, before other threads exist.
   False when there is no memory for the pool.
 */
bool hz_sample_start(uint32_t rate);

/* From now on allocations of these threads are sampled for the heap profile, on average one in `rate` bytes
   (base/profile/profile.h). rate: 1..HZ_PROFILE_RATE_MAX. Otherwise as hz_sample_start, instead of which it is called.
 */
bool hz_sample_start_profile(uint64_t rate);

#endif
