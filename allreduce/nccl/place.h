// place.h: what the NCCL engine needs to know of its process and of the variant. NCCL takes most of
// its settings from the environment, which belongs to the process: main reads it, whoever starts
// the process sets it, and the engine refuses to start where it is not what the variant asks for.
// Plain.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct NcclPlace {
  std::string library;                 // path; empty: libnccl.so.2 where the loader finds it
  std::vector<std::string> variables;  // this process's NCCL_*, "NAME=value"
  std::vector<std::string> required;   // which of them must be there, with these values
  bool share_gpu = false;              // ranks may share a GPU: correctness only
};

}  // namespace lockstep
