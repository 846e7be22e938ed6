# The model tests: the real sources of a lane, compiled with tests/model/points.h in front, so that at each atomic
# operation a scheduler decides which thread runs next (tests/model/scheduler.h). For each lane:
#   <lane>.model.test_<file>        a file of scenarios, run on the unchanged sources
#   <lane>.model.mutant.<name>      a scenario run on sources with the bug of tests/model/mutants/<name>.patch; the
#                                   scenario must find it
#   <lane>_<variant>.model...       some of these tests for a variant: the lane with further knobs changed

# All model tests build the sources with few shards and small bins, so that every state is a few steps away.

set(hz_model "${PROJECT_SOURCE_DIR}/tests/model")
set(hz_model_knobs
    HZ_NUM_SHARDS=2
    HZ_SHARDS_PER_CPU=0
    HZ_BIN_BYTES=1024
    HZ_BIN_COUNT=8
    HZ_BIN_COUNT_MIN=2
    HZ_BIN_BYTES_MAX=131072
    HZ_BATCH_COUNT=4
    HZ_DEPOT_BYTES=8192
    HZ_DEPOT_PERCENT=0
    HZ_REMOTE_COUNT=8
    HZ_CENTRAL_BYTES=4096)

# Makes a patched copy of a source and sets `result` to the copy's path. The patch must apply exactly, without fuzz.
function(hz_patch_source patch_file name result)
    file(STRINGS "${patch_file}" header REGEX "^--- a/src/" LIMIT_COUNT 1)
    if(NOT header MATCHES "^--- a/(src/[a-z0-9_/]+\\.[ch])")
        message(FATAL_ERROR "${patch_file}: no line '--- a/src/...'")
    endif()
    set(source "${PROJECT_SOURCE_DIR}/${CMAKE_MATCH_1}")
    set(copy "${PROJECT_BINARY_DIR}/model/${name}/${CMAKE_MATCH_1}")
    cmake_path(GET copy PARENT_PATH folder)
    file(MAKE_DIRECTORY "${folder}")
    add_custom_command(
        OUTPUT "${copy}"
        COMMAND patch --quiet --batch --fuzz=0 --reject-file=- "--output=${copy}" "${source}" "${patch_file}"
        DEPENDS "${source}" "${patch_file}"
        COMMENT "Planting ${name}"
        VERBATIM)
    set(${result} "${copy}" PARENT_SCOPE)
endfunction()

# A thread that spins before it sleeps for a lock adds schedules but no new cases: the patch leaves one round.
hz_patch_source("${hz_model}/short_spin.patch" short_spin hz_model_lock)

