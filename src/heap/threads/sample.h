/*
 * sample.h - switches sampling on: for the sampling guard, or for the heap profile. That of the profile can also begin
 * and end while threads run. Each thread then changes its own thread block, when it resumes (threads/park.h), so the
 * fast paths are the same before, meanwhile and afterwards.
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

enum { HZ_SAMPLE_FOR_GOOD = 0 };

/* After hz_profile_prepare: samples for the heap profile, for at least `least_ms` from now on, or HZ_SAMPLE_FOR_GOOD.
   An earlier call may ask for longer. Threads that run follow within moments. Returns how many do not, because they
   cannot be parked; they are tried again by a later call. Any thread, outside malloc and free. */
uint32_t hz_sample_begin(uint32_t least_ms);

/* Ends that, whoever has begun it. Blocks that were sampled stay so. Returns how many threads go on, because they
   cannot be parked. Any thread, outside malloc and free. */
uint32_t hz_sample_end(void);

/* Ends it if its time is over. Returns the time at which it will be, as hz_os_now_ms; UINT64_MAX: never. The same. */
uint64_t hz_sample_look(void);

#endif
