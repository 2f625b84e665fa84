#include "allreduce/nccl/roster.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "allreduce/nccl/api.h"
#include "base/status.h"

namespace lockstep::nccl {
namespace {

// A GPU's address is 12 characters; the rest is for variables.
constexpr size_t kRowBytes = 4096;

// They may differ between the ranks of one group: places, and what is printed.
constexpr std::array<const char*, 6> kOwn = {"NCCL_HOSTID",     "NCCL_SOCKET_IFNAME",
                                             "NCCL_IB_HCA",     "NCCL_DEBUG",
                                             "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"};

std::string NameOfVariable(const std::string& variable) {
  return variable.substr(0, variable.find('='));
}

std::optional<std::string> ValueOf(const std::vector<std::string>& variables,
                                   const std::string& name) {
  for (const std::string& variable : variables) {
    if (NameOfVariable(variable) == name) {
      return variable.size() == name.size() ? "" : variable.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

std::string Shown(const std::string& name, const std::optional<std::string>& value) {
  return value.has_value() ? absl::StrCat(name, "=", *value) : absl::StrCat("no ", name);
}

std::string Ranks(const std::vector<size_t>& ranks) {
  return absl::StrCat("rank ", absl::StrJoin(ranks, ", rank "));
}

std::string CudaVersion(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

constexpr char kInstead[] =
    "; lower workers, use another engine, or, to see nothing but that it works, write "
    "nccl { share_gpu: true }";

// [machine, GPU]: ranks on it.
std::map<std::pair<std::string, std::string>, std::vector<size_t>> RanksOfGpus(
    const std::vector<RosterRow>& rows, const std::vector<int>& seats) {
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> ranks;
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    const DeviceState& device = rows[rank].device;
    ranks[{device.machine, device.gpus[static_cast<size_t>(seats[rank])]}].push_back(rank);
  }
  return ranks;
}

// Without it NCCL finds out that they share a GPU, and fails.
absl::Status CheckHostIds(const std::vector<RosterRow>& rows, const std::vector<size_t>& sharing) {
  std::map<std::string, size_t> seen;
  for (const size_t rank : sharing) {
    const auto id = ValueOf(rows[rank].variables, "NCCL_HOSTID");
    if (!id.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("nccl: rank ", rank,
                       " shares a GPU, and its process has no NCCL_HOSTID; start it with "
                       "NCCL_HOSTID=rank",
                       rank));
    }
    const auto [other, first] = seen.insert({*id, rank});
    if (!first) {
      return absl::FailedPreconditionError(
          absl::StrCat("nccl: rank ", other->second, " and rank ", rank,
                       " share a GPU, and both have NCCL_HOSTID=", *id,
                       "; each needs a value and a process of its own"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> EncodeRow(const RosterRow& row) {
  std::string bytes(row.id.internal, sizeof(row.id.internal));
  absl::StrAppend(&bytes, "version ", row.version, "\ndriver ", row.device.driver, "\nruntime ",
                  row.device.runtime, "\nmachine ", row.device.machine, "\n");
  for (const std::string& gpu : row.device.gpus) absl::StrAppend(&bytes, "gpu ", gpu, "\n");
  for (const std::string& variable : row.variables) {
    if (variable.find('\n') != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("nccl: the variable ", NameOfVariable(variable), " has more than one line"));
    }
    absl::StrAppend(&bytes, "variable ", variable, "\n");
  }
  if (bytes.size() > kRowBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("nccl: this process's NCCL_* variables and GPUs take ", bytes.size(),
                     " bytes to tell, at most ", kRowBytes, "; unset some variables"));
  }
  bytes.resize(kRowBytes, '\0');
  return bytes;
}

absl::StatusOr<RosterRow> DecodeRow(const std::string& bytes) {
  RosterRow row;
  const absl::Status damaged = absl::DataLossError("nccl: a rank told something else than a row");
  if (bytes.size() != kRowBytes) return damaged;
  std::memcpy(row.id.internal, bytes.data(), sizeof(row.id.internal));
  const std::string text = bytes.substr(sizeof(row.id.internal));
  const std::string used = text.substr(0, text.find('\0'));
  for (const absl::string_view line : absl::StrSplit(used, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    const std::string& value = parts.second;
    bool understood = true;
    if (parts.first == "version") {
      understood = absl::SimpleAtoi(value, &row.version);
    } else if (parts.first == "driver") {
      understood = absl::SimpleAtoi(value, &row.device.driver);
    } else if (parts.first == "runtime") {
      understood = absl::SimpleAtoi(value, &row.device.runtime);
    } else if (parts.first == "machine") {
      row.device.machine = value;
    } else if (parts.first == "gpu") {
      row.device.gpus.push_back(value);
    } else if (parts.first == "variable") {
      row.variables.push_back(value);
    } else {
      understood = false;
    }
    if (!understood) return damaged;
  }
  return row.device.gpus.empty() ? absl::StatusOr<RosterRow>(damaged) : row;
}

absl::Status CheckAlike(const std::vector<RosterRow>& rows) {
  for (size_t rank = 1; rank < rows.size(); ++rank) {
    if (rows[rank].version != rows[0].version) {
      return absl::FailedPreconditionError(
          absl::StrCat("nccl: rank 0 has version ", VersionText(rows[0].version), ", rank ", rank,
                       " has ", VersionText(rows[rank].version), "; all ranks need the same"));
    }
    std::set<std::string> names;
    for (const size_t side : {size_t{0}, rank}) {
      for (const std::string& variable : rows[side].variables) {
        names.insert(NameOfVariable(variable));
      }
    }
    for (const std::string& name : names) {
      if (std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end()) continue;
      const auto first = ValueOf(rows[0].variables, name);
      const auto other = ValueOf(rows[rank].variables, name);
      if (first == other) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("nccl: rank 0 has ", Shown(name, first), ", rank ", rank, " has ",
                       Shown(name, other), "; set it alike for all ranks, or for none"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> SeatRanks(const std::vector<RosterRow>& rows, bool share_gpu) {
  std::vector<int> seats;
  std::map<std::string, size_t> on_machine;
  for (const RosterRow& row : rows) {
    const size_t place = on_machine[row.device.machine]++;
    seats.push_back(static_cast<int>(place % row.device.gpus.size()));
  }
  for (const auto& [gpu, ranks] : RanksOfGpus(rows, seats)) {
    if (ranks.size() == 1) continue;
    if (share_gpu) {
      RETURN_IF_ERROR(CheckHostIds(rows, ranks));
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "nccl: ", Ranks(ranks), " would share GPU ", gpu.second, ": NCCL needs one for each rank, ",
        on_machine[gpu.first], " ranks are on its machine and ", rows[ranks[0]].device.gpus.size(),
        " GPUs are visible to them", kInstead));
  }
  return seats;
}

std::string RemarksOn(const std::vector<RosterRow>& rows, const std::vector<int>& seats) {
  std::vector<std::string> remarks;
  for (const auto& [gpu, ranks] : RanksOfGpus(rows, seats)) {
    if (ranks.size() == 1) continue;
    remarks.push_back(
        absl::StrCat(ranks.size(), " ranks take turns on GPU ", gpu.second, ": correctness only"));
  }
  for (size_t rank = 1; rank < rows.size(); ++rank) {
    if (rows[rank].device.driver == rows[0].device.driver) continue;
    remarks.push_back(absl::StrCat("drivers differ: rank 0 has one for CUDA ",
                                   CudaVersion(rows[0].device.driver), ", rank ", rank, " one for ",
                                   CudaVersion(rows[rank].device.driver)));
    break;
  }
  return absl::StrJoin(remarks, "; ");
}

absl::Status CheckRanksFit(const DeviceState& device, int ranks, bool share_gpu) {
  const size_t gpus = device.gpus.size();
  if (share_gpu || static_cast<size_t>(ranks) <= gpus) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("nccl: ", ranks, " ranks on ", gpus,
                                                    gpus == 1 ? " GPU" : " GPUs",
                                                    ": NCCL needs one for each rank", kInstead));
}

absl::Status CheckRequired(const std::vector<std::string>& variables,
                           const std::vector<std::string>& required) {
  for (const std::string& wanted : required) {
    const std::string name = NameOfVariable(wanted);
    const auto value = ValueOf(variables, name);
    if (value.has_value() && absl::StrCat(name, "=", *value) == wanted) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "nccl: the variant asks for ", wanted, ", this process has ", Shown(name, value),
        "; NCCL reads it from the environment, so start the process with ", wanted));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::nccl
