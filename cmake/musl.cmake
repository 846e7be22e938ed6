# The tests of the libraries that are built with musl, for the default lane of each engine:
#   musl.<lane>.static    the archive in a static program
#   musl.<lane>.preload   the library, preloaded into a program that is linked dynamically
#   musl.system           the same program on musl's own malloc, which shows that the test is right

function(hz_add_musl_program name)
    add_executable(${name} "${PROJECT_SOURCE_DIR}/tests/musl/heap.c")
    target_compile_options(${name} PRIVATE ${hz_no_builtin})
    target_link_libraries(${name} PRIVATE ${ARGN} Threads::Threads)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endfunction()

hz_add_musl_program(musl.heap)
add_test(NAME musl.system COMMAND musl.heap)
foreach(entry IN ITEMS hz3/scale hz4)
    hz_split_entry("${entry}")
    hz_add_musl_program(musl.${lane}.heap hakozuna_${lane}_static)
    target_link_options(musl.${lane}.heap PRIVATE -static)
    add_test(NAME musl.${lane}.static COMMAND musl.${lane}.heap own)
    add_test(NAME musl.${lane}.preload COMMAND musl.heap own)
    set_tests_properties(musl.${lane}.preload PROPERTIES ENVIRONMENT "LD_PRELOAD=$<TARGET_FILE:hakozuna_${lane}>")
endforeach()
get_property(musl_tests DIRECTORY PROPERTY TESTS)
set_tests_properties(${musl_tests} PROPERTIES PASS_REGULAR_EXPRESSION "^well\n$" TIMEOUT 300)
