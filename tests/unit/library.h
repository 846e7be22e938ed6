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
#include "base/arena.h"
#include "base/arena_figures.h"
#include "base/atomic.h"
#include "base/budget.h"
#include "base/callstack.h"
#include "base/cgroup.h"
#include "base/check.h"
#include "base/compiler.h"
#include "base/cpus.h"
#include "base/guard.h"
#include "base/hooks.h"
#include "base/huge.h"
#include "base/large.h"
#include "base/list.h"
#include "base/livemap.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/mpsc.h"
#include "base/os.h"
#include "base/pagetag.h"
#include "base/peak.h"
#include "base/profile.h"
#include "base/profile_flow.h"
#include "base/profile_sites.h"
#include "base/profile_write.h"
#include "base/random.h"
#include "base/region.h"
#include "base/registry.h"
#include "base/report.h"
#include "base/startup.h"
#include "base/symbols.h"
#include "base/table.h"
#include "front/request.h"
#include "heap/cache/age.h"
#include "heap/cache/allowance.h"
#include "heap/cache/bin.h"
#include "heap/cache/depot.h"
#include "heap/cache/flush.h"
#include "heap/cache/idle.h"
#include "heap/cache/refill.h"
#include "heap/cache/room.h"
#include "heap/cache/sampler.h"
#include "heap/class_policy.h"
#include "heap/config.h"
#include "heap/counters.h"
#include "heap/flow.h"
#include "heap/fork.h"
#include "heap/free.h"
#include "heap/heap.h"
#include "heap/init.h"
#include "heap/keeper.h"
#include "heap/limit.h"
#include "heap/malloc.h"
#include "heap/orphan.h"
#include "heap/pages/adopt.h"
#include "heap/pages/collapse.h"
#include "heap/pages/density.h"
#include "heap/pages/drain.h"
#include "heap/pages/list_check.h"
#include "heap/pages/mail.h"
#include "heap/pages/page.h"
#include "heap/pages/page_purge.h"
#include "heap/pages/put.h"
#include "heap/pages/send.h"
#include "heap/pages/shard.h"
#include "heap/pages/supply.h"
#include "heap/park.h"
#include "heap/purge.h"
#include "heap/query.h"
#include "heap/resize.h"
#include "heap/sample.h"
#include "heap/seal.h"
#include "heap/settle.h"
#include "heap/sizeclass.h"
#include "heap/stats.h"
#include "heap/thread.h"
#include "heap/thread_block.h"
#include "heap/tick.h"
}

#pragma GCC diagnostic pop

namespace unit {

/* Tests of parts look at them while nothing else happens, and drive the keeper's work themselves. */
inline const bool keeper_is_forbidden = [] {
    hz_keeper_forbid();
    return true;
}();

} // namespace unit

#endif
