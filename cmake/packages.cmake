# Packages, which `cpack` makes in a build directory of the preset `package` (HAKOZUNA_PACKAGES=DEB) or `rpm` (RPM):
#   libhakozuna0                       the shared libraries; for Debian libhakozuna0-dbgsym has their debug information
#   libhakozuna-dev, libhakozuna-devel header, archives, files for CMake and pkg-config
#   libhakozuna-tools                  the command hakozuna
#   hakobench                          the benchmark tool, in Python

if(NOT HAKOZUNA_PACKAGES MATCHES "^(DEB|RPM)$")
    message(FATAL_ERROR "HAKOZUNA_PACKAGES is '${HAKOZUNA_PACKAGES}'; allowed: OFF, DEB, RPM")
endif()
set(CPACK_GENERATOR "${HAKOZUNA_PACKAGES}")
if(HAKOZUNA_PACKAGES STREQUAL "DEB")
    set(CPACK_POST_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/finish_debian.cmake")
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime development tools benchmark)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(HAKOZUNA_MAINTAINER "Hakozuna maintainers <maintainers@hakozuna.example>" CACHE STRING "Who answers for the packages: NAME <ADDRESS>")
if(NOT HAKOZUNA_MAINTAINER MATCHES "^([^<>]+) <[^@<> ]+@[^@<> ]+>$")
    message(FATAL_ERROR "HAKOZUNA_MAINTAINER is '${HAKOZUNA_MAINTAINER}'; allowed: NAME <ADDRESS>")
endif()
set(CPACK_PACKAGE_VENDOR "${CMAKE_MATCH_1}")
set(CPACK_PACKAGE_CONTACT "${HAKOZUNA_MAINTAINER}")

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(long "It is at its best where one thread allocates and another frees:\nqueues, servers, pipelines.")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME "libhakozuna${hz_soversion}")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_DEBUGINFO_PACKAGE ON) # and the library without
# Packages of programs depend on this one, and the dynamic linker's cache is made again. CPack's own way to do that calls
# ldconfig from scripts, which Debian has given up.
set(control "${PROJECT_BINARY_DIR}/debian")
set(shlibs "libhakozuna ${hz_soversion} libhakozuna${hz_soversion} (>= ${PROJECT_VERSION})\n")
foreach(entry IN LISTS HAKOZUNA_LANES)
    hz_split_entry("${entry}")
    if(NOT lane STREQUAL hz_default_lane)
        string(REPLACE "_" "-" dashed "${lane}")
        string(APPEND shlibs "libhakozuna-${dashed} ${hz_soversion} libhakozuna${hz_soversion} (>= ${PROJECT_VERSION})\n")
    endif()
endforeach()
file(WRITE "${control}/shlibs" "${shlibs}")
file(WRITE "${control}/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA "${control}/shlibs;${control}/triggers")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "memory allocator for programs with many threads\n${long}")

set(exact "libhakozuna${hz_soversion} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libhakozuna-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${exact}")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "memory allocator for programs with many threads: development\n${long}")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME libhakozuna-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${exact}")
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "binutils, python3, python3-rich") # for hakozuna profile and top
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS hakobench) # for hakozuna why
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "memory allocator for programs with many threads: command\n${long}")

# The versions are those of hakobench/pyproject.toml. It builds its programs with cc when they are first needed.
set(CPACK_DEBIAN_BENCHMARK_PACKAGE_NAME hakobench)
set(CPACK_DEBIAN_BENCHMARK_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_BENCHMARK_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_BENCHMARK_PACKAGE_DEPENDS
    "python3 (>= 3.11), python3-click (>= 8.1), python3-numpy (>= 1:1.24), python3-rich (>= 13), python3-scipy (>= 1.10)")
