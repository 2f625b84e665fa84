// device_choice.h: where a worker computes: as the spec says, or as it was started. Coordinator and
// worker decide it with the same rule. Errors: InvalidArgument. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "proto/experiment.pb.h"

namespace lockstep {

// What a worker was started with, in the spec's words; empty: nothing.
struct DeviceWords {
  std::string device;
  std::string math;
};

struct DeviceChoice {
  DeviceSpec device = CPU;
  MathSpec math = STRICT;
  bool operator==(const DeviceChoice&) const = default;
};

// "device GPU, math TF32"
std::string TextOf(const DeviceChoice& choice);

// What the experiment says, where `words` say nothing. TF32 of another device's is not taken over.
// InvalidArgument: no such word, or TF32 on a CPU.
absl::StatusOr<DeviceChoice> ChooseDevice(const Experiment& experiment, const DeviceWords& words);

// Empty, or why a worker with these words may not join, naming both sides.
std::string DeviceRefusal(const Experiment& experiment, const DeviceWords& words);

}  // namespace lockstep
