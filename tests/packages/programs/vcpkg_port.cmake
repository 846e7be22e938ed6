# Runs the port's file with functions that only look at what they are given: CMake must accept it, and its sources must be there.
set(CURRENT_PACKAGES_DIR /nonexistent/packages)
set(calls "")

macro(note name)
    list(APPEND calls ${name})
endmacro()

function(vcpkg_cmake_configure)
    cmake_parse_arguments(PARSE_ARGV 0 given "" "SOURCE_PATH" "OPTIONS")
    if(NOT EXISTS "${given_SOURCE_PATH}/CMakeLists.txt" OR given_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "no sources in '${given_SOURCE_PATH}', or unknown arguments: ${given_UNPARSED_ARGUMENTS}")
    endif()
endfunction()

function(vcpkg_install_copyright)
    cmake_parse_arguments(PARSE_ARGV 0 given "" "" "FILE_LIST")
    if(NOT EXISTS "${given_FILE_LIST}")
        message(FATAL_ERROR "no file '${given_FILE_LIST}'")
    endif()
endfunction()

foreach(name vcpkg_cmake_install vcpkg_cmake_config_fixup vcpkg_fixup_pkgconfig)
    cmake_language(EVAL CODE "macro(${name})\nendmacro()")
endforeach()
include("$ENV{PORT}")
