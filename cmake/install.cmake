# What `cmake --install` puts where. Components:
#   runtime       libhakozuna.so.0, libhakozuna-LANE.so.0
#   development   header, links for -l, archives, files for find_package and pkg-config, hz_malloc(3)
#   tools         the command hakozuna, which preloads the library, and what asks processes and reads core files and profiles; hakozuna(1), hakozuna(7)
#   debug         debug information by build id; only if asked for
#   wheel         the shared libraries for the Python package, which has no links, and what asks processes; only if asked for
#   tree          the names by which this repository's tools know the lanes, in `make libs`; only if asked for

# The number in the libraries' sonames: it grows when a program that was linked before would no longer run.
# tests/packages/abi.txt lists what such programs can have taken.
set(hz_soversion 0)

# libhakozuna_ENGINE_LANE.so and .a, for tests, hakobench and their results, which know lanes by these names.
function(hz_link_older_names lane output_name)
    file(MAKE_DIRECTORY "${hz_lib}")
    file(CREATE_LINK "lib${output_name}.so.${hz_soversion}" "${hz_lib}/libhakozuna_${lane}.so" SYMBOLIC)
    file(CREATE_LINK "lib${output_name}.a" "${hz_lib}/libhakozuna_${lane}.a" SYMBOLIC)
    if(HAKOZUNA_INSTALL)
        foreach(suffix so a)
            install(FILES "${hz_lib}/libhakozuna_${lane}.${suffix}" TYPE LIB COMPONENT tree EXCLUDE_FROM_ALL)
        endforeach()
    endif()
endfunction()

# A file for pkg-config. `private` is added when the program is linked with -static.
set(hz_pc_atomic "")
if(hz_libatomic)
    set(hz_pc_atomic -latomic)
