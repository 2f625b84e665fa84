// roster.h: what the ranks of a group tell each other before their kernels work together, and what
// follows from it, the same on every rank: where their memory is, or why they may not. Errors:
// FailedPrecondition, naming ranks, both sides and what to do. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::gpu {

struct Row {
  std::string machine;  // the same for all processes of one machine, and for no other
  std::string address;  // of the rank's GPU on its bus
  std::string ways;     // what it would launch
  int32_t process = 0;
  int32_t device = 0;                // index of its GPU in its process
  uint64_t key = 0;                  // local_ranks.h; 0: alone in its process
  std::vector<std::string> handles;  // of its memory, for other processes
};

// Of one length for all rows. InvalidArgument: too much to tell.
absl::StatusOr<std::string> EncodeRow(const Row& row);
// DataLoss: not what EncodeRow makes.
absl::StatusOr<Row> DecodeRow(const std::string& bytes);

enum class Layout : uint8_t { kOneProcess, kProcesses };
absl::StatusOr<Layout> LayoutOf(const std::vector<Row>& rows, bool share_gpu);

// "3 ranks take turns on GPU 0000:01:00.0: correctness only"; "": nothing to say.
std::string RemarksOn(const std::vector<Row>& rows, Layout layout);

// Before a run: can `ranks` processes have one of `devices` GPUs each?
absl::Status CheckRanksFit(int devices, int ranks, bool share_gpu);

}  // namespace lockstep::gpu