set(CPACK_DEBIAN_BENCHMARK_PACKAGE_RECOMMENDS "gcc, libc6-dev, libhakozuna${hz_soversion}, python3-jinja2, python3-matplotlib")
set(CPACK_DEBIAN_BENCHMARK_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/packaging/hakobench/postinst;${PROJECT_SOURCE_DIR}/packaging/hakobench/prerm")
set(CPACK_COMPONENT_BENCHMARK_DESCRIPTION
    "comparison of memory allocators\nIt measures allocators over workloads and real programs, and says\nwhich one is faster and which one takes less memory.")

set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE MIT)
set(CPACK_RPM_RUNTIME_PACKAGE_NAME "libhakozuna${hz_soversion}")
set(CPACK_RPM_DEVELOPMENT_PACKAGE_NAME libhakozuna-devel)
set(CPACK_RPM_TOOLS_PACKAGE_NAME libhakozuna-tools)
set(CPACK_RPM_BENCHMARK_PACKAGE_NAME hakobench)
set(CPACK_RPM_BENCHMARK_PACKAGE_ARCHITECTURE noarch)
set(CPACK_RPM_BENCHMARK_PACKAGE_REQUIRES "python3 >= 3.11, python3-click, python3-numpy, python3-rich, python3-scipy")
set(CPACK_RPM_RUNTIME_POST_INSTALL_SCRIPT_FILE "${PROJECT_SOURCE_DIR}/packaging/ldconfig.sh")
set(CPACK_RPM_RUNTIME_POST_UNINSTALL_SCRIPT_FILE "${PROJECT_SOURCE_DIR}/packaging/ldconfig.sh")
foreach(component IN ITEMS RUNTIME DEVELOPMENT TOOLS BENCHMARK)
    string(REGEX REPLACE "\n.*" "" CPACK_RPM_${component}_PACKAGE_SUMMARY "${CPACK_COMPONENT_${component}_DESCRIPTION}")
endforeach()
foreach(component IN ITEMS DEVELOPMENT TOOLS)
    set(CPACK_RPM_${component}_PACKAGE_REQUIRES "libhakozuna${hz_soversion} = ${PROJECT_VERSION}")
endforeach()
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/lib64 /usr/lib64/cmake /usr/lib64/pkgconfig /usr/share/man /usr/share/man/man1 /usr/share/man/man3
                                                  /usr/share/man/man7)
# the same bytes on every machine and at every time (SOURCE_DATE_EPOCH)
set(CPACK_RPM_SPEC_MORE_DEFINE "%global _buildhost localhost
%global use_source_date_epoch_as_buildtime 1
%global clamp_mtime_to_source_date_epoch 1
%global __os_install_post %{nil}
%global _build_id_links none")
if(HAKOZUNA_PACKAGES STREQUAL "RPM")
    set(CPACK_STRIP_FILES ON)
else()
    set(CPACK_STRIP_FILES OFF)
endif()

# hakobench as a folder of modules that only its command looks into, since a package for all distributions cannot know where
# their Python finds modules. A folder `dist-info` tells Python the version.
set(folder "${CMAKE_INSTALL_DATADIR}/hakobench")
set(made "${PROJECT_BINARY_DIR}/packaging/hakobench")
configure_file("${PROJECT_SOURCE_DIR}/packaging/hakobench/hakobench.in" "${made}/hakobench" @ONLY)
configure_file("${PROJECT_SOURCE_DIR}/packaging/hakobench/METADATA.in" "${made}/METADATA" @ONLY)
install(PROGRAMS "${made}/hakobench" TYPE BIN COMPONENT benchmark)
install(FILES "${made}/METADATA" DESTINATION "${folder}/hakobench-${PROJECT_VERSION}.dist-info" COMPONENT benchmark)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/hakobench/src/hakobench" DESTINATION "${folder}" COMPONENT benchmark USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE)
foreach(sources IN ITEMS workloads trace apps)
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/bench/${sources}" DESTINATION "${folder}/hakobench/sources" COMPONENT benchmark USE_SOURCE_PERMISSIONS
            PATTERN __pycache__ EXCLUDE)
endforeach()
hz_install_man(hakobench/hakobench.1 benchmark)

# What Debian's policy wants in each package.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH, if it is set
set(changelog "${PROJECT_BINARY_DIR}/debian/changelog")
file(WRITE "${changelog}" "hakozuna (${PROJECT_VERSION}) unstable; urgency=medium\n\n  * See CHANGELOG.md in the sources.\n\n"
                          " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
execute_process(COMMAND gzip -9nf "${changelog}" COMMAND_ERROR_IS_FATAL ANY)
file(READ "${PROJECT_SOURCE_DIR}/LICENSE" licence)
file(WRITE "${PROJECT_BINARY_DIR}/debian/copyright" "Hakozuna, a memory allocator.\n\n${licence}")
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER "${component}" upper)
    install(FILES "${changelog}.gz" "${PROJECT_BINARY_DIR}/debian/copyright"
            DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}" COMPONENT ${component})
endforeach()
include(CPack)
