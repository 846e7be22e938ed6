/*
 * counter_names.h - which counters the .def files have, and which figures the report prints beside them.
 */
#ifndef HZ_TESTS_UNIT_HEAP_COUNTER_NAMES_H
#define HZ_TESTS_UNIT_HEAP_COUNTER_NAMES_H

#include "contract/report.h"

#include <string>

namespace counter_names {

/* Figures that the report prints among the counters, but that are not counted. */
inline const report::Names known = {"counters.threads",
                                    "counters.thread_blocks",
                                    "counters.shards",
                                    "counters.meta_bytes",
                                    "remote.blocks_per_100_pages",
                                    "os.seg_acq",
                                    "os.huge_asked",
                                    "os.huge_refused",
                                    "os.huge_slow",
                                    "os.huge_most_us",
                                    "os.huge_collapsed"};

/* Computed from hot counters, so only builds with statistics have them. The steps below state them too. */
inline const report::Names computed = {"mid.malloc_calls", "mid.free_calls", "mid.free_batch_enq"};

/* A counter of the .def files. */
struct DefCounter {
    const char *group;
    const char *name;
    bool is_hot;
};

enum { IS_SUM = false, IS_MAX = false, IS_HOT = true };

#define COUNTER(group, field, name, kind, text) {group, name, IS_##kind},
inline const DefCounter def_counters[] = {
#include "engine_counters.def"
#include "heap/counters.def"
};
#undef COUNTER

/* Names of the hot counters, or of all others. */
inline report::Names names_in_def(bool hot) {
    report::Names names;
    for (const DefCounter &counter : def_counters)
        if (counter.is_hot == hot)
            names.insert(std::string(counter.group) + "." + counter.name);
    return names;
}

} // namespace counter_names

#endif
