# The libraries of one lane. For engine E and lane L (names of an engine's lane `default` have no _L):
#   hakozuna_E_L          shared product (malloc family and C++ operators under their real names)
#   hakozuna_E_L_static   the same as an archive
#   E_L_api               archive with hz_* names only; the tests link it
#   E_L_faulty            the same archive over an OS layer that fails on request
#   E_L_failfast          the same archive with HZ_LIST_FAILFAST=1

file(GLOB hz_base_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/base/*.c")
file(GLOB_RECURSE hz_heap_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/heap/*.c")
file(GLOB hz_front_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/front/*.c")
set(hz_os_faulty "${PROJECT_SOURCE_DIR}/src/base/os_faulty.c")
file(GLOB hz_override_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/front/override*.c")
# These are in the shared products only.
set(hz_shared_sources "${PROJECT_SOURCE_DIR}/src/front/override_dlopen.c"
                      "${PROJECT_SOURCE_DIR}/src/front/override_prctl.c"
                      "${PROJECT_SOURCE_DIR}/src/front/override_thread.c")
list(REMOVE_ITEM hz_override_sources ${hz_shared_sources})
set(hz_exports "${PROJECT_SOURCE_DIR}/src/front/exports.map")
list(REMOVE_ITEM hz_base_sources "${hz_os_faulty}")
list(REMOVE_ITEM hz_front_sources ${hz_override_sources} ${hz_shared_sources})

# What only glibc has: mallinfo, mallopt and their like, RTLD_DEEPBIND.
if(HZ_MUSL)
    list(FILTER hz_override_sources EXCLUDE REGEX "/override_introspect\\.c$")
    list(FILTER hz_shared_sources EXCLUDE REGEX "/override_dlopen\\.c$")
endif()

# Sets `result` to the value of a knob in a lane. `knobs`: what overrides the lane (HZ_NAME=VALUE); a variant's knobs
# (HZ_OVERRIDES) override these. The compiler reads the same files (heap/knobs.h). 0 if the engine has no such knob.
function(hz_read_knob engine lane_file knobs name result)
    set(value "")
    foreach(setting IN LISTS HZ_OVERRIDES knobs)
        if(value STREQUAL "" AND setting MATCHES "^${name}=([0-9]+)$")
            set(value "${CMAKE_MATCH_1}")
        endif()
    endforeach()
    set(folder "${PROJECT_SOURCE_DIR}/src/engines/${engine}")
    set(header "lanes/${lane_file}.h")
    while(value STREQUAL "" AND header)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${folder}/${header}")
        file(READ "${folder}/${header}" text)
        if(text MATCHES "#define LANE_${name} +HZ_SET\\(([0-9]+)\\)")
            set(value "${CMAKE_MATCH_1}")
        endif()
        set(header "")
        if(text MATCHES "#include \"(lanes/[a-z0-9]+\\.h)\"")
            set(header "${CMAKE_MATCH_1}")
        endif()
    endwhile()
    foreach(list "${PROJECT_SOURCE_DIR}/src/heap/knobs.def" "${folder}/engine_knobs.def")
        file(READ "${list}" text)
        if(value STREQUAL "" AND text MATCHES "KNOB\\(${name}, [0-9]+, [0-9]+, ([0-9]+),")
            set(value "${CMAKE_MATCH_1}")
        endif()
    endforeach()
    if(value STREQUAL "")
        set(value 0)
    endif()
    set(${result} "${value}" PARENT_SCOPE)
endfunction()

# Sets `ways` to the two folders of src/ways that a lane is built from: which mailbox it has, and who takes from it.
function(hz_choose_ways engine lane_file knobs)
    foreach(name PAGE_LOCAL_REMOTE TRANSFER_CENTRAL SHARD_COLLISION_FAILFAST)
        hz_read_knob(${engine} ${lane_file} "${knobs}" HZ_${name} ${name})
    endforeach()
    set(mailbox inbox)
    if(engine STREQUAL hz4)
        hz_read_knob(${engine} ${lane_file} "${knobs}" HZ_REMOTE_INBOX has_inbox)
        if(NOT has_inbox)
            set(mailbox queues)
        endif()
    elseif(PAGE_LOCAL_REMOTE)
        set(mailbox queues)
    elseif(TRANSFER_CENTRAL)
        set(mailbox stages)
    endif()
    set(takers shared)
    if(SHARD_COLLISION_FAILFAST)
        set(takers alone)
    endif()
    set(ways "${mailbox};${takers}" PARENT_SCOPE)
endfunction()

# Sets `sources` to all that the libraries of a lane have in common.
function(hz_lane_sources engine lane_file knobs)
    hz_choose_ways(${engine} ${lane_file} "${knobs}")
    set(found "")
    foreach(way IN LISTS ways)
        file(GLOB way_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/ways/${way}/*.c")
        list(APPEND found ${way_sources})
    endforeach()
    set(sources ${hz_base_sources} ${hz_heap_sources} ${found} ${hz_front_sources} PARENT_SCOPE)
endfunction()

# All products, for `make libs`.
add_custom_target(libs)

# Sets engine, lane_file and lane in the caller's scope: "hz3/scale" -> hz3, scale, hz3_scale; "hz4" -> hz4, default,
# hz4.
function(hz_split_entry entry)
    if(NOT entry MATCHES "^(hz[0-9]+)(/([a-z0-9]+))?$")
        message(FATAL_ERROR "lane '${entry}': want ENGINE/LANE, such as hz3/scale, or ENGINE alone for its lane default")
    endif()
    set(engine "${CMAKE_MATCH_1}" PARENT_SCOPE)
    if(CMAKE_MATCH_3)
        set(lane_file "${CMAKE_MATCH_3}" PARENT_SCOPE)
        set(lane "${CMAKE_MATCH_1}_${CMAKE_MATCH_3}" PARENT_SCOPE)
    else()
        set(lane_file default PARENT_SCOPE)
        set(lane "${CMAKE_MATCH_1}" PARENT_SCOPE)
    endif()
endfunction()

# Compile settings of every source of a lane. They are PUBLIC because unit tests include the same internal headers.
# Further arguments are knobs (HZ_NAME=VALUE), which override the lane's header. A variant's knobs (HZ_OVERRIDES,
# tools/variant.py) override these.
function(hz_set_lane_flags target engine lane_file)
    set(knobs ${ARGN})
    hz_choose_ways(${engine} ${lane_file} "${knobs}")
    list(TRANSFORM ways PREPEND "${PROJECT_SOURCE_DIR}/src/ways/" OUTPUT_VARIABLE way_folders)
    foreach(override IN LISTS HZ_OVERRIDES)
        string(REGEX REPLACE "=.*" "" name "${override}")
        list(FILTER knobs EXCLUDE REGEX "^${name}=")
        list(APPEND knobs "${override}")
    endforeach()
    list(TRANSFORM knobs REPLACE "^(HZ_[A-Z0-9_]+)=([0-9]+)$" "VARIANT_\\1=HZ_SET(\\2)")
    target_include_directories(
        ${target} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>"
                         "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src/engines/${engine}>"
                         "$<BUILD_INTERFACE:${way_folders}>")
    target_compile_definitions(
        ${target}
        PUBLIC HZ_CHECKS=$<BOOL:${HZ_CHECKS}> HZ_FENCES=$<BOOL:${HZ_FENCES}> HZ_STATS=$<BOOL:${HZ_STATS}> "HZ_LANE_HEADER=\"lanes/${lane_file}.h\""
               "HZ_BUILD_NAME=\"${HZ_BUILD}\"" ${knobs})
    if(HZ_OVERRIDES)
        list(JOIN HZ_OVERRIDES "," overrides)
        string(REPLACE "HZ_" "" overrides "${overrides}")
        string(REPLACE "=" ":" overrides "${overrides}")
        target_compile_definitions(${target} PUBLIC "HZ_OVERRIDES=\"${overrides}\"")
    endif()
    # Defined as empty, exactly as the sources that need it define it. In a unity build it must come
    # before the very first system header.
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE=)
    target_compile_options(
        ${target} PRIVATE -fvisibility=hidden -ftls-model=initial-exec -fno-semantic-interposition -fexceptions
                          ${hz_no_builtin})
    if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
        # An operator on an _Atomic field is an atomic operation that does not name its order.
        target_compile_options(${target} PRIVATE -Watomic-implicit-seq-cst)
    endif()
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD ${HZ_UNITY}
                                               UNITY_BUILD_BATCH_SIZE 0)
    target_link_libraries(${target} PUBLIC Threads::Threads)
    if(CMAKE_SYSTEM_PROCESSOR STREQUAL "riscv64")
        target_link_libraries(${target} PUBLIC atomic) # gcc has no atomic operations on 1 and 2 bytes of its own there
    endif()
endfunction()

function(hz_add_products engine lane_file lane sources)
    add_library(hakozuna_${lane}_objects OBJECT ${sources} ${hz_override_sources})
    hz_set_lane_flags(hakozuna_${lane}_objects ${engine} ${lane_file})
    add_library(hakozuna_${lane} SHARED ${hz_shared_sources})
    hz_set_lane_flags(hakozuna_${lane} ${engine} ${lane_file})
    add_library(hakozuna_${lane}_static STATIC)
    set_target_properties(hakozuna_${lane}_static PROPERTIES OUTPUT_NAME hakozuna_${lane})
    foreach(product hakozuna_${lane} hakozuna_${lane}_static)
        target_link_libraries(${product} PRIVATE hakozuna_${lane}_objects PUBLIC Threads::Threads)
        set_target_properties(${product} PROPERTIES LINKER_LANGUAGE C ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib"
                                                    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
    endforeach()
    target_link_options(
        hakozuna_${lane}
        PRIVATE
        -Wl,-z,nodelete
        -Wl,-z,now
        -Wl,-z,relro
        -Wl,-z,defs
        "-Wl,--version-script=${hz_exports}"
        ${hz_lto_link})
    set_property(TARGET hakozuna_${lane} APPEND PROPERTY LINK_DEPENDS "${hz_exports}")
    if(HZ_LTO)
        set_target_properties(hakozuna_${lane}_objects hakozuna_${lane} PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON)
        if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
            # The archive must also work for programs linked without LTO.
            target_compile_options(hakozuna_${lane}_objects PRIVATE -ffat-lto-objects)
            # LTO takes the optimisation level and the code model from the link line.
            target_link_options(hakozuna_${lane} PRIVATE -O2 -ftls-model=initial-exec ${hz_no_builtin})
        endif()
    endif()
    install(TARGETS hakozuna_${lane} hakozuna_${lane}_static)
    add_dependencies(libs hakozuna_${lane} hakozuna_${lane}_static)
endfunction()

function(hz_add_lane entry)
    hz_split_entry("${entry}")
    hz_lane_sources(${engine} ${lane_file} "")

    # HZ_SHARDS_PER_CPU=0 makes the library under test spread threads the same way on every machine.
    add_library(${lane}_api STATIC EXCLUDE_FROM_ALL ${sources})
    hz_set_lane_flags(${lane}_api ${engine} ${lane_file} HZ_SHARDS_PER_CPU=0)

    add_library(${lane}_faulty STATIC EXCLUDE_FROM_ALL ${sources} "${hz_os_faulty}")
    hz_set_lane_flags(${lane}_faulty ${engine} ${lane_file} HZ_SHARDS_PER_CPU=0)
    target_compile_definitions(${lane}_faulty PUBLIC HZ_OS_FAULTY=1)

    # What only HZ_LIST_FAILFAST=1 has. One translation unit compiles in a fraction of the time.
    add_library(${lane}_failfast STATIC EXCLUDE_FROM_ALL ${sources})
    hz_set_lane_flags(${lane}_failfast ${engine} ${lane_file} HZ_SHARDS_PER_CPU=0 HZ_LIST_FAILFAST=1)
    set_target_properties(${lane}_failfast PROPERTIES UNITY_BUILD ON)

    if(hz_has_products)
        hz_add_products(${engine} ${lane_file} ${lane} "${sources}")
    endif()
endfunction()

# libhakozuna.so and .a: the default lane under a short name, as symbolic links in the same directory.
function(hz_add_default_name entry)
    if(NOT hz_has_products)
        return()
    endif()
    hz_split_entry("${entry}")
    file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
    foreach(suffix so a)
        set(link "${CMAKE_BINARY_DIR}/lib/libhakozuna.${suffix}")
        file(CREATE_LINK libhakozuna_${lane}.${suffix} "${link}" SYMBOLIC)
        install(FILES "${link}" TYPE LIB)
    endforeach()
    install(FILES "${PROJECT_SOURCE_DIR}/include/hakozuna/hakozuna.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/hakozuna")
endfunction()

# Writes a source that includes one header twice: the header must compile on its own and have an include guard.
function(hz_write_header_source header output)
    file(CONFIGURE OUTPUT "${output}" CONTENT "#include \"${header}\"\n#include \"${header}\"\nextern int hz_not_empty;\n")
endfunction()

# Checks that every header compiles on its own: internal ones as C for each lane, the public one as C99 and C++11.
function(hz_add_header_checks)
    set(public "${CMAKE_BINARY_DIR}/headers/public")
    hz_write_header_source(hakozuna/hakozuna.h "${public}.c")
    hz_write_header_source(hakozuna/hakozuna.h "${public}.cc")
    add_library(public_header_check OBJECT "${public}.c" "${public}.cc")
    target_include_directories(public_header_check PRIVATE "${PROJECT_SOURCE_DIR}/include")
    set_target_properties(public_header_check PROPERTIES C_STANDARD 99 CXX_STANDARD 11)

    foreach(entry IN LISTS HZ_LANES)
        hz_split_entry("${entry}")
        file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/src" "src/base/*.h" "src/heap/*.h"
             "src/front/*.h" "src/engines/${engine}/*.h")
        hz_choose_ways(${engine} ${lane_file} "")
        foreach(way IN LISTS ways)
            file(GLOB way_headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/src" "src/ways/${way}/*.h")
            list(APPEND headers ${way_headers})
        endforeach()
        set(generated "")
        foreach(header IN LISTS headers)
            set(output "${CMAKE_BINARY_DIR}/headers/${lane}/${header}.c")
            hz_write_header_source("${header}" "${output}")
            list(APPEND generated "${output}")
        endforeach()
        if(generated)
            add_library(${lane}_header_check OBJECT ${generated})
            hz_set_lane_flags(${lane}_header_check ${engine} ${lane_file})
            set_target_properties(${lane}_header_check PROPERTIES UNITY_BUILD OFF)
            # A header may define static functions that this source does not use.
            target_compile_options(${lane}_header_check PRIVATE -Wno-unused-function)
        endif()
    endforeach()
endfunction()
