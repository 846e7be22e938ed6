# An overlay port: vcpkg install hakozuna --overlay-ports=packaging/vcpkg. It takes the sources that it lies in.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS -DHAKOZUNA_BUILD_TESTS=OFF -DHAKOZUNA_BUILD_BENCHMARKS=OFF -DHAKOZUNA_WERROR=OFF -DHAKOZUNA_LANES=hz3/scale)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/hakozuna)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
