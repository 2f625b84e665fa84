#include "allreduce/gpu/roster.h"

#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allreduce/cuda/runtime.h"
#include "base/status.h"

namespace lockstep::gpu {
namespace {

constexpr size_t kHandlesMax = 3;  // staging, and the memory of two kernels

struct PackedRow {
  char machine[64] = {};
  char address[32] = {};
  char ways[128] = {};
  uint64_t key = 0;
  int32_t process = 0;
  int32_t device = 0;
  uint32_t handle_count = 0;
  char handles[kHandlesMax][Runtime::kHandleBytes] = {};
};

template <size_t kSize>
bool Pack(const std::string& text, char (&target)[kSize]) {
  if (text.size() >= kSize) return false;
  std::memcpy(target, text.data(), text.size());
  return true;
}

template <size_t kSize>
std::string Unpack(const char (&source)[kSize]) {
  return std::string(source, strnlen(source, kSize));
}

constexpr char kInstead[] =
    "; use fewer ranks, another engine, or, for correctness only, cuda { share_gpu: true }";

// [address]: ranks there.
std::map<std::string, std::vector<size_t>> RanksOfGpus(const std::vector<Row>& rows) {
  std::map<std::string, std::vector<size_t>> ranks;
  for (size_t rank = 0; rank < rows.size(); ++rank) ranks[rows[rank].address].push_back(rank);
  return ranks;
}

std::string KeyText(const Row& row) {
  return row.key == 0 ? "alone in its process"
                      : absl::StrCat("one of several in process ", row.process);
}

}  // namespace

absl::StatusOr<std::string> EncodeRow(const Row& row) {
  PackedRow packed;
  packed.key = row.key;
  packed.process = row.process;
  packed.device = row.device;
  packed.handle_count = static_cast<uint32_t>(row.handles.size());
  bool fits = Pack(row.machine, packed.machine) && Pack(row.address, packed.address) &&
              Pack(row.ways, packed.ways) && row.handles.size() <= kHandlesMax;
  for (size_t i = 0; fits && i < row.handles.size(); ++i) {
    fits = row.handles[i].size() == Runtime::kHandleBytes;
    if (fits) std::memcpy(packed.handles[i], row.handles[i].data(), Runtime::kHandleBytes);
  }
  if (!fits) return absl::InvalidArgumentError("cuda: this rank's row is longer than all may be");
  return std::string(reinterpret_cast<const char*>(&packed), sizeof(packed));
}

absl::StatusOr<Row> DecodeRow(const std::string& bytes) {
  PackedRow packed;
  if (bytes.size() != sizeof(packed)) {
    return absl::DataLossError("cuda: a rank told something else than a row");
  }
  std::memcpy(&packed, bytes.data(), sizeof(packed));
  if (packed.handle_count > kHandlesMax || packed.address[0] == '\0') {
    return absl::DataLossError("cuda: a rank told a row that is damaged");
  }
  Row row;
  row.machine = Unpack(packed.machine);
  row.address = Unpack(packed.address);
  row.ways = Unpack(packed.ways);
  row.process = packed.process;
  row.device = packed.device;
  row.key = packed.key;
  for (uint32_t i = 0; i < packed.handle_count; ++i) {
    row.handles.emplace_back(packed.handles[i], Runtime::kHandleBytes);
  }
  return row;
}

absl::StatusOr<Layout> LayoutOf(const std::vector<Row>& rows, bool share_gpu) {
  const Row& first = rows[0];
  const auto refuse = [](size_t rank, const std::string& mine, const std::string& its,
                         const char* why) {
    return absl::FailedPreconditionError(
        absl::StrCat("cuda: rank 0 ", mine, ", rank ", rank, " ", its, ": ", why));
  };
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    if (!rows[rank].machine.empty()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "cuda: rank ", rank,
        " does not know its machine (/proc/sys/kernel/random/boot_id is not "
        "readable), so nobody knows whether all are on one; mount /proc, or use engine NCCL"));
  }
  for (size_t rank = 1; rank < rows.size(); ++rank) {
    const Row& row = rows[rank];
    if (row.machine != first.machine) {
      return refuse(rank, "is on one machine", "on another",
                    "kernels write into each other's memory; use engine NCCL or HOST");
    }
    if (row.ways != first.ways) {
      return refuse(rank, absl::StrCat("would launch ", first.ways),
                    absl::StrCat("would launch ", row.ways), "all ranks need the same");
    }
    if ((row.key == 0) != (first.key == 0) || (row.key != 0 && row.process != first.process)) {
      return refuse(rank, absl::StrCat("is ", KeyText(first)), absl::StrCat("is ", KeyText(row)),
                    "either all ranks are in one process, or each in its own");
    }
  }
  for (const auto& [address, ranks] : RanksOfGpus(rows)) {
    if (ranks.size() == 1 || share_gpu) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("cuda: rank ", absl::StrJoin(ranks, ", rank "), " would share GPU ", address,
                     ": each rank needs one", kInstead));
  }
  return first.key == 0 ? Layout::kProcesses : Layout::kOneProcess;
}

std::string RemarksOn(const std::vector<Row>& rows, Layout layout) {
  std::vector<std::string> remarks;
  for (const auto& [address, ranks] : RanksOfGpus(rows)) {
    if (ranks.size() == 1) continue;
    remarks.push_back(
        layout == Layout::kProcesses
            ? absl::StrCat(ranks.size(), " ranks take turns on GPU ", address, ": correctness only")
            : absl::StrCat(ranks.size(), " ranks share GPU ", address));
  }
  return absl::StrJoin(remarks, "; ");
}

absl::Status CheckRanksFit(int devices, int ranks, bool share_gpu) {
  if (share_gpu || ranks <= devices) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("cuda: ", ranks, " ranks on ", devices,
                                                    devices == 1 ? " GPU" : " GPUs",
                                                    ": each needs one", kInstead));
}

}  // namespace lockstep::gpu
