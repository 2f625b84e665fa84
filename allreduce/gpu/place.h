// place.h: what the CUDA engine needs to know of its process and of the variant. Plain.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

namespace gpu {
class LocalRanks;
}

struct CudaPlace {
  std::string algorithm;  // "ring", "tree", "double_tree", "direct"; empty: by size
  int channels = 0;       // blocks of the GPU for each rank (a tree: two); 0: the engine's number
  // Ranks may share a GPU. Those of one process then all take the first one, in one launch; those
  // of several processes take turns on it: correctness only.
  bool share_gpu = false;
  int64_t staging_bytes = int64_t{64} << 20;  // of a rank; a longer call goes in pieces
  // Where the ranks of a process with several of them meet; null: this is its only one.
  gpu::LocalRanks* local = nullptr;
};

}  // namespace lockstep
