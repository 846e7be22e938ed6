# Builds for glibc 2.17 with `zig cc`, a clang that comes with stubs of each glibc. So the linker finds no later symbol.
# HZ_ZIG is the path of zig, which packaging/requirements.txt installs from PyPI.

set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HZ_ZIG HZ_GLIBC)
set(HZ_ZIG "" CACHE FILEPATH "zig, for this platform")
set(HZ_GLIBC "2.17" CACHE STRING "the oldest glibc with which the libraries must run")
if(NOT HZ_ZIG)
    file(GLOB HZ_ZIG "${CMAKE_CURRENT_LIST_DIR}/../../build/packaging-venv/lib/*/site-packages/ziglang/zig")
endif()
if(NOT EXISTS "${HZ_ZIG}")
    message(FATAL_ERROR "HZ_ZIG is '${HZ_ZIG}', which does not exist; `make build/packaging-venv/requirements.txt` installs a zig")
endif()

set(target "${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu.${HZ_GLIBC}")
set(CMAKE_C_COMPILER "${HZ_ZIG}" cc -target ${target})
set(CMAKE_CXX_COMPILER "${HZ_ZIG}" c++ -target ${target})
