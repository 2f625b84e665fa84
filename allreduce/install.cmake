# The engine alone, without gRPC and Protobuf, as a CMake package for other projects:
#   cmake --install build/release --component allreduce --prefix DIR
#   find_package(Lockstep CONFIG REQUIRED)                 # with DIR in CMAKE_PREFIX_PATH
#   target_link_libraries(program lockstep::allreduce)     # #include "allreduce/communicator.h"
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(lockstep_headers ${CMAKE_INSTALL_INCLUDEDIR}/lockstep)
set(lockstep_package ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)

install(TARGETS lockstep_base lockstep_numeric lockstep_schedule lockstep_transport lockstep_allreduce
        EXPORT LockstepTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT allreduce
        INCLUDES DESTINATION ${lockstep_headers})
foreach(room base base/numeric allreduce allreduce/schedule allreduce/transport allreduce/host)
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${room}/*.h)
  list(FILTER headers EXCLUDE REGEX "/engine.h$")  # other libraries' engines: not installed
  install(FILES ${headers} DESTINATION ${lockstep_headers}/${room} COMPONENT allreduce)
endforeach()

install(EXPORT LockstepTargets NAMESPACE lockstep:: DESTINATION ${lockstep_package} COMPONENT allreduce)
write_basic_package_version_file(LockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES LockstepConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/LockstepConfigVersion.cmake
        DESTINATION ${lockstep_package} COMPONENT allreduce)
