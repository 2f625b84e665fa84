// spec_words.h: what the words of a spec's all_reduce mean to the engine. The enums of
// experiment.proto and of the engine have the same words, so one place turns one into the other.
// Pure.
#pragma once

#include "absl/strings/ascii.h"
#include "allreduce/engine.h"
#include "allreduce/schedule/algorithm.h"
#include "proto/experiment.pb.h"

namespace lockstep {

inline Placement PlacementFrom(AllReduceSync::Placement placement) {
  static_assert(static_cast<int>(Placement::kSpare) == AllReduceSync::SPARE);
  static_assert(static_cast<int>(Placement::kColocated) == AllReduceSync::COLOCATED);
  static_assert(static_cast<int>(Placement::kSplit) == AllReduceSync::SPLIT);
  return static_cast<Placement>(placement);
}

// REQUIRES: not HOST.
inline Engine EngineFrom(AllReduceSync::Engine engine) {
  if (engine == AllReduceSync::NCCL) return Engine::kNccl;
  if (engine == AllReduceSync::CUDA) return Engine::kCuda;
  return engine == AllReduceSync::MPI ? Engine::kMpi : Engine::kGloo;
}

// What our kernels are told. AUTO: by size.
inline CudaPlace CudaPlaceFrom(const AllReduceSync& sync) {
  CudaPlace place;
  if (sync.algorithm() != AllReduceSync::AUTO) {
    place.algorithm = absl::AsciiStrToLower(AllReduceSync::Algorithm_Name(sync.algorithm()));
  }
  if (sync.has_channels()) place.channels = sync.channels();
  place.share_gpu = sync.cuda().share_gpu();
  return place;
}

}  // namespace lockstep
