# The recorder that `hakobench trace` preloads, and the program that `hakobench replay` runs. Both are built into the
# directory of the workloads. The recorder replaces malloc, so sanitizer builds leave it out.

set(hz_trace "${PROJECT_SOURCE_DIR}/bench/trace")

if(hz_has_products)
    add_library(hakotrace SHARED "${hz_trace}/recorder.c" "${hz_trace}/record.c" "${hz_trace}/next.c")
    target_compile_options(hakotrace PRIVATE -fvisibility=hidden -ftls-model=initial-exec ${hz_no_builtin})
    target_link_options(hakotrace PRIVATE -Wl,-z,now -Wl,-z,nodelete -Wl,-z,defs)
    target_link_libraries(hakotrace PRIVATE ${CMAKE_DL_LIBS})
    set_target_properties(hakotrace PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
    add_dependencies(workloads hakotrace)
endif()

hz_add_workload(hakoreplay "${hz_trace}/replay.c" "${hz_trace}/plan.c")
