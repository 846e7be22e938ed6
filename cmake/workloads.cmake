# The benchmark programs: each bench/workloads/*.c is one program on plain malloc and free, so that
# any allocator can be preloaded; what they share is bench/workloads/common. Those of bench/apps are
# no workloads but tools for real programs under test, and stand beside them.

file(GLOB workload_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/workloads/*.c")
file(GLOB common_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/workloads/common/*.c")
file(GLOB tool_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/apps/*.c")

foreach(source IN LISTS workload_sources tool_sources)
    cmake_path(GET source STEM workload)
    add_executable(${workload} "${source}" ${common_sources})
    target_include_directories(${workload} PRIVATE "${PROJECT_SOURCE_DIR}/bench/workloads")
    target_compile_options(${workload} PRIVATE ${hz_no_builtin})
    target_link_libraries(${workload} PRIVATE Threads::Threads m)
    set_target_properties(${workload} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
endforeach()
