/*
 * lanes_probe.c - prints what a lane's constants come to, as "key value" lines. tools/lanes.py compiles and runs it
 * once for each lane, with the sources' own headers, so the figures in the documents are those of the code.
 *
 * From the command line: PROBE_CONSTANTS is CONSTANT(name) for each constant that only this way home has;
 * PROBE_LIST(size_class) the most blocks of a list, and PROBE_BOXES_BYTES the size of a shard's mailboxes: 0 in lanes
 * without.
 */
#include "heap/pages/send.h"
#include "way.h"

#include <stdio.h>

#define CONSTANT(name)                                           printf(#name " %zu\n", (size_t)(name));
#define KNOB(name, smallest, largest, default_value, unit, text) CONSTANT(name)

static void print_class(unsigned size_class) {
    printf("class_%u_bytes %zu\n", size_class, hz_class_bytes(size_class));
    printf("class_%u_bin %u\n", size_class, (unsigned)hz_bin_capacity(size_class));
    printf("class_%u_start %u\n", size_class, (unsigned)hz_bin_start(size_class));
    printf("class_%u_batch %u\n", size_class, (unsigned)hz_batch_count(size_class));
    printf("class_%u_home %d\n", size_class, (int)hz_class_is_home(size_class));
    printf("class_%u_shared %d\n", size_class, (int)HZ_HAS_DEPOT);
    printf("class_%u_mid %d\n", size_class, (int)hz_class_is_mid(size_class));
    printf("class_%u_list %u\n", size_class, (unsigned)PROBE_LIST(size_class));
}

int main(void) {
    size_t slots = 0; /* as in heap/threads/thread_block.c */
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++)
        print_class(size_class);
    for (unsigned index = 1; index < HZ_BINS; index++)
        slots += (hz_bin_slots_first(index) > 0) + hz_bin_slots_first(index) + 1 + hz_bin_slots_short(index) +
                 hz_bin_slots_long(index);
    printf("thread_block_bytes %zu\n",
           sizeof(struct hz_thread_block) + HZ_COUNTINGS * sizeof(struct hz_counting) + slots * sizeof(void *));
    printf("shard_bytes %zu\n", sizeof(struct hz_shard) + PROBE_BOXES_BYTES);
    CONSTANT(HZ_CLASS_COUNT)
    CONSTANT(HZ_LONG_CLASS_FIRST)
    CONSTANT(HZ_LONG_ROOM_BYTES)
    CONSTANT(HZ_HOME_COUNT)
    PROBE_CONSTANTS
#include "engine_knobs.def"
#include "heap/knobs.def"
    return 0;
}
