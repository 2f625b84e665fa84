#include "allreduce/cuda/diagnosis.h"

#include <algorithm>
#include <set>

namespace lockstep::gpu {
namespace {

const char* NameOf(WaitFor wait_for) {
  switch (wait_for) {
    case WaitFor::kMessage:
      return "message";
    case WaitFor::kSlot:
      return "slot";
    case WaitFor::kMeeting:
      return "arrival";
    case WaitFor::kPacket:
      return "packet";
  }
  return "unknown";
}

bool Waits(const RankReport& block) {
  return block.report.outcome == Outcome::kTimedOut || block.report.outcome == Outcome::kStopped;
}

bool Reports(const std::vector<RankReport>& reports, int32_t rank) {
  return std::any_of(reports.begin(), reports.end(),
                     [&](const RankReport& block) { return block.rank == rank; });
}

std::string RankText(int32_t rank) { return "rank " + std::to_string(rank); }
std::string WithinText(int64_t timeout_ms) {
  return " within " + std::to_string(timeout_ms) + " ms";
}

// One of each rank's waits for a peer, the blamed one alone where there is one.
std::string WaitsText(const std::vector<RankReport>& reports, const int32_t* blamed) {
  std::string text;
  std::set<int32_t> told;
  for (const RankReport& block : reports) {
    if (!Waits(block) || (blamed != nullptr && block.report.peer != *blamed)) continue;
    if (!told.insert(block.rank).second) continue;
    text += text.empty() ? ": " : "; ";
    text += RankText(block.rank) + " waits for ";
    text += blamed != nullptr ? "its " : "a ";
    text += NameOf(block.report.wait_for);
    if (blamed == nullptr) text += " of " + RankText(block.report.peer);
  }
  return text;
}

}  // namespace

std::vector<int32_t> BlamedRanks(const std::vector<RankReport>& reports) {
  std::set<int32_t> waiting;
  std::set<int32_t> waited_for;
  std::set<int32_t> silent;
  for (const RankReport& block : reports) {
    if (Waits(block)) {
      waiting.insert(block.rank);
      waited_for.insert(block.report.peer);
    } else if (block.report.outcome == Outcome::kNothing) {
      silent.insert(block.rank);
    }
  }
  std::vector<int32_t> blamed;
  std::set_difference(waited_for.begin(), waited_for.end(), waiting.begin(), waiting.end(),
                      std::back_inserter(blamed));
  if (blamed.empty()) blamed.assign(silent.begin(), silent.end());
  return blamed;
}

std::string Diagnose(const std::vector<RankReport>& reports, int64_t timeout_ms) {
  const bool all_done = std::all_of(reports.begin(), reports.end(), [](const RankReport& block) {
    return block.report.outcome == Outcome::kDone;
  });
  if (all_done) return "";
  const std::vector<int32_t> blamed = BlamedRanks(reports);
  if (blamed.empty()) {
    return "no rank got on" + WithinText(timeout_ms) + WaitsText(reports, nullptr);
  }
  std::string text;
  for (const int32_t rank : blamed) {
    const std::string waits = WaitsText(reports, &rank);
    if (!text.empty()) text += "; ";
    text += RankText(rank);
    text += waits.empty() ? " did not come to its end" : " did not answer";
    text += WithinText(timeout_ms) + waits;
    if (!Reports(reports, rank)) text += " (of another process, where it may wait, too)";
  }
  return text;
}

}  // namespace lockstep::gpu
