# The GoogleTest suites. Each tests/<suite>/**/*.cc becomes one program and one CTest test, named
#   <lane>.<suite>.<directories>.<file>   linked with <lane>_api (files named *_faulty.cc: <lane>_faulty,
#                                         *_failfast.cc: <lane>_failfast)
#   system.<suite>.<file>                 contract and stress on the system's malloc
#   <lane>.preload.<suite>.<file>         the program of system.<suite>.<file>, with the product preloaded
# Each file runs in its own process, so its effects on the allocator do not reach other files.

# Tests deliberately do what these warnings are about.
set(hz_test_options ${hz_no_builtin})
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(
        APPEND
        hz_test_options
        -fno-allocation-dce
        -Wno-alloc-size-larger-than
        -Wno-free-nonheap-object
        -Wno-mismatched-new-delete
        -Wno-sized-deallocation
        -Wno-use-after-free)
else()
    # gcc declares C++14's sized operator delete by default, clang does not.
    list(APPEND hz_test_options -fsized-deallocation)
endif()

# There are about a thousand test programs, which GNU ld takes 0.1 s each to link, and mold a fifth of that. The
# release build's libraries contain LTO objects, which stay with the compiler's own linker.
find_program(hz_mold NAMES mold)
if(NOT hz_is_release AND hz_mold AND NOT CMAKE_CROSSCOMPILING)
    set(hz_fast_linker -fuse-ld=mold)
endif()

# Newer kernels randomise addresses more than this ThreadSanitizer runtime supports, so randomisation is switched off.
set(hz_test_launcher ${CMAKE_CROSSCOMPILING_EMULATOR})
if(HZ_BUILD STREQUAL "tsan")
    execute_process(COMMAND setarch -R true RESULT_VARIABLE setarch_result OUTPUT_QUIET ERROR_QUIET)
    if(setarch_result EQUAL 0)
        set(hz_test_launcher setarch -R)
    endif()
endif()

