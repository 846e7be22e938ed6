# cpack runs this on the packages that it has made (CPACK_POST_BUILD_SCRIPTS), for what it cannot be told otherwise:
#   * no scripts that call ldconfig: the trigger does that
#   * md5sums of the files as they are installed; for debug symbols cpack writes the paths of the build
#   * times of SOURCE_DATE_EPOCH in the archive, since dpkg-deb writes it
function(hz_dpkg_deb)
    execute_process(COMMAND dpkg-deb ${ARGN} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(package IN LISTS CPACK_PACKAGE_FILES)
    set(folder "${CPACK_TEMPORARY_DIRECTORY}/finish")
    file(REMOVE_RECURSE "${folder}")
    hz_dpkg_deb(--raw-extract "${package}" "${folder}")
    file(REMOVE "${folder}/DEBIAN/postinst" "${folder}/DEBIAN/postrm")
    file(GLOB_RECURSE files LIST_DIRECTORIES false RELATIVE "${folder}" "${folder}/*")
    list(FILTER files EXCLUDE REGEX "^DEBIAN/")
    list(SORT files)
    set(sums "")
    foreach(file IN LISTS files)
        if(NOT IS_SYMLINK "${folder}/${file}")
            file(MD5 "${folder}/${file}" sum)
            string(APPEND sums "${sum}  ${file}\n")
        endif()
    endforeach()
    file(WRITE "${folder}/DEBIAN/md5sums" "${sums}")
    hz_dpkg_deb(--root-owner-group -Zgzip --build "${folder}" "${package}")
    file(REMOVE_RECURSE "${folder}")
endforeach()
