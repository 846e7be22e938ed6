# Builds for glibc 2.17 with `zig cc`, a clang that brings stubs of each glibc: no symbol of a later version is linked.
# HZ_ZIG: the program. packaging/requirements.txt installs it from PyPI.

set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HZ_ZIG HZ_GLIBC)
set(HZ_ZIG "" CACHE FILEPATH "zig, for this platform")
set(HZ_GLIBC "2.17" CACHE STRING "the oldest glibc that the libraries shall run with")
if(NOT HZ_ZIG)
    file(GLOB HZ_ZIG "${CMAKE_CURRENT_LIST_DIR}/../../build/packaging-venv/lib/*/site-packages/ziglang/zig")
endif()
if(NOT EXISTS "${HZ_ZIG}")
    message(FATAL_ERROR "HZ_ZIG is '${HZ_ZIG}', which is no file; `make build/packaging-venv/requirements.txt` installs a zig")
endif()

set(target "${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu.${HZ_GLIBC}")
set(CMAKE_C_COMPILER "${HZ_ZIG}" cc -target ${target})
set(CMAKE_CXX_COMPILER "${HZ_ZIG}" c++ -target ${target})
