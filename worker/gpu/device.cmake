# lockstep_math_device: a worker's real GPU. Part of the project, or of what builds alone
# (experiments/gpu_check).
if(NOT LOCKSTEP_CUDA_FOUND)
  return()
endif()
set(lockstep_gpu_dir ${CMAKE_CURRENT_LIST_DIR})
add_library(
  lockstep_math_device STATIC EXCLUDE_FROM_ALL
  ${lockstep_gpu_dir}/cublas.cc ${lockstep_gpu_dir}/cuda_math_device.cc ${lockstep_gpu_dir}/kernels.cu)
set_target_properties(lockstep_math_device PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_compile_options(
  lockstep_math_device PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${LOCKSTEP_NVCC_FLAGS}>"
                               "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Werror>")
target_link_libraries(lockstep_math_device PUBLIC lockstep_gpu_driver ${CMAKE_DL_LIBS}
                                           PRIVATE $<BUILD_INTERFACE:lockstep_flags>)
