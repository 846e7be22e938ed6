/*
 * situation.c - see situation.h.
 */
#include "heap/report/situation.h"

#include "heap/back/limit.h"
#include "heap/back/surroundings.h"

static const char *limit_source(size_t bytes, bool is_default) {
    if (!is_default)
        return "set by the program";
    if (bytes != 0)
        return "from the control group";
    if (hz_surroundings_are_known())
        return "the control group has no limit";
    return hz_keeper_runs()          ? "the control group could not be read"
           : hz_keeper_is_possible() ? "the control group is read when a second thread starts, or at 16 MiB"
                                     : "the control group is not read without a keeper";
}

struct hz_situation hz_situation_get(void) {
    bool is_default;
    size_t bytes = hz_heap_limit_soft(&is_default);
    return (struct hz_situation){
        .keeper = hz_keeper_describe(),
        .soft_limit_bytes = bytes,
        .limit_source = limit_source(bytes, is_default),
    };
}
