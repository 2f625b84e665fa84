# Programs that run where nothing of ours is installed, such as a GPU machine without gRPC: what
# Debian has as an archive is linked from it; glibc, libstdc++ and libgcc_s are the machine's own;
# CUDA's runtime is linked statically as ever, NCCL, Open MPI and Gloo are opened at run time as ever.
# oneDNN has no archive in Debian: it is copied beside the programs with what it needs, so that
# arithmetic and bits are the same. Copy the folder bin/ as a whole.

# Before packages are searched.
macro(lockstep_find_archives)
  set(lockstep_suffixes ${CMAKE_FIND_LIBRARY_SUFFIXES})
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  set(OPENSSL_USE_STATIC_LIBS ON)
  set(Protobuf_USE_STATIC_LIBS ON)
endmacro()

# After it. Debian's package files of gRPC and Abseil name shared libraries; pkg-config knows the
# archives. Abseil's can't be part of a shared object: those of the engines find it in the program.
macro(lockstep_archives_found)
  set(CMAKE_FIND_LIBRARY_SUFFIXES ${lockstep_suffixes})
  lockstep_link_nothing_shared()
  pkg_check_modules(LOCKSTEP_ARCHIVES REQUIRED QUIET grpc++ protobuf)
  list(REMOVE_DUPLICATES LOCKSTEP_ARCHIVES_STATIC_LIBRARIES)
  list(FILTER LOCKSTEP_ARCHIVES_STATIC_LIBRARIES EXCLUDE REGEX "^(atomic|dl|m|pthread|rt)$")
  set(lockstep_whole ${LOCKSTEP_ARCHIVES_STATIC_LIBRARIES})
  list(FILTER lockstep_whole INCLUDE REGEX "^absl_(status|statusor|strings|strings_internal|str_format_internal|cord|int128)$")
  list(TRANSFORM lockstep_whole PREPEND -l)
  list(TRANSFORM LOCKSTEP_ARCHIVES_STATIC_LIBRARIES PREPEND -l)
  list(JOIN lockstep_whole " " lockstep_whole)
  list(JOIN LOCKSTEP_ARCHIVES_STATIC_LIBRARIES " " lockstep_archives)
  string(APPEND CMAKE_CXX_LINK_EXECUTABLE
         " -Wl,--dynamic-list=${PROJECT_SOURCE_DIR}/portable.list -Wl,-Bstatic"
         " -Wl,--whole-archive ${lockstep_whole} -Wl,--no-whole-archive"
         " -Wl,--start-group ${lockstep_archives} -Wl,--end-group -Wl,-Bdynamic")
endmacro()
function(lockstep_link_nothing_shared)
  set(nothing ${PROJECT_BINARY_DIR}/nothing.a)
  file(WRITE ${nothing} "!<arch>\n")
  get_directory_property(targets IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL SHARED_LIBRARY)
      set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_NONE ${nothing})
    endif()
  endforeach()
  set_target_properties(re2::re2 PROPERTIES INTERFACE_LINK_LIBRARIES "")
endfunction()

# Copies `library`, and what it needs beyond the C and C++ run-time libraries, beside the programs.
function(lockstep_carry library)
  file(REAL_PATH ${library} real)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${real} OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ldd ${real} OUTPUT_VARIABLE needed COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "SONAME +([^ \n]+)" found "${headers}")
  lockstep_copy_beside(${real} ${CMAKE_MATCH_1})
  string(REGEX MATCHALL "[^ \t\n]+ => [^ \n]+" needed "${needed}")
  list(FILTER needed EXCLUDE REGEX "^(libc|libm|libdl|librt|libpthread|libstdc\\+\\+|libgcc_s)\\.so")
  foreach(entry IN LISTS needed)
    string(REGEX MATCH "(.+) => (.+)" found ${entry})
    lockstep_copy_beside(${CMAKE_MATCH_2} ${CMAKE_MATCH_1})
  endforeach()
endfunction()
function(lockstep_copy_beside file name)
  file(REAL_PATH ${file} real)
  configure_file(${real} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name} COPYONLY)
endfunction()
