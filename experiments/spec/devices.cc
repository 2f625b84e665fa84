// What only workers on a GPU read, and engines whose ranks are on the workers' GPUs.
#include "absl/strings/str_cat.h"
#include "experiments/spec/checker.h"

namespace lockstep {
namespace {

// A rank of these engines has its worker's GPU, so it shares it where the worker does.
void CheckEnginesOnSharedGpus(const Checker& check) {
  for (int i = 0; i < check.experiment.variant_size(); ++i) {
    const AllReduceSync& sync = check.experiment.variant(i).all_reduce();
    const bool cuda = sync.engine() == AllReduceSync::CUDA && !sync.cuda().share_gpu();
    const bool nccl = sync.engine() == AllReduceSync::NCCL && !sync.nccl().share_gpu();
    if (!cuda && !nccl) continue;
    check.Error(JoinPath(IndexedPath("variant", i), "all_reduce.engine"),
                absl::StrCat(AllReduceSync::Engine_Name(sync.engine()),
                             " conflicts with share_gpu: true: its ranks are on the workers' GPUs; "
                             "write ",
                             cuda ? "cuda" : "nccl", " { share_gpu: true }, or remove share_gpu"));
  }
}

}  // namespace

void CheckDevices(const Checker& check) {
  const Experiment& experiment = check.experiment;
  if (experiment.device() == GPU) {
    if (experiment.share_gpu()) CheckEnginesOnSharedGpus(check);
    return;
  }
  if (experiment.math() == TF32) {
    check.Error("math",
                "TF32 conflicts with device CPU, which multiplies in fp32; write device: GPU, or "
                "math: STRICT");
  }
  if (experiment.share_gpu()) {
    check.Error("share_gpu",
                "conflicts with device CPU: only workers on a GPU share one; write device: GPU, or "
                "remove share_gpu");
  }
}

}  // namespace lockstep
