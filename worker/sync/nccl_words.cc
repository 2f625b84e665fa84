#include "worker/sync/nccl_words.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

const char* WordOf(Nccl::Algo algo) {
  switch (algo) {
    case Nccl::RING:
      return "Ring";
    case Nccl::TREE:
      return "Tree";
    case Nccl::NVLS:
      return "NVLS";
    case Nccl::NVLS_TREE:
      return "NVLSTree";
    case Nccl::ANY_ALGO:
      break;
  }
  return nullptr;
}

const char* WordOf(Nccl::Proto proto) {
  switch (proto) {
    case Nccl::LL:
      return "LL";
    case Nccl::LL128:
      return "LL128";
    case Nccl::SIMPLE:
      return "Simple";
    case Nccl::ANY_PROTO:
      break;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> NcclRequired(const Nccl& nccl) {
  std::vector<std::string> variables;
  if (const char* const algo = WordOf(nccl.algo())) {
    variables.push_back(absl::StrCat("NCCL_ALGO=", algo));
  }
  if (const char* const proto = WordOf(nccl.proto())) {
    variables.push_back(absl::StrCat("NCCL_PROTO=", proto));
  }
  return variables;
}

std::vector<std::string> NcclEnvironment(const Nccl& nccl, int index) {
  std::vector<std::string> variables = NcclRequired(nccl);
  if (!nccl.share_gpu()) return variables;
  // What is not for several hosts that are really one: other networks, other nodes' GPUs, and more
  // blocks than fit on the GPU beside those of the others.
  for (const char* const variable :
       {"NCCL_SOCKET_IFNAME=lo", "NCCL_NET=Socket", "NCCL_IB_DISABLE=1", "NCCL_MNNVL_ENABLE=0",
        "NCCL_NVLS_ENABLE=0", "NCCL_RAS_ENABLE=0", "NCCL_MAX_NCHANNELS=2",
        "NCCL_MULTI_RANK_GPU_ENABLE=1"}) {
    variables.emplace_back(variable);
  }
  variables.push_back(absl::StrCat("NCCL_HOSTID=worker", index));
  return variables;
}

std::string NcclLabel(const Nccl& nccl) {
  std::string label = "All-reduce of NCCL";
  if (const char* const algo = WordOf(nccl.algo())) absl::StrAppend(&label, ", ", algo);
  if (const char* const proto = WordOf(nccl.proto())) absl::StrAppend(&label, ", ", proto);
  if (nccl.share_gpu()) absl::StrAppend(&label, ", ranks share a GPU: correctness only");
  return label;
}

NcclPlace NcclPlaceFrom(const Nccl& nccl, NcclPlace process) {
  NcclPlace place = std::move(process);
  place.required = NcclRequired(nccl);
  place.share_gpu = nccl.share_gpu();
  return place;
}

}  // namespace lockstep
