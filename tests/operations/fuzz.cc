/*
 * fuzz.cc - libFuzzer's entry: an input is a byte string that chooses operations. AFL++ drives the same function.
 * `soak --write-inputs` writes inputs to begin with.
 */
#include "operations/run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    operations::run_bytes(t_table, bytes, count, 6 * support::MiB); /* little, so that many inputs can run */
    return 0;
}
