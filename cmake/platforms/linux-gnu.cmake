# Builds for another processor with Debian's cross compilers, and runs the tests under qemu-user. The processor is
# HZ_PROCESSOR, qemu's and Debian's name for it: aarch64 or riscv64.
# HZ_EMULATOR_OPTIONS: further options of qemu, such as -p;65536 for system pages of 64 KiB.

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

set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-${HZ_PROCESSOR}" -L "/usr/${HZ_PROCESSOR}-linux-gnu" ${HZ_EMULATOR_OPTIONS})
