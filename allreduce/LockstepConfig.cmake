# What the installed libraries need, then themselves: lockstep::allreduce.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(absl CONFIG)
find_dependency(PkgConfig)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
include(${CMAKE_CURRENT_LIST_DIR}/LockstepTargets.cmake)
