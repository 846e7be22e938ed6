/*
 * cache_thrash - active false sharing: see common/false_sharing.h.
 */
#include "common/false_sharing.h"

int main(int argc, char **argv) {
    return false_sharing_main(argc, argv, false,
                              "Threads allocate, write and free small blocks at the same time: active false sharing.");
}
