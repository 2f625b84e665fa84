// roster.h: what the ranks of a group tell each other before NCCL connects them, and what follows
// from it, the same on every rank: who takes which GPU, and whether they may work together at all.
// NCCL refuses two ranks on one GPU only in the middle of its start, hangs where settings differ,
// and names no rank. Errors: FailedPrecondition, naming ranks, both sides and what to do. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/nccl/abi.h"
#include "allreduce/nccl/device.h"

namespace lockstep::nccl {

struct RosterRow {
  UniqueId id = {};  // rank 0's is the group's
  int version = 0;   // of NCCL
  DeviceState device;
  std::vector<std::string> variables;  // NCCL_*, "NAME=value"
};

// Of one length for all rows. InvalidArgument: too much to tell.
absl::StatusOr<std::string> EncodeRow(const RosterRow& row);
// DataLoss: not what EncodeRow makes.
absl::StatusOr<RosterRow> DecodeRow(const std::string& bytes);

// One version of NCCL, and the same NCCL_* variables, but for those that say where a process is and
// what it prints.
absl::Status CheckAlike(const std::vector<RosterRow>& rows);

// [rank]: index of its GPU among those that it sees. The k-th rank of a machine takes its k-th GPU;
// a rank that sees one alone takes that. Two ranks with one GPU are refused, unless `share_gpu`:
// then each of them must have a NCCL_HOSTID of its own.
absl::StatusOr<std::vector<int>> SeatRanks(const std::vector<RosterRow>& rows, bool share_gpu);

// "2 ranks on GPU 0000:01:00.0: correctness only", "drivers differ: ..."; "": nothing to say.
std::string RemarksOn(const std::vector<RosterRow>& rows, const std::vector<int>& seats);

// Before a run: can `ranks` ranks of this machine have a GPU each?
absl::Status CheckRanksFit(const DeviceState& device, int ranks, bool share_gpu);

// Does this process have what the variant asks for?
absl::Status CheckRequired(const std::vector<std::string>& variables,
                           const std::vector<std::string>& required);

}  // namespace lockstep::nccl
