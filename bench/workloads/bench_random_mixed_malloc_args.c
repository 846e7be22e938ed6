/*
 * bench_random_mixed_malloc_args - one thread, random slots, uniform sizes MIN..MAX. See common/random_mixed.h.
 */
#include "common/machine.h"
#include "common/random_mixed.h"

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct random_mixed config;
    random_mixed_parse(&config, argc, argv, ARGS_OPTIONAL,
                       "One thread toggles random slots (or with --pair replaces their blocks), uniform sizes.", NULL);
    struct size_mix mix = size_mix_uniform((uint32_t)config.size_min, (uint32_t)config.size_max);
    random_mixed_run(&config, &mix, "uniform");
    return 0;
}
