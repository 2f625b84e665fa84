// nccl_words.h: what a variant's `nccl { }` means to the processes of its ranks. NCCL reads its
// settings from the environment: who starts a worker sets it, the worker's engine checks it. Pure.
#pragma once

#include <string>
#include <vector>

#include "allreduce/nccl/place.h"
#include "proto/experiment.pb.h"

namespace lockstep {

// "NAME=value", as every rank of the variant must have them.
std::vector<std::string> NcclRequired(const Nccl& nccl);

// All that worker `index` is started with. Ranks that share a GPU say that each is on a host of its
// own, so that NCCL lets them, and then talk over loopback alone.
std::vector<std::string> NcclEnvironment(const Nccl& nccl, int index);

// "All-reduce of NCCL, Tree, Simple", and that ranks share a GPU.
std::string NcclLabel(const Nccl& nccl);

// Of a process with these variables: what its engine is told.
NcclPlace NcclPlaceFrom(const Nccl& nccl, NcclPlace process);

}  // namespace lockstep
