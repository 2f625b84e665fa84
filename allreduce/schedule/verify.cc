#include "allreduce/schedule/verify.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allreduce/schedule/machine.h"
#include "base/check.h"

namespace lockstep {
namespace {

// Looks for indices out of range and for connection ends with two owners, before anything runs.
class ShapeCheck {
 public:
  ShapeCheck(const Schedule& schedule, VerifyReport* report)
      : schedule_(schedule), report_(report) {}

  void CheckAll() {
    if (schedule_.slots < 1) Add(kNone, kNone, kNone, "slots must be at least 1");
    if (static_cast<int32_t>(schedule_.ranks.size()) != schedule_.world_size) {
      Add(kNone, kNone, kNone,
          absl::StrCat("holds lanes of ", schedule_.ranks.size(), " ranks, world_size is ",
                       schedule_.world_size));
      return;
    }
    for (int32_t rank = 0; rank < schedule_.world_size; ++rank) {
      const std::vector<Lane>& lanes = schedule_.ranks[static_cast<size_t>(rank)];
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        for (size_t move = 0; move < lanes[lane].moves.size(); ++move) {
          CheckMove(rank, static_cast<int32_t>(lane), static_cast<int32_t>(move));
        }
      }
    }
  }

 private:
  void Add(int32_t rank, int32_t lane, int32_t move, const std::string& what) {
    report_->Add({Fault::kMalformed, rank, lane, move, what});
  }

  void CheckMove(int32_t rank, int32_t lane_index, int32_t index) {
    const std::vector<Lane>& lanes = schedule_.ranks[static_cast<size_t>(rank)];
    const Lane& lane = lanes[static_cast<size_t>(lane_index)];
    const Move& move = lane.moves[static_cast<size_t>(index)];
    const auto bad = [&](const std::string& what) { Add(rank, lane_index, index, what); };
    for (const int32_t peer : {move.recv_from, move.send_to}) {
      if (peer == kNone) continue;
      if (peer < 0 || peer >= schedule_.world_size || peer == rank) {
        bad(absl::StrCat("peer ", peer, " is not another rank"));
      }
    }
    if (move.count < 1) bad(absl::StrCat("count ", move.count, " is less than 1"));
    if (move.fold && move.out == kNone) bad("folds what out holds, and has no out");
    for (const int32_t first : {move.in, move.out}) {
      if (first != kNone) CheckChunks(rank, lane_index, index, first, move.count);
    }
    if (move.wait_lane != kNone && !LaneHasMove(lanes, move.wait_lane, move.wait_move)) {
      bad(absl::StrCat("waits for lane ", move.wait_lane, " move ", move.wait_move,
                       ", which does not exist"));
    }
    Own(&senders_, {rank, move.send_to, lane.channel}, move.send_to, rank, lane_index, index);
    Own(&receivers_, {move.recv_from, rank, lane.channel}, move.recv_from, rank, lane_index, index);
  }

  void CheckChunks(int32_t rank, int32_t lane, int32_t move, int32_t first, int32_t count) {
    const std::string range = absl::StrCat("chunks ", first, "..", first + count - 1);
    if (first < 0 || first + count > schedule_.chunks + schedule_.scratch) {
      Add(rank, lane, move, absl::StrCat(range, " do not exist"));
      return;
    }
    if (first + count <= schedule_.chunks) return;
    if (first < schedule_.chunks) {
      Add(rank, lane, move, absl::StrCat(range, " are data and scratch"));
    }
    for (int32_t chunk = first; chunk < first + count; ++chunk) {
      const auto [it, inserted] = scratch_users_.try_emplace({rank, chunk}, lane);
      if (!inserted && it->second != lane) {
        Add(rank, lane, move,
            absl::StrCat("uses scratch chunk ", chunk, ", which is lane ", it->second, "'s"));
      }
    }
  }

  static bool LaneHasMove(const std::vector<Lane>& lanes, int32_t lane, int32_t move) {
    return lane >= 0 && lane < static_cast<int32_t>(lanes.size()) && move >= 0 &&
           move < static_cast<int32_t>(lanes[static_cast<size_t>(lane)].moves.size());
  }

  using Ends = std::map<std::array<int32_t, 3>, int32_t>;  // connection -> owning lane
  void Own(Ends* ends, const std::array<int32_t, 3>& key, int32_t peer, int32_t rank, int32_t lane,
           int32_t move) {
    if (peer == kNone) return;
    const auto [it, inserted] = ends->try_emplace(key, lane);
    if (!inserted && it->second != lane) {
      Add(rank, lane, move,
          absl::StrCat("uses the connection ", key[0], " -> ", key[1], " channel ", key[2],
                       " that lane ", it->second, " owns"));
    }
  }

