#include <fstream>

#include "allreduce/cuda/device.h"

namespace lockstep::gpu {
namespace {

std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

Answer Judge(const DriverState& state, int needed) {
  if (state.driver == 0) {
    return {Refused::kNoDriver, "no NVIDIA driver on this machine: a GPU needs one"};
  }
  // A driver runs programs of every minor version of its major one.
  if (state.driver / 1000 < state.runtime / 1000 || state.error == runtime_error::kOldDriver) {
    return {Refused::kDriverTooOld, "the NVIDIA driver is too old: it supports CUDA " +
                                        VersionText(state.driver) + ", this program needs " +
                                        VersionText(state.runtime)};
  }
  if (state.error != 0 && state.error != runtime_error::kNoDevice) {
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

Answer JudgeSharing(int error, const std::string& words) {
  switch (error) {
    case 0:
      return {};
    case runtime_error::kNotSupported:
    case runtime_error::kOperatingSystem:
    case runtime_error::kCantMap:
      return {Refused::kNoSharing,
              words +
                  ": processes can't share a GPU's memory here, which a container or a virtual "
                  "machine may forbid; use engine NCCL"};
    case runtime_error::kCantReachPeer:
    case runtime_error::kTooManyPeers:
      return {Refused::kNoPeerAccess,
              words +
                  ": this GPU can't reach that memory; choose GPUs that are linked, or engine "
                  "NCCL"};
    case runtime_error::kStaleHandle:
      return {Refused::kDevice, words + ": the memory's process has ended or freed it"};
    default:
      return {Refused::kDevice, words};
  }
}

std::string MachineId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace lockstep::gpu
