/*
 * lanes_probe.c - prints what follows from a lane's knobs, as "key value" lines. Compiled and run by tools/lanes.py,
 * once for each lane, from the engine's own headers: so the figures in the documents are those of the code.
 */
#include "hz3/types.h"

#include <stdio.h>

static size_t capped(size_t bytes, size_t block_bytes) {
    return hz_min(hz_max(bytes / block_bytes, hz3_batch_count(hz_class_of(block_bytes))), HZ_LIST_COUNT_MAX) *
           block_bytes;
}

int main(void) {
    size_t bins = 0, bin_max = 0, slots = 2, stash = 0, central = 0, transfer = 0, depot = 0, waiting = 0;
    for (unsigned size_class = 1; size_class < HZ3_CLASS_COUNT; size_class++) {
        size_t block = hz_class_bytes(size_class);
        size_t bin = hz3_bin_capacity(size_class) * block;
        size_t list = hz_max(bin, hz3_class_is_home(size_class) ? HZ3_REMOTE_COUNT * block : 0);
        size_t in_stash = capped(HZ3_STASH_BYTES, block);
        size_t in_central = capped(HZ3_CENTRAL_BYTES, block);
        size_t carry = hz_max(in_stash, hz_max(in_central, list));
        bins += bin;
        bin_max = hz_max(bin_max, bin);
        slots += 1 + hz3_bin_capacity(size_class);
        stash = hz_max(stash, in_stash);
        central = hz_max(central, in_central);
        transfer = hz_max(transfer, HZ3_TRANSFER_SLOTS * list);
        waiting = hz_max(waiting, in_stash + in_central + HZ3_TRANSFER_SLOTS * list + carry);
        depot = hz_max(depot,
                       HZ3_DEPOT_BYTES / (hz3_batch_count(size_class) * block) * hz3_batch_count(size_class) * block);
        if (hz_is_power_of_two(block))
            printf("class_%zu %u\n", block, (unsigned)size_class);
        if (hz_is_power_of_two(block))
            printf("bin_%zu %u\nbatch_%zu %u\n", block, (unsigned)hz3_bin_capacity(size_class), block,
                   (unsigned)hz3_batch_count(size_class));
    }
    printf("classes %d\nbins_bytes %zu\nbin_max_bytes %zu\n", HZ3_CLASS_COUNT - 1, bins, bin_max);
    printf("remote_bytes %zu\n",
           HZ3_HOME_BELOW_BYTES > 0 ? (size_t)HZ3_REMOTE_COUNT * HZ3_HOME_BELOW_BYTES : (size_t)0);
    printf("thread_block_bytes %zu\n", sizeof(struct hz3_thread) + slots * sizeof(void *));
    printf("shard_struct_bytes %zu\n", sizeof(struct hz3_shard));
    printf("stash_bytes %zu\ncentral_bytes %zu\ntransfer_bytes %zu\n", stash, central, transfer);
    printf("waiting_bytes %zu\ndepot_bytes %zu\n", waiting, depot);
    return 0;
}
