// device.h: what GPUs are here, and every reason why they can't be used, each with its own words. A
// program with the CUDA runtime in it starts without a driver too. Plain structs; no Abseil, so
// that this folder builds alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::gpu {

enum class Refused : uint8_t {
  kNot = 0,        // goes on
  kNoDriver,       // no NVIDIA driver on this machine
  kDriverTooOld,   // of an older major version than the runtime in this program
  kNoDevice,       // a driver, but no GPU, or fewer than asked for
  kTooManyBlocks,  // the device can't hold all of them at once
  kNoPeerAccess,   // two devices can't reach each other's memory
  kNoSharing,      // processes can't share a device's memory here
  kInvalid,        // what was asked for is wrong
  kRankFailed,     // a collective ended without a result
  kDevice,         // the runtime reports an error
};

struct Answer {
  Refused why = Refused::kNot;
  std::string message;
  bool ok() const { return why == Refused::kNot; }
};

// As the runtime gives them: versions are 1000 * major + 10 * minor, `error` that of counting.
struct DriverState {
  int driver = 0;
  int runtime = 0;
  int error = 0;
  int devices = 0;
  std::string error_text = {};
};
// Are there `needed` devices? Pure.
Answer Judge(const DriverState& state, int needed);

// CUDA's numbers of the errors that mean something here; cuda_runtime.cc has them checked.
namespace runtime_error {
inline constexpr int kOldDriver = 35;
inline constexpr int kNoDevice = 100;
inline constexpr int kCantMap = 205;
inline constexpr int kCantReachPeer = 217;
inline constexpr int kOperatingSystem = 304;
inline constexpr int kStaleHandle = 400;
inline constexpr int kTooManyPeers = 711;
inline constexpr int kNotSupported = 801;
}  // namespace runtime_error

// Why memory could not be named to another process, or another one's not be opened; `words`: what
// the runtime says. kNoSharing, kNoPeerAccess, kDevice; each says what to do. Pure.
Answer JudgeSharing(int error, const std::string& words);

DriverState ReadDriverState();

// Of this boot: the same for all processes and containers of a machine; "": not told here.
std::string MachineId();

struct DeviceInfo {
  std::string name;
  std::string address;  // on its bus: the same for every process
  int major = 0;        // compute capability
  int minor = 0;
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  int64_t l2_bytes = 0;
};
// REQUIRES: index is one of DriverState's devices.
DeviceInfo DescribeDevice(int index);

// "ok()", or the runtime's words for an error of `operation`.
Answer FromRuntime(int error, const std::string& operation);

}  // namespace lockstep::gpu
