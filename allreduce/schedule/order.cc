#include "allreduce/schedule/order.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/fingerprint.h"

namespace lockstep {
namespace {

using ExpressionId = int32_t;  // kNone: nothing there

// Sums of inputs, each kept once: equal ids are equal trees up to commutativity.
class Expressions {
 public:
  ExpressionId Input(int32_t rank) { return Keep({.lowest = rank, .left = kNone, .right = kNone}); }

  ExpressionId Sum(ExpressionId a, ExpressionId b) {
    if (a == kNone) return b;
    if (b == kNone) return a;
    if (At(b).lowest < At(a).lowest) std::swap(a, b);
    return Keep({.lowest = At(a).lowest, .left = a, .right = b});
  }

  std::string Text(ExpressionId id) const {
    if (id == kNone) return "nothing";
    std::string text;
    std::vector<Piece> rest = {{.id = id}};  // last first
    while (!rest.empty()) {
      const Piece piece = rest.back();
      rest.pop_back();
      if (piece.id == kNone) {
        text += piece.mark;
      } else if (IsInput(piece.id)) {
        absl::StrAppend(&text, "g", At(piece.id).lowest);
      } else {
        PushOperand(At(piece.id).right, &rest);
        rest.push_back({.mark = '+'});
        PushOperand(At(piece.id).left, &rest);
      }
    }
    return text;
  }

 private:
  struct Node {
    int32_t lowest = 0;  // of the ranks in it
    ExpressionId left = kNone;
    ExpressionId right = kNone;
    bool operator<(const Node& other) const {
      return std::tie(lowest, left, right) < std::tie(other.lowest, other.left, other.right);
    }
  };
  struct Piece {
    ExpressionId id = kNone;  // kNone: the mark
    char mark = ' ';
  };

  const Node& At(ExpressionId id) const { return nodes_[static_cast<size_t>(id)]; }

  bool IsInput(ExpressionId id) const { return At(id).left == kNone; }

  void PushOperand(ExpressionId id, std::vector<Piece>* rest) const {
    if (IsInput(id)) {
      rest->push_back({.id = id});
    } else {
      rest->insert(rest->end(), {{.mark = ')'}, {.id = id}, {.mark = '('}});
    }
  }

  ExpressionId Keep(const Node& node) {
    const auto [it, inserted] = ids_.try_emplace(node, static_cast<ExpressionId>(nodes_.size()));
    if (inserted) nodes_.push_back(node);
    return it->second;
  }

  std::vector<Node> nodes_;
  std::map<Node, ExpressionId> ids_;
};

// Runs a schedule on expressions. Slots are without bound: they decide when, never what.
class SymbolicRun {
 public:
  explicit SymbolicRun(const Schedule& schedule) : schedule_(schedule) {
    const auto chunks = static_cast<size_t>(schedule.chunks);
    cells_.resize(schedule.ranks.size());
    next_.resize(schedule.ranks.size());
    for (size_t r = 0; r < cells_.size(); ++r) {
      cells_[r].resize(chunks + static_cast<size_t>(schedule.scratch), kNone);
      next_[r].resize(schedule.ranks[r].size(), 0);
      const auto rank = static_cast<int32_t>(r);
      if (rank >= schedule.contributors) continue;
      std::fill_n(cells_[r].begin(), chunks, expressions_.Input(rank));
    }
    bool moved = true;
    while (moved) {
      moved = false;
      for (int32_t rank = 0; rank < schedule.world_size; ++rank) {
        for (size_t lane = 0; lane < schedule.ranks[static_cast<size_t>(rank)].size(); ++lane) {
          while (Step(rank, lane)) moved = true;
        }
      }
    }
    CheckFinished();
  }

  std::string Tree(int32_t chunk) const {
    std::vector<std::string> endings;  // by rank
    bool agree = true;
    for (int32_t rank = 0; rank < schedule_.contributors; ++rank) {
      const ExpressionId ending = Ending(rank, chunk);
      agree = agree && ending == Ending(0, chunk);
      endings.push_back(absl::StrCat("rank ", rank, " ", expressions_.Text(ending)));
    }
    if (agree) return expressions_.Text(Ending(0, chunk));
    return absl::StrCat("ranks disagree: ", absl::StrJoin(endings, ", "));
  }

