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

# Sketches that decision pages compare with: build/release/bench/libpage_first.so, to be preloaded.
if(hz_is_release)
    add_library(page_first SHARED "${PROJECT_SOURCE_DIR}/bench/prototypes/page_first.c" src/base/check.c src/base/sizeclass.c)
    target_include_directories(page_first PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_compile_definitions(page_first PRIVATE _GNU_SOURCE=)
    target_compile_options(page_first PRIVATE -fvisibility=hidden -ftls-model=initial-exec ${hz_no_builtin})
    target_link_libraries(page_first PRIVATE Threads::Threads)
    set_target_properties(page_first PROPERTIES LINKER_LANGUAGE C LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
endif()
