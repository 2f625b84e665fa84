#include "base/member/device_choice.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {

std::string TextOf(const DeviceChoice& choice) {
  return absl::StrCat("device ", DeviceSpec_Name(choice.device), ", math ",
                      MathSpec_Name(choice.math));
}

absl::StatusOr<DeviceChoice> ChooseDevice(const Experiment& experiment, const DeviceWords& words) {
  DeviceChoice choice{experiment.device(), experiment.math()};
  if (!words.device.empty() && !DeviceSpec_Parse(words.device, &choice.device)) {
    return absl::InvalidArgumentError(
        absl::StrCat("device ", words.device, ": there are CPU and GPU"));
  }
  if (choice.device != experiment.device()) choice.math = STRICT;
  if (!words.math.empty() && !MathSpec_Parse(words.math, &choice.math)) {
    return absl::InvalidArgumentError(
        absl::StrCat("math ", words.math, ": there are STRICT and TF32"));
  }
  if (choice.device == CPU && choice.math == TF32) {
    return absl::InvalidArgumentError(
        "math TF32 conflicts with device CPU, which multiplies in fp32; take device GPU, or math "
        "STRICT");
  }
  return choice;
}

std::string DeviceRefusal(const Experiment& experiment, const DeviceWords& words) {
  const absl::StatusOr<DeviceChoice> choice = ChooseDevice(experiment, words);
  if (!choice.ok()) return absl::StrCat(choice.status().message());
  const DeviceChoice asked{experiment.device(), experiment.math()};
  if (*choice == asked || experiment.mixed_devices()) return "";
  return absl::StrCat("it would compute with ", TextOf(*choice), ", the run says ", TextOf(asked),
                      "; start it without --device and --math, or write mixed_devices: true in "
                      "the spec");
}

}  // namespace lockstep
