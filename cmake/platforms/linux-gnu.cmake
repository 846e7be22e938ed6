# Builds for another processor with Debian's cross compilers, and runs the tests under qemu-user. The processor is
# HZ_PROCESSOR, qemu's and Debian's name for it: aarch64 or riscv64.
# HZ_EMULATOR_OPTIONS: further options of qemu. The preset's -R leaves 39 bits of address space, as many kernels do. With
# 48 bits each start takes a second, because qemu notes each of the 4 million system pages of the page tags.

set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HZ_PROCESSOR)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${HZ_PROCESSOR}")
set(CMAKE_C_COMPILER "${HZ_PROCESSOR}-linux-gnu-gcc")
set(CMAKE_CXX_COMPILER "${HZ_PROCESSOR}-linux-gnu-g++")

# The host's libraries and headers are of no use to the target.
set(CMAKE_FIND_ROOT_PATH "/usr/${HZ_PROCESSOR}-linux-gnu")
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(HZ_TEST_EXCLUSIONS "${CMAKE_CURRENT_LIST_DIR}/qemu.txt")
# The suites that take seconds. riscv64 runs only those that depend on the processor: on its instructions, addresses or
# signals.
set(HZ_SHORT_TESTS "^hz3_scale\\.(contract\\.test_(counters|errors|operators|standards|stats)|death\\.test_(cancelled|misuse)|\
unit\\.base\\.[a-z]+\\.test_(check|cpus|list|lock|meta|mpsc|os_high|pagetag|registry|runmap|table_faulty))$")
if(HZ_PROCESSOR STREQUAL "aarch64")
    string(APPEND HZ_SHORT_TESTS "|^hz3_scale\\.(contract\\.test_realloc|stress\\.test_exit|\
unit\\.base\\.[a-z]+\\.test_(arena_settings|guard_pool_faulty|livemap|os_faulty|random|report))$|^hz3_percpu\\.")
endif()

set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-${HZ_PROCESSOR}" -L "/usr/${HZ_PROCESSOR}-linux-gnu" ${HZ_EMULATOR_OPTIONS})