# Debian has GoogleTest's libraries for the processor that builds, and its sources for the others.
macro(hz_find_gtest)
    if(CMAKE_CROSSCOMPILING)
        add_subdirectory(/usr/src/googletest "${PROJECT_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL SYSTEM)
        foreach(target gtest gtest_main gmock gmock_main)
            target_compile_options(${target} PRIVATE -w -O0 -g0) # compiling takes longer than running
        endforeach()
    else()
        find_package(GTest REQUIRED)
    endif()
endmacro()

function(hz_set_test_flags target)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/include")
    # Unit tests read the library's C11 headers. This stands in for <stdatomic.h>, which C++17 does not have.
    target_include_directories(${target} BEFORE PRIVATE "${PROJECT_SOURCE_DIR}/tests/c11")
    # The code under test is optimised, the tests are not: that halves the time to compile them.
    target_compile_options(${target} PRIVATE ${hz_test_options} -O0 -g1)
    target_compile_definitions(${target} PRIVATE "HZ_TEST_PLUGIN=\"${PROJECT_BINARY_DIR}/tests/libplugin.so\"")
endfunction()

# GoogleTest's header takes longer to parse than most tests, so targets compiled with the same flags share a precompiled
# one. Further arguments: the libraries that those targets link.
function(hz_precompile group target)
    if(NOT TARGET precompiled.${group})
        file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled/${group}.cc" CONTENT "/* nothing */\n")
        add_library(precompiled.${group} OBJECT "${PROJECT_BINARY_DIR}/precompiled/${group}.cc")
        hz_set_test_flags(precompiled.${group})
        target_link_libraries(precompiled.${group} PRIVATE GTest::gtest ${ARGN})
        target_precompile_headers(precompiled.${group} PRIVATE <gtest/gtest.h>)
    endif()
    target_precompile_headers(${target} REUSE_FROM precompiled.${group})
endfunction()

# Compiles one test program.
function(hz_add_test_program target source)
    add_executable(${target} ${source})
    hz_set_test_flags(${target})
    target_link_libraries(${target} PRIVATE GTest::gtest_main Threads::Threads ${CMAKE_DL_LIBS})
    target_link_options(${target} PRIVATE ${hz_fast_linker})
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endfunction()

# Compiles a source that does not depend on the lane. It is compiled only once, and its objects, to which this sets
# `objects`, are linked with each lane.
function(hz_compile_test_once source name)
    set(target "objects.${name}")
    if(NOT TARGET ${target})
        add_library(${target} OBJECT "${source}")
        hz_set_test_flags(${target})
        target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
        target_link_libraries(${target} PRIVATE GTest::gtest)
        hz_precompile(any ${target})
    endif()
    set(objects "$<TARGET_OBJECTS:${target}>" PARENT_SCOPE)
endfunction()

# The library that tests/operations opens and closes.
function(hz_add_plugin)
    add_library(plugin MODULE "${PROJECT_SOURCE_DIR}/tests/operations/plugin.cc")
    hz_set_test_flags(plugin)
    target_compile_definitions(plugin PRIVATE HZ_TEST_SYSTEM=1)
    set_target_properties(plugin PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endfunction()

# Sets `filter` to what GTEST_FILTER must be so that a program leaves out the tests that the list excludes for it. A line
# of the list is: the source below tests without .cc, the test, the reason. The test `*` stands for the whole file.
function(hz_find_exclusions list dotted filter)
    set(names "")
    file(STRINGS "${list}" lines REGEX "^[a-z]")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list}")
    foreach(line IN LISTS lines)
        if(NOT line MATCHES "^([^ ]+) +([^ ]+) +[^ ].+$")
            message(FATAL_ERROR "${list}: '${line}': want SOURCE TEST REASON")
        endif()
        string(REPLACE "/" "." source "${CMAKE_MATCH_1}")
        if(source STREQUAL dotted)
            list(APPEND names "${CMAKE_MATCH_2}")
            hz_require_test("${list}" "${CMAKE_MATCH_1}" "${CMAKE_MATCH_2}")
        endif()
    endforeach()
    list(JOIN names ":" names)
    set(${filter} "${names}" PARENT_SCOPE)
endfunction()

# An exclusion must name a test that is there.
function(hz_require_test list source test)
    if(test STREQUAL "*")
        return()
    endif()
    string(REGEX REPLACE "^([A-Za-z]+/)?([A-Za-z]+)\\.([A-Za-z0-9*]+).*$" "TEST(_[A-Z])?[(]\\2, \\3[)]" pattern "${test}")
    string(REPLACE "*" "[A-Za-z0-9]*" pattern "${pattern}")
    file(STRINGS "${PROJECT_SOURCE_DIR}/tests/${source}.cc" found REGEX "${pattern}")
    if(NOT found)
        message(FATAL_ERROR "${list}: tests/${source}.cc has no test ${test}; remove the line")
    endif()
endfunction()

# Each label has a target that builds the label's programs:
#   short        seconds under an emulator, where all others take long (HZ_SHORT_TESTS, a regular expression)
#   quick, deep  what `make test` runs of a preset, and what `make test-deep` runs
if(HAKOZUNA_BUILD_TESTS)
    foreach(label IN ITEMS short quick deep)
        add_custom_target(${label})
    endforeach()
endif()

# Sets a test's cost from cmake/test_costs.txt. `processors`: how many of ctest's slots the test takes. A test that takes
# two slots can start only when two become free together, which happens only when another such test ends. So these tests
# start before all others. Otherwise they would all run at the end.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/test_costs.txt" hz_test_costs REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/test_costs.txt")
function(hz_set_cost name processors)
    math(EXPR cost "(${processors} - 1) * 100")
    foreach(line IN LISTS hz_test_costs)
        if(NOT line MATCHES "^([^ ]+) ([0-9]+)$")
            message(FATAL_ERROR "cmake/test_costs.txt: '${line}': want PATTERN SECONDS")
        endif()
        set(seconds "${CMAKE_MATCH_2}")
        if(name MATCHES "${CMAKE_MATCH_1}")
            math(EXPR cost "${cost} + ${seconds}")
            break()
        endif()
    endforeach()
    set_tests_properties("${name}" PROPERTIES PROCESSORS ${processors} COST ${cost})
endfunction()

# Gives a test the label deep if cmake/deep_tests.txt has it, else quick; further arguments: the targets that it runs.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/deep_tests.txt" hz_deep_tests REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/deep_tests.txt")
function(hz_place_test name)
    set(label quick)
    foreach(pattern IN LISTS hz_deep_tests)
        if("${HZ_BUILD}/${name}" MATCHES "${pattern}")
            set(label deep)
            break()
        endif()
    endforeach()
    set_property(TEST "${name}" APPEND PROPERTY LABELS ${label})
    add_dependencies(${label} ${ARGN})
endfunction()

# Registers a test; further arguments: its labels.
function(hz_register_test name target suite)
    add_test(NAME "${name}" COMMAND ${hz_test_launcher} $<TARGET_FILE:${target}>)
    if(HZ_TEST_EXCLUSIONS)
        string(REGEX MATCH "(unit|contract|death|stress)\\..*$" dotted "${name}")
        hz_find_exclusions("${HZ_TEST_EXCLUSIONS}" "${dotted}" excluded)
        if(excluded STREQUAL "*")
            set_tests_properties("${name}" PROPERTIES DISABLED ON)
        elseif(excluded)
            set(excluded "GTEST_FILTER=-${excluded}")
        endif()
    endif()
    set(labels "${suite};${ARGN}")
    if(HZ_SHORT_TESTS AND name MATCHES "${HZ_SHORT_TESTS}")
        list(APPEND labels short)
        add_dependencies(short "${target}")
    endif()
    if(name MATCHES "test_operations$")
        add_dependencies("${target}" plugin)
    endif()
    set_tests_properties(
        "${name}"
        PROPERTIES LABELS "${labels}"
                   # Otherwise a file whose tests were all filtered or compiled out would pass unnoticed.
                   FAIL_REGULAR_EXPRESSION "Running 0 tests from"
                   TIMEOUT 300
                   ENVIRONMENT "${hz_sanitizer_environment};${excluded}")
    set(processors 1)
    if(suite STREQUAL "stress" AND NOT name MATCHES "test_operations$") # which runs half of the time in lockstep
        set(processors 2)
    endif()
    hz_set_cost("${name}" ${processors})
    hz_place_test("${name}" "${target}")
endfunction()

# Thread leaks are not reported: the child of a fork lacks its parent's threads and cannot join them.
set(hz_sanitizer_environment "ASAN_OPTIONS=abort_on_error=0:detect_stack_use_after_return=1"
                             "UBSAN_OPTIONS=print_stacktrace=1" "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:report_thread_leaks=0")

# tests/unit/heap/pages/test_send.cc -> unit.heap.pages.test_send
function(hz_name_test source result)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests" OUTPUT_VARIABLE relative)
    cmake_path(REMOVE_EXTENSION relative LAST_ONLY)
    string(REPLACE "/" "." dotted "${relative}")
    set(${result} "${dotted}" PARENT_SCOPE)
endfunction()

set(hz_default_entries "^(hz3/scale|hz4)$") # the default lane of each engine

# Makes each source found by the patterns a program linked with the lane's library.
function(hz_add_suite entry suite)
    hz_split_entry("${entry}")
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${ARGN})
    if(HZ_BUILD STREQUAL "tsan" AND suite STREQUAL "unit")
        # single-threaded, or nearly so; the first ones are slow, too
        list(FILTER sources EXCLUDE REGEX "/test_(oom|space)_faulty\\.cc$")
        list(FILTER sources EXCLUDE REGEX "/test_(collapse|config|pressure|drain|idle|list_check|page|page_purge|put|chores|sizeclass|supply|tick)\\.cc$")
        list(FILTER sources EXCLUDE REGEX "/test_(arena_settings|cgroup|list|os_faulty|random|report|startup|table_faulty|shadow|containers|request)\\.cc$")
        list(FILTER sources EXCLUDE REGEX "/test_os_high\\.cc$") # its mmap and munmap are the program's, not the sanitizer's
        if(NOT lane STREQUAL hz_default_lane)
            # half a minute for each lane; what the threads of these tests share is the same in all lanes
            list(FILTER sources EXCLUDE REGEX "/test_(limit|profile|sampler)\\.cc$")
        endif()
    endif()
    if(suite STREQUAL "unit" AND NOT lane STREQUAL hz_default_lane AND NOT entry MATCHES "${hz_default_entries}")
        # here no block takes a lane's own way home, so these tests find the same in every lane of an engine
        list(FILTER sources EXCLUDE REGEX "/test_(allowance|collapse|collapse_threads|pressure|flow|idle|inspect|keeper|limit)\\.cc$")
        list(FILTER sources EXCLUDE REGEX "/test_(list_check|page|page_purge|profile|room|sampler|chores|sizeclass|thread|tick)\\.cc$")
    endif()
    if(NOT HZ_BUILD STREQUAL "check" OR lane STREQUAL hz_default_lane OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        # half a minute for each lane; home of hz3 and hz4 together have what the default lane has
        list(FILTER sources EXCLUDE REGEX "/test_fork_steps\\.cc$")
    endif()
    if(sanitize)
        list(FILTER sources EXCLUDE REGEX "_failfast\\.cc$") # a sanitizer finds such writes itself, or forbids them
    endif()
    if(NOT hz_has_products)
        # AddressSanitizer's sized delete does not call the operator that a program has put in the place of the plain one.
        list(FILTER sources EXCLUDE REGEX "/test_replaced_operators\\.cc$")
    endif()
    foreach(source IN LISTS sources)
        hz_name_test("${source}" name)
        set(target "${lane}.${name}")
        set(objects "${source}")
        if(NOT suite STREQUAL "unit")
            hz_compile_test_once("${source}" "${name}")
        endif()
        hz_add_test_program("${target}" "${objects}")
        if(source MATCHES "_faulty\\.cc$")
            target_link_libraries("${target}" PRIVATE ${lane}_faulty)
        elseif(source MATCHES "_failfast\\.cc$")
            target_link_libraries("${target}" PRIVATE ${lane}_failfast)
        else()
            target_link_libraries("${target}" PRIVATE ${lane}_api)
            if(suite STREQUAL "unit")
                hz_precompile(${lane} "${target}" ${lane}_api)
            endif()
        endif()
        hz_register_test("${target}" "${target}" ${suite} ${lane})
    endforeach()
endfunction()

# The contract suite over an OS that fails one call in each run (tests/faulty/every_call.cc has the main function).
function(hz_add_faulty_contract entry)
    hz_split_entry("${entry}")
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/contract/*.cc")
    # these test names that only the products have, or tens of thousands of calls, or run in children
    list(FILTER sources EXCLUDE REGEX "/test_(introspection|libc_blocks|libc_names|operators|purge|replaced_operators|sampling)\\.cc$")
    foreach(source IN LISTS sources)
        hz_name_test("${source}" name)
        set(target "${lane}.faulty.${name}")
        hz_compile_test_once("${source}" "${name}")
        set(tests "${objects}")
        hz_compile_test_once("${PROJECT_SOURCE_DIR}/tests/faulty/every_call.cc" every_call)
        hz_add_test_program("${target}" "${tests};${objects}")
        target_link_libraries("${target}" PRIVATE ${lane}_faulty)
        hz_register_test("${target}" "${target}" contract ${lane})
    endforeach()
endfunction()

# Registers the suites that run for every lane.
function(hz_add_suites entry)
    hz_split_entry("${entry}")
    set(tests "${PROJECT_SOURCE_DIR}/tests")
    hz_choose_ways(${engine} ${lane_file} "HZ_SHARDS_PER_CPU=0")
    list(TRANSFORM ways REPLACE "(.+)" "${tests}/unit/ways/\\1/*.cc" OUTPUT_VARIABLE way_tests)
    set(heap_tests "${tests}/unit/heap/*.cc")
    if(HZ_BUILD STREQUAL "tsan" AND NOT entry MATCHES "${hz_default_entries}")
        set(heap_tests "") # what threads share in these lanes, and not in the defaults, is in the ways and under stress
    endif()
    if(entry IN_LIST HZ_UNIT_LANES)
        hz_add_suite("${entry}" unit ${heap_tests} ${way_tests})
    endif()
    set(suites contract death stress)
    if(HZ_BUILD STREQUAL "tsan")
        set(suites stress) # it covers threads more thoroughly than the others
    elseif(hz_is_release AND HZ_SYSTEM_SUITES)
        set(suites death) # contract and stress run on the preloaded product
    endif()
    if(NOT entry IN_LIST HZ_STRESS_LANES)
        list(REMOVE_ITEM suites stress)
    endif()
    foreach(suite IN LISTS suites)
        hz_add_suite("${entry}" ${suite} "${tests}/${suite}/*.cc")
    endforeach()
    # one lane and one compiler, since the calls of the OS are the same in all
    if(HZ_BUILD STREQUAL "check" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND entry STREQUAL "hz3/scale")
        hz_add_faulty_contract("${entry}")
    endif()
endfunction()

# base does not depend on a lane, nor does what unit/front tests, so their unit tests run once.
function(hz_add_base_suite entry)
    hz_add_suite("${entry}" unit "${PROJECT_SOURCE_DIR}/tests/unit/base/*.cc"
                 "${PROJECT_SOURCE_DIR}/tests/unit/front/*.cc")
endfunction()

# The contract and stress suites on malloc itself. On glibc's malloc they show that the tests are right; with the
# product preloaded they test the names that it overrides.
function(hz_add_system_suites)
    if(NOT hz_has_products OR NOT HZ_SYSTEM_SUITES)
        return()
    endif()
    foreach(suite contract stress)
        file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${suite}/*.cc")
        list(FILTER sources EXCLUDE REGEX "_faulty\\.cc$")
        foreach(source IN LISTS sources)
            hz_add_system_test("${source}" ${suite})
        endforeach()
    endforeach()
endfunction()

function(hz_add_system_test source suite)
    hz_name_test("${source}" name)
    hz_add_test_program("system.${name}" "${source}")
    target_compile_definitions("system.${name}" PRIVATE HZ_TEST_SYSTEM=1)
    hz_precompile(any "system.${name}")
    if(hz_is_release AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        # glibc is the same in every build, so one build is enough.
        hz_register_test("system.${name}" "system.${name}" ${suite} system)
    endif()
    # The promises are those of every lane; the stress suite runs under the preset's choice, for its time.
    set(lanes ${HZ_TEST_LANES})
    if(suite STREQUAL "contract")
        set(lanes ${HAKOZUNA_LANES})
    elseif(hz_is_release AND "hz3/percpu" IN_LIST HAKOZUNA_LANES AND name MATCHES "test_(churn|exit|fork|queues|storm|thread_exit)$")
        list(APPEND lanes hz3/percpu) # its fast paths are others, and only a preloaded library starts the keeper they need
        list(REMOVE_DUPLICATES lanes)
    endif()
    foreach(entry IN LISTS lanes)
        hz_split_entry("${entry}")
        set(preloaded "${lane}.preload.${name}")
        hz_register_test("${preloaded}" "system.${name}" ${suite} preload ${lane})
        set_tests_properties("${preloaded}" PROPERTIES ENVIRONMENT "LD_PRELOAD=$<TARGET_FILE:hakozuna_${lane}>")
        add_dependencies("system.${name}" hakozuna_${lane})
    endforeach()
endfunction()
