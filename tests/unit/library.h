/*
 * library.h - the internal C11 headers that the library is compiled from, for C++: c11/stdatomic.h stands in for the C
 * standard's header. Headers that only hz3 has are in hz3/library.h.
 */
#ifndef HZ_TESTS_UNIT_LIBRARY_H
#define HZ_TESTS_UNIT_LIBRARY_H

/* C++ warns about this C: flexible arrays, compound literals, designated initialisers. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"

#include <stdatomic.h>

extern "C" {
#include "base/arena/arena.h"
#include "base/arena/arena_figures.h"
#include "base/arena/large.h"
#include "base/arena/peak.h"
#include "base/lists/lock.h"
#include "base/lists/registry.h"
#include "base/lists/table.h"
#include "base/map/budget.h"
#include "base/map/huge.h"
#include "base/map/meta.h"
#include "base/map/pagetag.h"
#include "base/map/region.h"
#include "base/os/atomic.h"
#include "base/os/check.h"
#include "base/os/compiler.h"
#include "base/os/hooks.h"
#include "base/os/os.h"
#include "base/os/random.h"
#include "base/process/cgroup.h"
#include "base/process/cpus.h"
#include "base/process/listener.h"
#include "base/process/startup.h"
#include "base/process/symbols.h"
#include "base/profile/callstack.h"
#include "base/profile/profile.h"
#include "base/profile/profile_flow.h"
#include "base/profile/profile_sites.h"
#include "base/profile/profile_write.h"
#include "base/watch/guard.h"
#include "base/watch/livemap.h"
#include "base/watch/report.h"
#include "front/request.h"
#include "heap/back/chores.h"
#include "heap/back/keeper.h"
#include "heap/back/limit.h"
#include "heap/back/pressure.h"
#include "heap/back/purge.h"
#include "heap/back/tick.h"
#include "heap/cache/age.h"
#include "heap/cache/bin.h"
#include "heap/cache/depot.h"
#include "heap/cache/flush.h"
#include "heap/cache/refill.h"
#include "heap/cache/room.h"
#include "heap/cache/sampler.h"
#include "heap/class_policy.h"
#include "heap/config.h"
#include "heap/counters.h"
#include "heap/free.h"
#include "heap/heap.h"
#include "heap/malloc.h"
#include "heap/pages/adopt.h"
#include "heap/pages/collapse.h"
#include "heap/pages/grid.h"
#include "heap/pages/page.h"
#include "heap/pages/page_purge.h"
#include "heap/pages/put.h"
#include "heap/pages/send.h"
#include "heap/pages/shard.h"
#include "heap/pages/supply.h"
#include "heap/query.h"
#include "heap/report/flow.h"
#include "heap/report/stats.h"
#include "heap/resize.h"
#include "heap/seal.h"
#include "heap/sizeclass.h"
#include "heap/threads/fork.h"
#include "heap/threads/init.h"
#include "heap/threads/orphan.h"
#include "heap/threads/park.h"
#include "heap/threads/sample.h"
#include "heap/threads/thread.h"
#include "heap/threads/thread_block.h"
#include "sent.h"
#include "way.h"
}

#pragma GCC diagnostic pop

#endif
