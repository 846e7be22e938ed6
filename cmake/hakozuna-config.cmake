# What find_package(hakozuna CONFIG) reads. It defines
#   hakozuna::hakozuna             the shared library; replaces malloc
#   hakozuna::static               the same as an archive
#   hakozuna::prefix               archive with hz_* names only; malloc stays as it is
#   hakozuna::LANE, ::LANE-static  another lane, such as hakozuna::hz4
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include("${CMAKE_CURRENT_LIST_DIR}/hakozuna-targets.cmake")
