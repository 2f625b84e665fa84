#include <fstream>

#include "allreduce/cuda/device.h"

namespace lockstep::gpu {
namespace {

constexpr int kNoDeviceError = 100;  // cudaErrorNoDevice

std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

Answer Judge(const DriverState& state, int needed) {
  if (state.driver == 0) {
    return {Refused::kNoDriver, "no NVIDIA driver on this machine: a GPU needs one"};
  }
  if (state.driver < state.runtime) {
    return {Refused::kDriverTooOld, "the NVIDIA driver is too old: it supports CUDA " +
                                        VersionText(state.driver) + ", this program needs " +
                                        VersionText(state.runtime)};
  }
  if (state.error != 0 && state.error != kNoDeviceError) {
    return {Refused::kDevice, "counting devices: " + state.error_text};
  }
  if (state.devices < needed) {
    return {Refused::kNoDevice, state.devices == 0
                                    ? "no CUDA device: the driver is here, but shows no GPU"
                                    : std::to_string(needed) + " GPUs are needed, there are " +
                                          std::to_string(state.devices)};
  }
  return {};
}

std::string MachineId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace lockstep::gpu
