/*
 * cache_scratch - passive false sharing: see common/false_sharing.h.
 */
#include "common/false_sharing.h"

int main(int argc, char **argv) {
    return false_sharing_main(argc, argv, true,
                              "Threads free blocks that the main thread allocated side by side, then allocate, write "
                              "and free their own: passive false sharing.");
}