 private:
  ExpressionId Ending(int32_t rank, int32_t chunk) const {
    return cells_[static_cast<size_t>(rank)][static_cast<size_t>(chunk)];
  }

  bool Step(int32_t rank, size_t lane_index) {
    const auto r = static_cast<size_t>(rank);
    const Lane& lane = schedule_.ranks[r][lane_index];
    size_t& next = next_[r][lane_index];
    if (next == lane.moves.size()) return false;
    const Move& move = lane.moves[next];
    if (move.wait_lane != kNone &&
        next_[r][static_cast<size_t>(move.wait_lane)] <= static_cast<size_t>(move.wait_move)) {
      return false;
    }
    std::vector<ExpressionId> values(static_cast<size_t>(move.count), kNone);
    if (move.recv_from != kNone) {
      auto& queue = wires_[{move.recv_from, rank, lane.channel}];
      if (queue.empty()) return false;
      values = std::move(queue.front());
      queue.pop_front();
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const auto cell = [&](int32_t first) -> ExpressionId& {
        return cells_[r][static_cast<size_t>(first) + i];
      };
      if (move.in != kNone) values[i] = expressions_.Sum(values[i], cell(move.in));
      if (move.fold) values[i] = expressions_.Sum(values[i], cell(move.out));
      if (move.out != kNone) cell(move.out) = values[i];
    }
    if (move.send_to != kNone) {
      wires_[{rank, move.send_to, lane.channel}].push_back(std::move(values));
    }
    ++next;
    return true;
  }

  void CheckFinished() const {
    for (size_t r = 0; r < next_.size(); ++r) {
      for (size_t lane = 0; lane < next_[r].size(); ++lane) {
        CHECK_EQ(next_[r][lane], schedule_.ranks[r][lane].moves.size())
            << "order: rank " << r << " lane " << lane << " stands still; verify the schedule";
      }
    }
  }

  const Schedule& schedule_;
  Expressions expressions_;
  std::vector<std::vector<ExpressionId>> cells_;  // [rank][chunk, then scratch]
  std::vector<std::vector<size_t>> next_;         // [rank][lane]: move
  std::map<std::array<int32_t, 3>, std::deque<std::vector<ExpressionId>>> wires_;
};

// Elements [first, first + count) that one tree makes.
struct Run {
  int64_t first = 0;
  int64_t count = 0;
  std::string tree;
};

std::string Text(int32_t ranks, const std::vector<Run>& runs) {
  const auto line = [](std::string* out, const Run& run) {
    absl::StrAppend(out, run.first, "-", run.first + run.count - 1, ": ", run.tree);
  };
  std::string text = absl::StrJoin(runs, "; ", line);
  if (ranks <= kOrderRanksMax && runs.size() <= kOrderRunsMax) return text;
  return absl::StrCat("xxh3:", Fingerprint(std::as_bytes(std::span(text))), ", ", ranks, " ranks, ",
                      runs.size(), " runs");
}

}  // namespace

std::string AdditionTree(const Schedule& schedule, int32_t chunk) {
  CHECK(chunk >= 0 && chunk < schedule.chunks) << "chunk " << chunk << " of " << schedule.chunks;
  return SymbolicRun(schedule).Tree(chunk);
}

std::string AdditionOrder(const Schedule& schedule, int64_t count) {
  const SymbolicRun run(schedule);
  std::vector<Run> runs;
  int64_t first = 0;
  for (int32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
    const int64_t length = count / schedule.chunks + (chunk < count % schedule.chunks ? 1 : 0);
    if (length == 0) break;  // so are all after it
    std::string tree = run.Tree(chunk);
    if (runs.empty() || runs.back().tree != tree) runs.push_back({first, 0, std::move(tree)});
    runs.back().count += length;
    first += length;
  }
  return Text(schedule.contributors, runs);
}

std::string RankOrder(int32_t n, int64_t count) {
  CHECK(n >= 1) << "RankOrder of " << n << " ranks";
  if (count == 0) return Text(n, {});
  Expressions expressions;
  ExpressionId sum = kNone;
  for (int32_t rank = 0; rank < n; ++rank) sum = expressions.Sum(sum, expressions.Input(rank));
  return Text(n, {{0, count, expressions.Text(sum)}});
}

}  // namespace lockstep
