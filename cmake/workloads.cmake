# The benchmark programs: each bench/workloads/*.c is one program that calls plain malloc and free, so
# any allocator can be preloaded; bench/workloads/common holds the code they share. The programs of bench/apps
# and bench/coherence are not workloads but tools that measure; they are built into the same directory.

file(GLOB workload_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/workloads/*.c")
file(GLOB common_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/workloads/common/*.c")
file(GLOB tool_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/apps/*.c" "${PROJECT_SOURCE_DIR}/bench/apps/*.cc" "${PROJECT_SOURCE_DIR}/bench/coherence/*.c")

add_library(workload_common OBJECT ${common_sources})
target_include_directories(workload_common PUBLIC "${PROJECT_SOURCE_DIR}/bench/workloads")
target_compile_options(workload_common PUBLIC ${hz_no_builtin})
target_link_libraries(workload_common PUBLIC Threads::Threads m)

add_custom_target(workloads)

# A program of the given sources and the common code.
function(hz_add_workload name)
    add_executable(${name} ${ARGN})
    add_dependencies(workloads ${name})
    target_link_libraries(${name} PRIVATE workload_common)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
endfunction()

foreach(source IN LISTS workload_sources tool_sources)
    cmake_path(GET source STEM workload)
    hz_add_workload(${workload} "${source}")
endforeach()

# What is counted (hakobench counts --ledger), and what is preloaded beside the allocator meanwhile: for it the machine
# stands still.
hz_add_workload(ledger "${PROJECT_SOURCE_DIR}/bench/workloads/counted/ledger.c")
add_library(still SHARED "${PROJECT_SOURCE_DIR}/bench/workloads/counted/still.c")
set_target_properties(still PROPERTIES C_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
add_dependencies(workloads still)

# A prototype that a decision page compares with: builds bench/prototypes/<source>.c into
# build/release/bench/lib<name>.so, to be preloaded. Further arguments: the macros that select the prototype's variant.
function(hz_add_sketch name source)
    add_library(${name} SHARED "${PROJECT_SOURCE_DIR}/bench/prototypes/${source}.c" src/base/os/check.c src/heap/sizeclass.c)
    # the size classes as they were when the prototypes were measured
    hz_set_lane_flags(${name} hz3 scale HZ_LINEAR_LOG2=11)
    target_compile_definitions(${name} PRIVATE ${ARGN})
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
endfunction()

if(hz_is_release)
    hz_add_sketch(page_first page_first)
    hz_add_sketch(bins_arrays bins BIN_LISTS=0 TLS_BLOCK=0 PAGE_LOG2=16)
    hz_add_sketch(bins_lists bins BIN_LISTS=1 TLS_BLOCK=0 PAGE_LOG2=16)
    hz_add_sketch(bins_tls bins BIN_LISTS=0 TLS_BLOCK=1 PAGE_LOG2=16)
    hz_add_sketch(bins_page12 bins BIN_LISTS=0 TLS_BLOCK=0 PAGE_LOG2=12)
    hz_add_sketch(bins_page14 bins BIN_LISTS=0 TLS_BLOCK=0 PAGE_LOG2=14)
    hz_add_sketch(bins_page18 bins BIN_LISTS=0 TLS_BLOCK=0 PAGE_LOG2=18)
endif()
