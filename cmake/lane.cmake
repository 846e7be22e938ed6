# The libraries of one lane. For engine E and lane L (names of an engine's lane `default` have no _L):
#   hakozuna_E_L          shared product (malloc family and C++ operators under their real names)
#   hakozuna_E_L_static   the same as an archive of one object
#   hakozuna_prefix       archive of the default lane with hz_* names only
#   E_L_api               archive with hz_* names only; the tests link it
#   E_L_faulty            the same archive over an OS layer that fails on request
#   E_L_failfast          the same archive with HZ_LIST_FAILFAST=1

file(GLOB_RECURSE hz_base_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/base/*.c")
file(GLOB_RECURSE hz_heap_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/heap/*.c")
file(GLOB hz_front_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/front/*.c" "${PROJECT_SOURCE_DIR}/src/front/reports/*.c")
set(hz_os_faulty "${PROJECT_SOURCE_DIR}/src/base/os/os_faulty.c")
file(GLOB hz_override_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/front/override/*.c")
# These are in the shared products only.
set(hz_shared_sources "${PROJECT_SOURCE_DIR}/src/front/override/override_dlopen.c"
                      "${PROJECT_SOURCE_DIR}/src/front/override/override_early.c"
                      "${PROJECT_SOURCE_DIR}/src/front/override/override_prctl.c"
                      "${PROJECT_SOURCE_DIR}/src/front/override/override_syscall.c"
                      "${PROJECT_SOURCE_DIR}/src/front/override/override_thread.c")
# And this one in the archives only.
set(hz_archive_sources "${PROJECT_SOURCE_DIR}/src/front/override/override_archive.c")
list(REMOVE_ITEM hz_override_sources ${hz_shared_sources} ${hz_archive_sources})
set(hz_exports "${PROJECT_SOURCE_DIR}/src/front/exports.map")
list(REMOVE_ITEM hz_base_sources "${hz_os_faulty}")
list(REMOVE_ITEM hz_front_sources ${hz_override_sources} ${hz_shared_sources} ${hz_archive_sources})

# What only glibc has: mallinfo, mallopt and their like, RTLD_DEEPBIND, IFUNC.
if(HZ_MUSL)
    list(FILTER hz_override_sources EXCLUDE REGEX "/override_introspect\\.c$")
    list(FILTER hz_shared_sources EXCLUDE REGEX "/override_(dlopen|early)\\.c$")
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

# Sets `ways` to the folders of src/ways that a lane is built from: how blocks go home, who takes from a shard's
# mailboxes, and whether CPUs have bins.
function(hz_choose_ways engine lane_file knobs)
    foreach(name PAGE_LOCAL_REMOTE TRANSFER_CENTRAL STASH_BYTES INBOX_BYTES SHARD_COLLISION_FAILFAST CPU_BYTES)
        hz_read_knob(${engine} ${lane_file} "${knobs}" HZ_${name} ${name})
    endforeach()
    set(home direct)
    if(engine STREQUAL hz4)
        hz_read_knob(${engine} ${lane_file} "${knobs}" HZ_REMOTE_INBOX has_inbox)
        if(NOT has_inbox)
            set(home lists queues)
        elseif(INBOX_BYTES)
            set(home lists inbox)
        endif()
    elseif(PAGE_LOCAL_REMOTE)
        set(home lists queues)
    elseif(TRANSFER_CENTRAL)
        set(home lists stages)
    elseif(STASH_BYTES)
        set(home lists inbox)
    endif()
    set(takers shared)
    if(SHARD_COLLISION_FAILFAST)
        set(takers alone)
    endif()
    set(bins perthread)
    if(CPU_BYTES)
        set(bins percpu)
    endif()
    set(ways "${home};${takers};${bins}" PARENT_SCOPE)
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

# gcc has no atomic operations on 1 and 2 bytes of its own on riscv64.
set(hz_libatomic "")
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "riscv64")
    set(hz_libatomic atomic)
endif()

# All products, for `make libs`.
if(PROJECT_IS_TOP_LEVEL)
    add_custom_target(libs)
endif()
set(hz_lib "${PROJECT_BINARY_DIR}/lib")

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
    target_link_libraries(${target} PUBLIC Threads::Threads ${hz_libatomic})
endfunction()

# One object that holds all of `sources`: a single translation unit whose internal symbols are local. A linker takes it
# whole or not at all, so a program never gets malloc from here and free from the C library. It has no intermediate code
# of a compiler, so it links with and without -flto, whatever compiled it.
function(hz_add_object target output engine lane_file sources)
    add_library(${target} OBJECT ${sources})
    hz_set_lane_flags(${target} ${engine} ${lane_file})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON INTERPROCEDURAL_OPTIMIZATION OFF)
    target_compile_options(${target} PRIVATE -fno-lto)
    add_custom_command(
        OUTPUT "${output}"
        COMMAND "${CMAKE_OBJCOPY}" --localize-hidden $<TARGET_OBJECTS:${target}> "${output}"
        DEPENDS ${target} $<TARGET_OBJECTS:${target}>
        COMMENT "Making ${output}"
        VERBATIM)
    set_source_files_properties("${output}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endfunction()

# What a program needs that links `target`, a library or an archive.
function(hz_set_interface target)
    target_include_directories(${target} INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                                   "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C ARCHIVE_OUTPUT_DIRECTORY "${hz_lib}"
                                               LIBRARY_OUTPUT_DIRECTORY "${hz_lib}")
endfunction()

function(hz_add_archive target output_name object)
    add_library(${target} STATIC "${object}")
    hz_set_interface(${target})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME "${output_name}")
    target_link_libraries(${target} INTERFACE Threads::Threads ${hz_libatomic})
endfunction()

function(hz_add_shared engine lane_file lane output_name sources)
    add_library(hakozuna_${lane}_objects OBJECT ${sources} ${hz_override_sources} ${hz_shared_sources})
    hz_set_lane_flags(hakozuna_${lane}_objects ${engine} ${lane_file})
    target_compile_definitions(hakozuna_${lane}_objects PRIVATE HZ_SHARED=1)
    add_library(hakozuna_${lane} SHARED $<TARGET_OBJECTS:hakozuna_${lane}_objects>)
    hz_set_interface(hakozuna_${lane})
    target_link_libraries(hakozuna_${lane} PRIVATE Threads::Threads ${hz_libatomic})
    set_target_properties(hakozuna_${lane} PROPERTIES OUTPUT_NAME "${output_name}" SOVERSION "${hz_soversion}")
    if(NOT SKBUILD) # a wheel has no links, so its file has the soname itself
        set_target_properties(hakozuna_${lane} PROPERTIES VERSION "${PROJECT_VERSION}")
    endif()
    target_link_options(
        hakozuna_${lane}
        PRIVATE
        -Wl,-z,nodelete
        -Wl,-z,now
        -Wl,-z,relro
        -Wl,-z,defs
        -Wl,--build-id=sha1
        "-Wl,--version-script=${hz_exports}"
        ${hz_lto_link})
    # With gcc -flto, GNU ld sees no call of malloc, and drops a library of which the program calls nothing else.
    target_link_options(hakozuna_${lane} INTERFACE "LINKER:--no-as-needed")
    set_property(TARGET hakozuna_${lane} APPEND PROPERTY LINK_DEPENDS "${hz_exports}")
    if(HAKOZUNA_LTO)
        set_target_properties(hakozuna_${lane}_objects hakozuna_${lane} PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON)
        # clang 14 ends with SIGSEGV when it links an IFUNC with LTO.
        set_source_files_properties("${PROJECT_SOURCE_DIR}/src/front/override/override_early.c" PROPERTIES COMPILE_OPTIONS -fno-lto)
        if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
            # LTO takes the optimisation level and the code model from the link line.
            target_link_options(hakozuna_${lane} PRIVATE -O2 -ftls-model=initial-exec ${hz_no_builtin})
        endif()
    endif()
endfunction()

# Where no test runs the products, only the target `libs` makes them: those of the preset `check` take 86 s of CPU time.
# Two exceptions show that they compile: the default lane's shared library by clang, and all in a build for another
# processor.
function(hz_leave_to_libs lane)
    if(HZ_SYSTEM_SUITES OR CMAKE_CROSSCOMPILING OR NOT PROJECT_IS_TOP_LEVEL)
        return()
    endif()
    set(shared hakozuna_${lane} hakozuna_${lane}_objects)
    if(lane STREQUAL hz_default_lane AND CMAKE_C_COMPILER_ID STREQUAL "Clang")
        set(shared "")
    endif()
    foreach(target IN ITEMS ${shared} hakozuna_${lane}_static hakozuna_${lane}_static_objects hakozuna_prefix hakozuna_prefix_objects)
        if(TARGET ${target})
            set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
        endif()
    endforeach()
endfunction()

# The products of a lane: a shared library and an archive, under the names that are installed. The default lane has the
# short ones, and two things more: the archive's object as a file, and the archive with hz_* names only.
function(hz_add_products engine lane_file lane sources)
    if(lane STREQUAL hz_default_lane)
        set(output_name hakozuna)
        set(shared_name hakozuna)
        set(static_name static)
    else()
        string(REPLACE "_" "-" dashed "${lane}")
        set(output_name hakozuna-${dashed})
        set(shared_name ${dashed})
        set(static_name ${dashed}-static)
    endif()
    hz_add_shared(${engine} ${lane_file} ${lane} ${output_name} "${sources}")
    set(object "${hz_lib}/${output_name}.o")
    hz_add_object(hakozuna_${lane}_static_objects "${object}" ${engine} ${lane_file} "${sources};${hz_override_sources};${hz_archive_sources}")
    hz_add_archive(hakozuna_${lane}_static ${output_name} "${object}")
    # gcc -flto does not tell the linker that a program calls malloc, so nothing would ask for the archive's.
    target_link_options(hakozuna_${lane}_static INTERFACE "LINKER:-u,malloc")
    set(products hakozuna_${lane} hakozuna_${lane}_static)
    set_target_properties(hakozuna_${lane} PROPERTIES EXPORT_NAME ${shared_name})
    set_target_properties(hakozuna_${lane}_static PROPERTIES EXPORT_NAME ${static_name})
    add_library(hakozuna::${shared_name} ALIAS hakozuna_${lane})
    add_library(hakozuna::${static_name} ALIAS hakozuna_${lane}_static)
    hz_link_older_names(${lane} ${output_name})
    if(HAKOZUNA_INSTALL)
        hz_install_lane(${lane} ${output_name})
    endif()
    if(TARGET libs)
        add_dependencies(libs ${products})
    endif()
endfunction()

# hakozuna::prefix: the default lane under hz_* names, for a program that keeps its malloc.
function(hz_add_prefix engine lane_file sources)
    set(object "${PROJECT_BINARY_DIR}/prefix/hakozuna-prefix.o")
    file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/prefix")
    hz_add_object(hakozuna_prefix_objects "${object}" ${engine} ${lane_file} "${sources}")
    target_compile_definitions(hakozuna_prefix_objects PRIVATE HZ_ONLY_OUR_NAMES=1)
    hz_add_archive(hakozuna_prefix hakozuna-prefix "${object}")
    set_target_properties(hakozuna_prefix PROPERTIES EXPORT_NAME prefix)
    add_library(hakozuna::prefix ALIAS hakozuna_prefix)
    if(HAKOZUNA_INSTALL)
        hz_install_prefix()
    endif()
    if(TARGET libs)
        add_dependencies(libs hakozuna_prefix)
    endif()
endfunction()

# The libraries of the tests. HZ_SHARDS_PER_CPU=0 makes them spread threads the same way on every machine.
function(hz_add_test_libraries engine lane_file lane sources)
    add_library(${lane}_api STATIC EXCLUDE_FROM_ALL ${sources})
    hz_set_lane_flags(${lane}_api ${engine} ${lane_file} HZ_SHARDS_PER_CPU=0)

    add_library(${lane}_faulty STATIC EXCLUDE_FROM_ALL ${sources} "${hz_os_faulty}")
    hz_set_lane_flags(${lane}_faulty ${engine} ${lane_file} HZ_SHARDS_PER_CPU=0)
    target_compile_definitions(${lane}_faulty PUBLIC HZ_OS_FAULTY=1)

    # What only HZ_LIST_FAILFAST=1 has.
    add_library(${lane}_failfast STATIC EXCLUDE_FROM_ALL ${sources})
    hz_set_lane_flags(${lane}_failfast ${engine} ${lane_file} HZ_SHARDS_PER_CPU=0 HZ_LIST_FAILFAST=1)

    # One translation unit compiles in a fraction of the time.
    set_target_properties(${lane}_api ${lane}_faulty ${lane}_failfast PROPERTIES UNITY_BUILD ON)
endfunction()

function(hz_add_lane entry)
    hz_split_entry("${entry}")
    hz_lane_sources(${engine} ${lane_file} "")
    if(HAKOZUNA_BUILD_TESTS)
        hz_add_test_libraries(${engine} ${lane_file} ${lane} "${sources}")
    endif()
    if(NOT hz_has_products)
        return()
    endif()
    if(HAKOZUNA_OVERRIDE)
        hz_add_products(${engine} ${lane_file} ${lane} "${sources}")
    endif()
    if(lane STREQUAL hz_default_lane)
        hz_add_prefix(${engine} ${lane_file} "${sources}")
    endif()
    hz_leave_to_libs(${lane})
endfunction()

# Writes a source that includes one header twice: the header must compile on its own and have an include guard.
function(hz_write_header_source header output)
    file(CONFIGURE OUTPUT "${output}" CONTENT "#include \"${header}\"\n#include \"${header}\"\nextern int hz_not_empty;\n")
endfunction()

# Checks that the public headers compile on their own, as C99 and C++11.
function(hz_add_public_header_checks)
    set(public "${PROJECT_BINARY_DIR}/headers/public")
    hz_write_header_source(hakozuna/hakozuna.h "${public}.c")
    hz_write_header_source(hakozuna/hakozuna.h "${public}.cc")
    add_library(public_header_check OBJECT "${public}.c" "${public}.cc")
    target_include_directories(public_header_check PRIVATE "${PROJECT_SOURCE_DIR}/include")
    set_target_properties(public_header_check PROPERTIES C_STANDARD 99 CXX_STANDARD 11)
    hz_write_header_source(hakozuna/hakozuna.hpp "${public}_containers.cc")
    add_library(public_containers_check OBJECT "${public}_containers.cc")
    target_include_directories(public_containers_check PRIVATE "${PROJECT_SOURCE_DIR}/include")
    set_target_properties(public_containers_check PROPERTIES CXX_STANDARD 17)
    if(TARGET quick)
        add_dependencies(quick public_header_check public_containers_check)
    endif()
endfunction()

# Checks that each internal header compiles on its own, as C. The first lane that has a header is enough: what the header
# must include does not depend on knobs.
function(hz_add_header_checks)
    set(checked "")
    foreach(entry IN LISTS HAKOZUNA_LANES)
        hz_split_entry("${entry}")
        file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/src" "src/base/*.h" "src/heap/*.h"
             "src/front/*.h" "src/engines/${engine}/*.h")
        hz_choose_ways(${engine} ${lane_file} "")
        foreach(way IN LISTS ways)
            file(GLOB way_headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/src" "src/ways/${way}/*.h")
            list(APPEND headers ${way_headers})
        endforeach()
        if(checked)
            list(REMOVE_ITEM headers ${checked})
        endif()
        list(APPEND checked ${headers})
        set(generated "")
        foreach(header IN LISTS headers)
            set(output "${PROJECT_BINARY_DIR}/headers/${lane}/${header}.c")
            hz_write_header_source("${header}" "${output}")
            list(APPEND generated "${output}")
        endforeach()
        if(generated)
            add_library(${lane}_header_check OBJECT ${generated})
            hz_set_lane_flags(${lane}_header_check ${engine} ${lane_file})
            set_target_properties(${lane}_header_check PROPERTIES UNITY_BUILD OFF)
            # A header may define static functions that this source does not use.
            target_compile_options(${lane}_header_check PRIVATE -Wno-unused-function)
            if(TARGET quick)
                add_dependencies(quick ${lane}_header_check)
            endif()
        endif()
    endforeach()
endfunction()
