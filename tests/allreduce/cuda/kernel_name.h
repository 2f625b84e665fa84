// kernel_name.h: a kernel's name for cases of tests that run for each.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "allreduce/cuda/arena.h"

namespace lockstep::gpu {

inline std::string KernelName(const testing::TestParamInfo<Kernel>& param) {
  return NameOf(param.param);
}

}  // namespace lockstep::gpu