# The scheduler, and the OS layer without the functions that the scheduler replaces: time, waiting, the CPU number and the
# barrier of all threads.
function(hz_add_model_scheduler)
    add_library(model_os OBJECT "${PROJECT_SOURCE_DIR}/src/base/os/os_linux.c" "${PROJECT_SOURCE_DIR}/src/base/os/os_process.c")
    target_include_directories(model_os PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_compile_definitions(model_os PRIVATE hz_os_wait=hz_os_linux_wait hz_os_wake=hz_os_linux_wake hz_os_wait_ms=hz_os_linux_wait_ms
                                                hz_os_now_ms=hz_os_linux_now_ms hz_os_cpu=hz_os_linux_cpu
                                                hz_os_read_file=hz_os_linux_read_file hz_os_scan_file=hz_os_linux_scan_file
                                                hz_os_barrier=hz_os_linux_barrier)
    add_library(model_scheduler STATIC "${hz_model}/scheduler.cc" "${hz_model}/memory.cc" "${hz_model}/schedule.cc"
                                       "${hz_model}/explore.cc" $<TARGET_OBJECTS:model_os>)
    hz_set_test_flags(model_scheduler)
    target_compile_options(model_scheduler PRIVATE "SHELL:-O2") # the model tests spend their time in it; SHELL: or CMake drops the repeated -O2
    target_include_directories(model_scheduler PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(model_scheduler PUBLIC GTest::gtest Threads::Threads)
endfunction()

# The library of a lane. `copy` is a patched source that replaces its original, or empty.
function(hz_add_model_library target engine lane_file copy)
    set(knobs ${hz_model_knobs})
    foreach(knob IN LISTS hz_variant_knobs) # a variant's knob replaces the common one
        string(REGEX REPLACE "=.*" "" name "${knob}")
        list(FILTER knobs EXCLUDE REGEX "^${name}=")
        list(APPEND knobs "${knob}")
    endforeach()
    hz_lane_sources(${engine} ${lane_file} "${knobs}")
    list(REMOVE_ITEM sources "${PROJECT_SOURCE_DIR}/src/base/os/os_linux.c" "${PROJECT_SOURCE_DIR}/src/base/os/os_process.c")
    add_library(${target} STATIC)
    # a copy takes its original's place in the list: all sources form one translation unit, and their order matters
    foreach(changed IN ITEMS "${copy}" "${hz_model_lock}")
        if(changed MATCHES "^(.*/model/[a-z0-9_]+/src)/(.*\\.[ch])$")
            list(TRANSFORM sources REPLACE "^${PROJECT_SOURCE_DIR}/src/${CMAKE_MATCH_2}$" "${changed}")
        endif()
    endforeach()
    if(copy MATCHES "^(.*/model/[a-z0-9_]+/src)/(.*\\.h)$")
        # the copy comes first on the include path; a header of src/ways is included by its bare name
        cmake_path(GET copy PARENT_PATH folder)
        target_include_directories(${target} BEFORE PUBLIC "${CMAKE_MATCH_1}" "${folder}")
        target_sources(${target} PRIVATE "${copy}")
    endif()
    target_sources(${target} PRIVATE ${sources})
    hz_set_lane_flags(${target} ${engine} ${lane_file} ${knobs})
    target_compile_options(${target} PRIVATE "SHELL:-include ${hz_model}/points.h")
    # atomic operations of the scenarios are points too (tests/c11/stdatomic.h)
    target_compile_definitions(${target} INTERFACE HZ_MODEL_POINTS=1)
    # one translation unit compiles in a fraction of the time
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
endfunction()

# Links the scenarios in `objects` with a library and registers the test; further arguments: the test's command line.
function(hz_add_model_test name objects library lane)
    add_executable(${name} $<TARGET_OBJECTS:${objects}>)
    target_link_libraries(${name} PRIVATE ${library} model_scheduler GTest::gtest_main Threads::Threads)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    add_test(NAME ${name} COMMAND ${name} ${ARGN})
    set_tests_properties(${name} PROPERTIES LABELS "model;${lane}" TIMEOUT 300
                                            FAIL_REGULAR_EXPRESSION "Running 0 tests from")
    hz_set_cost(${name} 1)
    hz_place_test(${name} ${name})
endfunction()

# Sets `result` to the value of the line `key: value` in a patch's header.
function(hz_patch_value patch_file key result)
    file(STRINGS "${patch_file}" line REGEX "^${key}: " LIMIT_COUNT 1)
    if(NOT line MATCHES "^${key}: (.+)$")
        message(FATAL_ERROR "${patch_file}: no line '${key}: ...'")
    endif()
    set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

function(hz_add_mutant patch_file engine lane_file lane)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${patch_file}")
    hz_patch_value("${patch_file}" lanes lanes)
    string(REPLACE " " ";" lanes "${lanes}")
    if(NOT lane IN_LIST lanes)
        return()
    endif()
    hz_patch_value("${patch_file}" scenario scenario)
    hz_patch_value("${patch_file}" file file)
    cmake_path(GET patch_file STEM mutant)
    hz_patch_source("${patch_file}" ${lane}_${mutant} copy)
    hz_add_model_library(${lane}_mutant_${mutant} ${engine} ${lane_file} "${copy}")
    target_compile_options(${lane}_mutant_${mutant} PRIVATE "SHELL:-O0 -g0") # compiling takes longer than running
    set(objects objects.${lane}.model.${file})
    if(copy MATCHES "\\.h$") # the scenarios contain inline functions of the header
        set(objects objects.${lane}.mutant.${mutant})
        hz_add_model_objects(${objects} ${file} ${lane}_mutant_${mutant})
    endif()
    hz_add_model_test(${lane}.model.mutant.${mutant} ${objects} ${lane}_mutant_${mutant} ${lane}
                      --gtest_filter=${scenario})
    set_tests_properties(${lane}.model.mutant.${mutant} PROPERTIES ENVIRONMENT "HZ_MODEL_EXPECT=bug")
endfunction()

# Compiles a file of scenarios with the headers that a library is compiled with.
function(hz_add_model_objects objects file library)
    add_library(${objects} OBJECT "${hz_model}/${file}.cc")
    hz_set_test_flags(${objects})
    target_link_libraries(${objects} PRIVATE GTest::gtest ${library})
endfunction()

# Compiles a file of scenarios and registers it for a lane; further arguments: the test's command line.
function(hz_add_model_file file lane)
    set(objects objects.${lane}.model.${file})
    hz_add_model_objects(${objects} ${file} ${lane}_model)
    hz_precompile(${lane}.model ${objects} ${lane}_model)
    hz_add_model_test(${lane}.model.${file} ${objects} ${lane}_model ${lane} ${ARGN})
endfunction()

# Runs all scenarios on a lane, or, if `has_lists` is false, those that need no lists through blocks. Further arguments:
# knobs.
function(hz_add_model_suite entry has_lists)
    hz_split_entry("${entry}")
    set(hz_variant_knobs ${ARGN})
    if(NOT TARGET model_scheduler)
        hz_add_model_scheduler()
    endif()
    hz_add_model_library(${lane}_model ${engine} ${lane_file} "")
    file(GLOB sources CONFIGURE_DEPENDS "${hz_model}/test_*.cc")
    list(GET HZ_TEST_LANES 0 first_entry)
    foreach(source IN LISTS sources)
        cmake_path(GET source STEM file)
        if((file STREQUAL "test_scheduler" AND NOT entry STREQUAL first_entry) OR (file STREQUAL "test_lists" AND NOT entry
                                                                                                  STREQUAL "hz3/home"))
            continue() # these files do not depend on the lane
        endif()
        if(file STREQUAL "test_mail" AND NOT has_lists)
            continue()
        endif()
        hz_add_model_file(${file} ${lane})
    endforeach()
    hz_add_mutants(${engine} ${lane_file} ${lane})
endfunction()

# Runs the scenarios of some files on a lane with other knobs; `left_out` is a filter of scenarios to skip.
function(hz_add_model_variant entry name files left_out)
    hz_split_entry("${entry}")
    string(APPEND lane "_${name}")
    set(hz_variant_knobs ${ARGN})
    hz_add_model_library(${lane}_model ${engine} ${lane_file} "")
    foreach(file IN LISTS files)
        hz_add_model_file(${file} ${lane} "--gtest_filter=-${left_out}")
    endforeach()
    hz_add_mutants(${engine} ${lane_file} ${lane})
endfunction()

function(hz_add_mutants engine lane_file lane)
    file(GLOB patches CONFIGURE_DEPENDS "${hz_model}/mutants/*.patch")
    foreach(patch_file IN LISTS patches)
        hz_add_mutant("${patch_file}" ${engine} ${lane_file} ${lane})
    endforeach()
endfunction()
