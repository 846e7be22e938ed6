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