endif()
function(hz_install_pkgconfig name libs private)
    # relative to the file itself, so that an installed tree can be moved
    cmake_path(SET folder NORMALIZE "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig")
    file(RELATIVE_PATH up "${folder}" "/prefix")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(pc_prefix "\${pcfiledir}/${up}")
    set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
    if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
        set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
        set(pc_libdir "${CMAKE_INSTALL_FULL_LIBDIR}")
        set(pc_includedir "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
    endif()
    set(file "${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc")
    configure_file("${PROJECT_SOURCE_DIR}/cmake/hakozuna.pc.in" "${file}" @ONLY)
    install(FILES "${file}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)
endfunction()

# Debug information as debuggers look for it: lib/debug/.build-id/xx/yyyy.debug.
function(hz_install_debug lane)
    string(
        CONFIGURE
            [=[
        execute_process(COMMAND "@CMAKE_READELF@" -n "$<TARGET_FILE:hakozuna_@lane@>" OUTPUT_VARIABLE notes
                        COMMAND_ERROR_IS_FATAL ANY)
        if(NOT notes MATCHES "Build ID: ([0-9a-f][0-9a-f])([0-9a-f]+)")
            message(FATAL_ERROR "$<TARGET_FILE:hakozuna_@lane@> has no build id")
        endif()
        set(folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/debug/.build-id/${CMAKE_MATCH_1}")
        set(file "${folder}/${CMAKE_MATCH_2}.debug")
        message(STATUS "Installing: ${file}")
        file(MAKE_DIRECTORY "${folder}")
        execute_process(COMMAND "@CMAKE_OBJCOPY@" --only-keep-debug "$<TARGET_FILE:hakozuna_@lane@>" "${file}"
                        COMMAND_ERROR_IS_FATAL ANY)
    ]=]
            code
        @ONLY)
    install(CODE "${code}" COMPONENT debug EXCLUDE_FROM_ALL)
endfunction()

function(hz_install_lane lane output_name)
    if(lane IN_LIST hz_lanes_not_installed)
        install(TARGETS hakozuna_${lane} hakozuna_${lane}_static COMPONENT tree EXCLUDE_FROM_ALL)
        return()
    endif()
    install(
        TARGETS hakozuna_${lane} hakozuna_${lane}_static
        EXPORT hakozuna
        LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
        ARCHIVE COMPONENT development)
    hz_install_debug(${lane})
    if(SKBUILD)
        install(TARGETS hakozuna_${lane} LIBRARY DESTINATION lib COMPONENT wheel NAMELINK_SKIP EXCLUDE_FROM_ALL)
    endif()
    # --no-as-needed: see hz_add_shared
    set(linked "-L\${libdir} -Wl,--push-state,--no-as-needed -l${output_name} -Wl,--pop-state")
    hz_install_pkgconfig(${output_name} "${linked}" "-Wl,-u,malloc -pthread ${hz_pc_atomic}")
    hz_install_pkgconfig(${output_name}-static "-Wl,-u,malloc \${libdir}/lib${output_name}.a -pthread ${hz_pc_atomic}" "")
    if(lane STREQUAL hz_default_lane)
        install(FILES "${hz_lib}/hakozuna.o" TYPE LIB COMPONENT development)
    endif()
endfunction()

function(hz_install_prefix)
    install(TARGETS hakozuna_prefix EXPORT hakozuna ARCHIVE COMPONENT development)
    hz_install_pkgconfig(hakozuna-prefix "\${libdir}/libhakozuna-prefix.a -pthread ${hz_pc_atomic}" "")
endfunction()

# A man page from its template, and pages of other names that show it. Debian wants them compressed.
function(hz_install_man template component)
    get_filename_component(name "${template}" NAME)
    string(REGEX REPLACE "\\.in$" "" name "${name}")
    string(REGEX REPLACE ".*\\." "" section "${name}")
    set(folder "${PROJECT_BINARY_DIR}/man/man${section}")
    configure_file("${PROJECT_SOURCE_DIR}/${template}" "${folder}/${name}" @ONLY)
    set(pages "${folder}/${name}")
    foreach(other IN LISTS ARGN)
        file(CONFIGURE OUTPUT "${folder}/${other}.${section}" CONTENT ".so man${section}/${name}\n")
        list(APPEND pages "${folder}/${other}.${section}")
    endforeach()
    if(HAKOZUNA_PACKAGES)
        execute_process(COMMAND gzip -9nfk ${pages} COMMAND_ERROR_IS_FATAL ANY)
        list(TRANSFORM pages APPEND .gz)
    endif()
    install(FILES ${pages} DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}" COMPONENT ${component})
endfunction()

# The functions of the header.
function(hz_read_functions result)
    file(READ "${PROJECT_SOURCE_DIR}/include/hakozuna/hakozuna.h" header)
    string(REGEX MATCHALL "\nHZ_API [^(]*hz_[a-z_]+\\(" found "${header}")
    list(TRANSFORM found REPLACE ".*(hz_[a-z_]+)\\(" "\\1")
    set(${result} ${found} PARENT_SCOPE)
endfunction()

# The header, and what find_package(hakozuna) reads.
function(hz_install_development)
    install(FILES "${PROJECT_SOURCE_DIR}/include/hakozuna/hakozuna.h" "${PROJECT_SOURCE_DIR}/include/hakozuna/hakozuna.hpp"
            DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/hakozuna" COMPONENT development)
    if(NOT hz_has_products)
        return()
    endif()
    hz_read_functions(functions)
    list(REMOVE_ITEM functions hz_malloc)
    hz_install_man(packaging/man/hz_malloc.3.in development ${functions})
    include(CMakePackageConfigHelpers)
    set(folder "${CMAKE_INSTALL_LIBDIR}/cmake/hakozuna")
    set(version "${PROJECT_BINARY_DIR}/hakozuna-config-version.cmake")
    write_basic_package_version_file("${version}" COMPATIBILITY SameMajorVersion)
    install(FILES "${PROJECT_SOURCE_DIR}/cmake/hakozuna-config.cmake" "${version}" DESTINATION "${folder}"
            COMPONENT development)
    install(EXPORT hakozuna NAMESPACE hakozuna:: FILE hakozuna-targets.cmake DESTINATION "${folder}"
            COMPONENT development)
endfunction()

function(hz_install_tools)
    file(RELATIVE_PATH bin_to_lib "/prefix/${CMAKE_INSTALL_BINDIR}" "/prefix/${CMAKE_INSTALL_LIBDIR}")
    string(REPLACE "_" "-" hz_default_lane_name "${hz_default_lane}")
    configure_file("${PROJECT_SOURCE_DIR}/command/hakozuna.in" "${PROJECT_BINARY_DIR}/command/hakozuna" @ONLY)
    install(PROGRAMS "${PROJECT_BINARY_DIR}/command/hakozuna" TYPE BIN COMPONENT tools)
    set(completion "${PROJECT_SOURCE_DIR}/command/completion")
    install(FILES "${completion}/hakozuna.bash" RENAME hakozuna DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT tools)
    set(zsh_folder site-functions)
    if(HAKOZUNA_PACKAGES STREQUAL "DEB")
        set(zsh_folder vendor-completions) # where Debian's zsh looks below /usr
    endif()
    install(FILES "${completion}/_hakozuna" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/${zsh_folder}" COMPONENT tools)
    hz_install_man(command/hakozuna.1.in tools)
    hz_install_man(packaging/man/hakozuna.7.in tools)
    set(folder "${PROJECT_SOURCE_DIR}/command")
    set(scripts "${folder}/heap_profile.py" "${folder}/heap_stats.py" "${folder}/leaks.py" "${folder}/metrics.py" "${folder}/names.py"
                "${folder}/nearest.py" "${folder}/why.py")
    file(GLOB modules CONFIGURE_DEPENDS "${folder}/*.py")
    list(REMOVE_ITEM modules ${scripts})
    install(PROGRAMS ${scripts} DESTINATION "${CMAKE_INSTALL_LIBDIR}/hakozuna" COMPONENT tools)
    install(FILES ${modules} DESTINATION "${CMAKE_INSTALL_LIBDIR}/hakozuna" COMPONENT tools)
    if(SKBUILD)
        # hakozuna/__main__.py calls it as a shell script
        set(bin_to_lib ../lib)
        configure_file("${PROJECT_SOURCE_DIR}/command/hakozuna.in" "${PROJECT_BINARY_DIR}/command/wheel/hakozuna" @ONLY)
        install(FILES "${PROJECT_BINARY_DIR}/command/wheel/hakozuna" DESTINATION bin COMPONENT wheel EXCLUDE_FROM_ALL)
        install(FILES ${scripts} ${modules} DESTINATION lib/hakozuna COMPONENT wheel EXCLUDE_FROM_ALL)
    endif()
endfunction()