  const Schedule& schedule_;
  VerifyReport* const report_;
  Ends senders_;
  Ends receivers_;
  std::map<std::pair<int32_t, int32_t>, int32_t> scratch_users_;  // (rank, chunk) -> lane
};

using Marks = std::vector<std::vector<uint8_t>>;  // [rank][chunk]

Marks AllOf(const Schedule& schedule, uint8_t value) {
  return Marks(static_cast<size_t>(schedule.world_size),
               std::vector<uint8_t>(static_cast<size_t>(schedule.chunks), value));
}

Marks OneRanks(const Schedule& schedule, int32_t rank) {
  Marks marks = AllOf(schedule, 0);
  for (uint8_t& chunk : marks[static_cast<size_t>(rank)]) chunk = 1;
  return marks;
}

Marks PartOfEach(const Schedule& schedule) {
  Marks marks = AllOf(schedule, 0);
  const size_t n = marks.size();
  for (size_t rank = 0; rank < n; ++rank) {
    for (size_t chunk = rank; chunk < marks[rank].size(); chunk += n) marks[rank][chunk] = 1;
  }
  return marks;
}

}  // namespace

const char* NameOf(Fault fault) {
  switch (fault) {
    case Fault::kMalformed:
      return "malformed";
    case Fault::kDoubleCount:
      return "double count";
    case Fault::kDifferentChunks:
      return "different chunks";
    case Fault::kEmptyValue:
      return "empty value";
    case Fault::kSizeMismatch:
      return "size mismatch";
    case Fault::kDeadlock:
      return "deadlock";
    case Fault::kUnreadMessage:
      return "unread message";
    case Fault::kWrongFinalValue:
      return "wrong final value";
    case Fault::kRace:
      return "race";
    case Fault::kEarlyEnd:
      return "early end";
  }
  return "unknown";
}

Goal AllReduceGoal(const Schedule& schedule) {
  Marks contributes = AllOf(schedule, 0);
  for (int32_t rank = 0; rank < schedule.contributors; ++rank) {
    for (uint8_t& chunk : contributes[static_cast<size_t>(rank)]) chunk = 1;
  }
  return {contributes, contributes};
}

Goal BroadcastGoal(const Schedule& schedule, int32_t root) {
  CHECK(root >= 0 && root < schedule.world_size) << "root " << root;
  return {OneRanks(schedule, root), AllOf(schedule, 1)};
}

absl::StatusOr<Goal> GoalOf(Collective collective, const Schedule& schedule, int32_t root) {
  const int32_t n = schedule.world_size;
  if (root < 0 || root >= n) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(collective), ": root ", root, " is no rank of 0..", n - 1));
  }
  const bool parts =
      collective == Collective::kReduceScatter || collective == Collective::kAllGather;
  if (parts && schedule.chunks % n != 0) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(collective), ": ", schedule.chunks,
                                                   " chunks are no multiple of ", n, " ranks"));
  }
  switch (collective) {
    case Collective::kAllReduce:
      return AllReduceGoal(schedule);
    case Collective::kReduce:
      return Goal{AllOf(schedule, 1), OneRanks(schedule, root)};
    case Collective::kBroadcast:
      return BroadcastGoal(schedule, root);
    case Collective::kReduceScatter:
      return Goal{AllOf(schedule, 1), PartOfEach(schedule)};
    case Collective::kAllGather:
      return Goal{PartOfEach(schedule), AllOf(schedule, 1)};
    case Collective::kBarrier:
      return Goal{AllOf(schedule, 1), AllOf(schedule, 0), /*meets=*/true};
  }
  return absl::InvalidArgumentError(absl::StrCat("no goal of ", NameOf(collective)));
}

void VerifyReport::Add(Finding finding) {
  if (static_cast<int32_t>(findings.size()) < kFindingsMax) findings.push_back(std::move(finding));
}

bool VerifyReport::Has(Fault fault) const {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& finding) { return finding.fault == fault; });
}

absl::Status VerifyReport::ToStatus() const {
  if (findings.empty()) return absl::OkStatus();
  const auto line = [](std::string* out, const Finding& finding) {
    absl::StrAppend(out, NameOf(finding.fault), ": rank ", finding.rank, " lane ", finding.lane,
                    " move ", finding.move, ": ", finding.what);
  };
  return absl::FailedPreconditionError(absl::StrJoin(findings, "\n", line));
}

VerifyReport Verify(const Schedule& schedule, const Goal& goal) {
  VerifyReport report;
  ShapeCheck(schedule, &report).CheckAll();
  if (!report.findings.empty()) return report;
  CHECK_EQ(goal.holds.size(), schedule.ranks.size()) << "the goal is of another world";
  CHECK_EQ(goal.wants.size(), schedule.ranks.size()) << "the goal is of another world";
  VerifyMachine(schedule, goal, &report).Run();
  return report;
}

}  // namespace lockstep
