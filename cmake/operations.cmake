# The programs made of tests/operations, beside the stress test that uses them:
#   <lane>.soak   runs seeded rounds for a given time, on the lane's hz_* names
#   system.soak   the same on plain malloc, for LD_PRELOAD
#   <lane>.fuzz   libFuzzer's program (clang), or AFL++'s when its compilers build it

set(hz_operations "${PROJECT_SOURCE_DIR}/tests/operations")

# Build all that `make soak` and `make fuzz` run in this preset.
add_custom_target(soak)
add_custom_target(fuzz)

# Registers a short run of soak; further arguments: its environment.
function(hz_register_soak name target)
    add_test(NAME "${name}" COMMAND ${hz_test_launcher} $<TARGET_FILE:${target}> --rounds 4 --steps 2000)
    set_tests_properties("${name}" PROPERTIES LABELS stress TIMEOUT 300 ENVIRONMENT "${hz_sanitizer_environment};${ARGN}")
    hz_set_cost("${name}" 2)
    hz_place_test("${name}" "${target}")
endfunction()

function(hz_add_operations target source)
    add_executable(${target} "${source}")
    hz_set_test_flags(${target})
    target_compile_options(${target} PRIVATE -O2)
    target_link_libraries(${target} PRIVATE GTest::gtest Threads::Threads ${CMAKE_DL_LIBS})
    target_link_options(${target} PRIVATE ${hz_fast_linker})
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    add_dependencies(${target} plugin)
endfunction()

function(hz_add_soak entry)
    hz_split_entry("${entry}")
    hz_add_operations(${lane}.soak "${hz_operations}/soak.cc")
    target_link_libraries(${lane}.soak PRIVATE ${lane}_api)
    add_dependencies(soak ${lane}.soak)
    if(NOT entry IN_LIST HZ_TEST_LANES)
        set_target_properties(${lane}.soak PROPERTIES EXCLUDE_FROM_ALL ON) # only `make fuzz` runs it
    elseif(NOT HZ_BUILD STREQUAL "tsan" OR entry MATCHES "${hz_default_entries}") # the others take a minute there
        hz_register_soak(${lane}.soak ${lane}.soak)
    endif()
endfunction()

function(hz_add_system_soak)
    hz_add_operations(system.soak "${hz_operations}/soak.cc")
    target_compile_definitions(system.soak PRIVATE HZ_TEST_SYSTEM=1)
    add_dependencies(soak system.soak libs)
    hz_register_soak(system.soak system.soak)
    foreach(entry IN LISTS HZ_TEST_LANES)
        hz_split_entry("${entry}")
        hz_register_soak(${lane}.preload.soak system.soak "LD_PRELOAD=$<TARGET_FILE:hakozuna_${lane}>")
    endforeach()
endfunction()

# The lane's library with the counters of branches that a fuzzer is guided by.
function(hz_add_fuzz entry)
    hz_split_entry("${entry}")
    hz_lane_sources(${engine} ${lane_file} "")
    add_library(${lane}_fuzz STATIC EXCLUDE_FROM_ALL ${sources})
    hz_set_lane_flags(${lane}_fuzz ${engine} ${lane_file} HZ_SHARDS_PER_CPU=0)
    target_compile_options(${lane}_fuzz PRIVATE -fsanitize=fuzzer-no-link)
    hz_add_operations(${lane}.fuzz "${hz_operations}/fuzz.cc")
    target_link_options(${lane}.fuzz PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${lane}.fuzz PRIVATE ${lane}_fuzz)
    add_dependencies(fuzz ${lane}.fuzz ${lane}.soak)
    if(NOT entry IN_LIST HZ_TEST_LANES)
        set_target_properties(${lane}.fuzz PROPERTIES EXCLUDE_FROM_ALL ON)
        return()
    endif()
    set(inputs "${PROJECT_BINARY_DIR}/fuzz/${lane}")
    add_test(NAME ${lane}.fuzz
             COMMAND sh -c "rm -rf $1 && mkdir -p $1 && $2 --write-inputs $1 && $3 -runs=800 -seed=1 -max_len=400 -artifact_prefix=$1/ $1"
                     sh ${inputs} $<TARGET_FILE:${lane}.soak> $<TARGET_FILE:${lane}.fuzz>)
    set_tests_properties(${lane}.fuzz PROPERTIES LABELS stress TIMEOUT 600)
    hz_set_cost(${lane}.fuzz 1)
    hz_place_test(${lane}.fuzz ${lane}.fuzz ${lane}.soak)
endfunction()

function(hz_add_operations_programs)
    set(lanes ${HZ_TEST_LANES})
    set(can_fuzz OFF)
    if(CMAKE_C_COMPILER_ID STREQUAL "Clang" AND NOT sanitize)
        set(can_fuzz ON)
        set(lanes ${HAKOZUNA_LANES})
    endif()
    foreach(entry IN LISTS lanes)
        hz_add_soak("${entry}")
        if(can_fuzz)
            hz_add_fuzz("${entry}")
        endif()
    endforeach()
    if(hz_has_products AND HZ_SYSTEM_SUITES)
        hz_add_system_soak()
    endif()
endfunction()
