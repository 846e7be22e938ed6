# Builds with Debian's musl-gcc. It does not look for the kernel's headers, which the library needs, so they get a folder
# of their own: /usr/include has glibc's headers too. Debian has no C++ library for musl, so nothing is linked as C++.

set(HZ_MUSL ON)
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER g++)

set(kernel_headers "${CMAKE_BINARY_DIR}/kernel-headers")
if(NOT EXISTS "${kernel_headers}/asm")
    file(MAKE_DIRECTORY "${kernel_headers}")
    file(CREATE_LINK /usr/include/linux "${kernel_headers}/linux" SYMBOLIC)
    file(CREATE_LINK /usr/include/asm-generic "${kernel_headers}/asm-generic" SYMBOLIC)
    file(CREATE_LINK "/usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu/asm" "${kernel_headers}/asm" SYMBOLIC)
endif()
set(CMAKE_C_STANDARD_INCLUDE_DIRECTORIES "")
set(CMAKE_C_FLAGS_INIT "-idirafter ${kernel_headers}")
