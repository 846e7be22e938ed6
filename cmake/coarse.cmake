# Suites of the default lane under a kernel with large system pages: tests/coarse/pages.c is preloaded, and stands in
# for it. The programs are those of the other tests, so only their run costs time. The names are
#   <lane>.pages64.<suite>...   64 KiB: unit and contract
#   <lane>.pages16.<suite>...   16 KiB: the base, and what purges parts of pages

function(hz_add_coarse entry kib suites)
    hz_split_entry("${entry}")
    math(EXPR page_bytes "${kib} * 1024")
    add_library(pages${kib} MODULE "${PROJECT_SOURCE_DIR}/tests/coarse/pages.c")
    target_compile_definitions(pages${kib} PRIVATE HZ_TEST_PAGE_BYTES=${page_bytes})
    target_include_directories(pages${kib} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(pages${kib} PRIVATE ${CMAKE_DL_LIBS})
    target_link_options(pages${kib} PRIVATE -Wl,-Bsymbolic) # a test that replaces mmap itself comes before, not between
    set_target_properties(pages${kib} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    set(HZ_TEST_EXCLUSIONS "${PROJECT_SOURCE_DIR}/tests/coarse/exclusions_${kib}.txt")
    foreach(suite IN ITEMS unit contract)
        get_property(tests DIRECTORY PROPERTY TESTS)
        list(FILTER tests INCLUDE REGEX "^${lane}\\.${suite}\\.")
        list(FILTER tests INCLUDE REGEX "${suites}")
        foreach(test IN LISTS tests)
            string(REGEX REPLACE "^${lane}\\." "${lane}.pages${kib}." name "${test}")
            hz_register_test("${name}" "${test}" ${suite} pages ${lane})
            set_property(TEST "${name}" APPEND PROPERTY ENVIRONMENT "LD_PRELOAD=$<TARGET_FILE:pages${kib}>")
            add_dependencies("${test}" pages${kib})
        endforeach()
    endforeach()
endfunction()
