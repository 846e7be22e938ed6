# Compiler flags and options of each kind of build (HZ_BUILD), for gcc and clang.

set(hz_builds release check guard asan tsan)
set(HZ_BUILD release CACHE STRING "Kind of build: release, check, guard, asan or tsan")
set_property(CACHE HZ_BUILD PROPERTY STRINGS ${hz_builds})
if(NOT HZ_BUILD IN_LIST hz_builds)
    message(FATAL_ERROR "HZ_BUILD is '${HZ_BUILD}'; allowed: release, check, guard, asan, tsan")
endif()
if(NOT CMAKE_C_COMPILER_ID MATCHES "^(GNU|Clang)$")
    message(FATAL_ERROR "compiler is '${CMAKE_C_COMPILER_ID}'; allowed: GNU, Clang")
endif()

# The release build and the guard build omit internal assertions and hot counters.
set(hz_is_release OFF)
set(hz_checked ON)
set(hz_guarded OFF)
set(sanitize "")
if(HZ_BUILD STREQUAL "release")
    set(hz_is_release ON)
    set(hz_checked OFF)
elseif(HZ_BUILD STREQUAL "guard")
    set(hz_is_release ON)
    set(hz_checked OFF)
    set(hz_guarded ON)
elseif(HZ_BUILD STREQUAL "asan")
    set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(HZ_BUILD STREQUAL "tsan")
    set(sanitize -fsanitize=thread)
endif()

# A sanitizer brings its own malloc, which ours cannot replace: sanitizer builds have no products,
# only the libraries with hz_* names.
set(hz_has_products ON)
if(sanitize)
    set(hz_has_products OFF)
endif()

option(HZ_CHECKS "Internal assertions" ${hz_checked})
option(HZ_FENCES "Fences around blocks, and a quarantine" ${hz_guarded})
option(HZ_STATS "Hot counters" ${hz_checked})
# In another project one translation unit makes the libraries as fast, and needs nothing of its linker.
set(hz_lto OFF)
set(hz_unity ON)
if(PROJECT_IS_TOP_LEVEL)
    set(hz_lto ${hz_is_release})
    set(hz_unity OFF)
endif()
option(HAKOZUNA_LTO "Link-time optimisation of the shared libraries" ${hz_lto})
option(HZ_UNITY "One translation unit per library" ${hz_unity})

# What is given to others is the same bytes wherever the sources lie, so no file has a path of this machine.
if(HAKOZUNA_PACKAGES OR SKBUILD)
    set(public "/usr/src/hakozuna-${PROJECT_VERSION}")
    set(hz_public_paths "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=${public}" "-ffile-prefix-map=${PROJECT_BINARY_DIR}=${public}/build")
    add_compile_options(${hz_public_paths})
    add_link_options(${hz_public_paths})
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# The optimisation level is set here; CMAKE_BUILD_TYPE stays empty.
if(sanitize)
    add_compile_options(-O1 -g -fno-omit-frame-pointer ${sanitize})
    add_link_options(${sanitize})
else()
    add_compile_options(-O2 -g)
endif()
if(NOT hz_is_release AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    # Noting where each variable is at each instruction takes a quarter of the time to compile a library. The price: a
    # debugger cannot show some variables.
    add_compile_options(-fno-var-tracking)
endif()
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion)
if(HAKOZUNA_WERROR)
    add_compile_options(-Werror)
endif()

# The compiler must not know what malloc does: it would turn malloc and memset into calloc inside
# calloc itself, and remove pairs of malloc and free from tests and benchmarks.
set(hz_malloc_names malloc calloc realloc reallocarray free aligned_alloc posix_memalign memalign valloc pvalloc)
list(TRANSFORM hz_malloc_names PREPEND -fno-builtin- OUTPUT_VARIABLE hz_no_builtin)

if(HAKOZUNA_LTO)
    include(CheckIPOSupported)
    if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
        set(hz_lto_link -fuse-ld=lld)
    endif()
    check_ipo_supported(LANGUAGES C)
endif()
