#include "worker/computer.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/member/limits_proto.h"
#include "base/status.h"
#include "worker/gpu/gpu_math.h"

namespace lockstep {

OptimizerFactory Computer::OptimizerFor(Model* model) const {
  if (gpu == nullptr) return MakeHostOptimizer;
  return [memory = gpu, model](const OptimizerOptions& options, int64_t /*parameters*/) {
    return MakeGpuOptimizer(memory, model, options);
  };
}

absl::StatusOr<Computer> MakeComputer(const Experiment& experiment, const ComputePlace& place,
                                      int index, const Clock& clock, Started* started) {
  ASSIGN_OR_RETURN(const DeviceChoice choice, ChooseDevice(experiment, place.words));
  started->set_device(DeviceSpec_Name(choice.device));
  started->set_math(MathSpec_Name(choice.math));
  if (choice.device == CPU) {
    started->set_math_library("oneDNN");
    return Computer{.math = MakeDnnlMath()};
  }
  ASSIGN_OR_RETURN(OpenedDevice opened, OpenDevice(place.gpu, index, choice.math == TF32));
  started->set_gpu(opened.gpu);
  started->set_math_library(opened.library);
  auto memory = std::make_unique<GpuMemory>(
      std::move(opened.device),
      GpuMemoryOptions{
          .name = absl::StrCat("worker ", index, ", GPU ", opened.index, " (", opened.gpu, ")"),
          .timeout_ms = LimitsFrom(experiment.limits()).device_timeout_ms,
          .abort = place.abort},
      clock);
  Computer computer{.gpu = memory.get()};
  computer.math = MakeGpuMath(std::move(memory));
  return computer;
}

}  // namespace lockstep
