// anywhere.h: functions that nvcc compiles for the device as well as for the host, so that one
// definition decides the bits on both. Elsewhere the word means nothing.
#pragma once

#if defined(__CUDACC__)
#define LOCKSTEP_ANYWHERE __host__ __device__
#else
#define LOCKSTEP_ANYWHERE
#endif
#define LOCKSTEP_INLINE [[gnu::always_inline]] LOCKSTEP_ANYWHERE inline

// Before a loop whose count is a constant of the code: on the device its arrays must be registers.
#if defined(__CUDA_ARCH__)
#define LOCKSTEP_UNROLL _Pragma("unroll")
#else
#define LOCKSTEP_UNROLL
#endif
