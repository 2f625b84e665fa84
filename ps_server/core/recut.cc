// Recut: a shard out of the states of shards that were cut otherwise.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "ps_server/core/shard_state.h"

namespace lockstep {
namespace {

int64_t CountOf(const ShardState& state) {
  return state.parameters == nullptr ? 0 : static_cast<int64_t>(state.parameters->size());
}

size_t SlotsOf(const ShardState& state) {
  return state.parameters == nullptr || state.parameters->empty()
             ? 0
             : state.optimizer_state.size() / state.parameters->size();
}

absl::Status CheckPart(const ShardState& first, const ShardState& part) {
  const std::string name = absl::StrCat("shard ", part.shard, ", version ", part.version);
  const std::string whole = absl::StrCat("shard ", first.shard, ", version ", first.version);
  if (part.layout != first.layout) {
    return absl::FailedPreconditionError(absl::StrCat(name, " and ", whole,
                                                      " are of different runs: layout ",
                                                      part.layout, " and ", first.layout));
  }
  // Asynchronous shards count their own updates, and so do those that apply late pushes.
  const bool ends_rounds = part.round > 0 || first.round > 0;
  const bool same = ends_rounds ? part.round == first.round : part.version == first.version;
  if (!same && first.staleness.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(name, " and ", whole, " are not of one cut"));
  }
  const auto count = static_cast<size_t>(CountOf(part));
  const bool fits = count > 0 && part.offset >= 0 && SlotsOf(part) == SlotsOf(first) &&
                    part.optimizer_state.size() == SlotsOf(part) * count &&
                    (part.previous == nullptr || part.previous->size() == count) &&
                    part.workers.size() == first.workers.size() &&
                    part.staleness.size() == first.staleness.size();
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": ", count, " parameters at ", part.offset, ", ", part.optimizer_state.size(),
      " optimizer values, ", part.workers.size(), " workers, ", part.staleness.size(),
      " staleness marks do not go with those of ", whole));
}

// A range of the flat space, and the part that has it.
struct Piece {
  const ShardState* part = nullptr;
  int64_t begin = 0;  // in the part
  int64_t count = 0;
};

absl::StatusOr<std::vector<Piece>> Cover(std::span<const ShardState> parts, int64_t offset,
                                         int64_t count) {
  std::vector<Piece> pieces;
  const int64_t end = offset + count;
  for (int64_t at = offset; at < end;) {
    const auto found = std::find_if(parts.begin(), parts.end(), [at](const ShardState& part) {
      return part.offset <= at && at < part.offset + CountOf(part);
    });
    if (found == parts.end()) {
      return absl::NotFoundError(absl::StrCat("element ", at, " of [", offset, ", ", end,
                                              ") is in none of the ", parts.size(),
                                              " states: a shard is missing"));
    }
    const int64_t next = std::min(end, found->offset + CountOf(*found));
    pieces.push_back({&*found, at - found->offset, next - at});
    at = next;
  }
  return pieces;
}

void Append(const std::vector<float>& values, int64_t begin, int64_t count,
            std::vector<float>* target) {
  target->insert(target->end(), values.begin() + begin, values.begin() + begin + count);
}

// Each worker's mark from the part where it is least far.
void LeastMarks(std::span<const ShardState> parts, ShardState* state) {
  state->workers = parts.front().workers;
  state->staleness = parts.front().staleness;
  for (const ShardState& part : parts.subspan(1)) {
    for (size_t r = 0; r < state->workers.size(); ++r) {
      WorkerMark& mark = state->workers[r];
      const int64_t incarnation = std::max(mark.incarnation, part.workers[r].incarnation);
      if (part.workers[r].last_step < mark.last_step) {
        mark = part.workers[r];
        if (!state->staleness.empty()) state->staleness[r] = part.staleness[r];
      }
      mark.incarnation = incarnation;
    }
  }
  if (state->staleness.empty()) return;
  // Counts of reads that contained more than what is taken for applied are cut down to that.
  int64_t applied = 0;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const WorkerMark& mark : state->workers) {
    applied += mark.last_step;
    least = std::min(least, mark.last_step);
  }
  state->version = applied;
  state->previous_version = 0;
  for (const WorkerMark& mark : state->workers) {
    state->previous_version += std::min(mark.last_step, state->previous_step);
  }
  for (size_t r = 0; r < state->workers.size(); ++r) {
    StalenessMark& mark = state->staleness[r];
    mark.applied = state->workers[r].last_step;
    mark.others_at_read = std::min(mark.others_at_read, applied - mark.applied);
    mark.slowest_at_read = std::min(mark.slowest_at_read, least);
  }
}

}  // namespace

absl::StatusOr<ShardState> Recut(std::span<const ShardState> parts, int32_t shard, int64_t offset,
                                 int64_t count) {
  if (parts.empty() || offset < 0 || count < 1 ||
      count > std::numeric_limits<int64_t>::max() - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("elements [", offset, ", +", count, ") out of ", parts.size(), " states"));
  }
  for (const ShardState& part : parts) RETURN_IF_ERROR(CheckPart(parts.front(), part));
  ASSIGN_OR_RETURN(const std::vector<Piece> pieces, Cover(parts, offset, count));
  ShardState state;
  state.shard = shard;
  state.offset = offset;
  state.layout = parts.front().layout;
  state.version = parts.front().version;
  for (const ShardState& part : parts) state.version = std::max(state.version, part.version);
  state.round = parts.front().round;
  std::vector<float> parameters;
  std::vector<float> previous;
  const int64_t previous_step = parts.front().previous_step;
  bool all_have_previous = true;  // that of one step
  for (const Piece& piece : pieces) {
    Append(*piece.part->parameters, piece.begin, piece.count, &parameters);
    all_have_previous = all_have_previous && piece.part->previous != nullptr &&
                        piece.part->previous_step == previous_step;
    if (all_have_previous) Append(*piece.part->previous, piece.begin, piece.count, &previous);
  }
  for (size_t slot = 0; slot < SlotsOf(parts.front()); ++slot) {
    for (const Piece& piece : pieces) {
      const auto stride = static_cast<int64_t>(slot) * CountOf(*piece.part);
      Append(piece.part->optimizer_state, stride + piece.begin, piece.count,
             &state.optimizer_state);
    }
  }
  state.parameters = std::make_shared<const std::vector<float>>(std::move(parameters));
  if (all_have_previous) {
    state.previous = std::make_shared<const std::vector<float>>(std::move(previous));
    state.previous_step = previous_step;
    state.previous_version = parts.front().previous_version;
  }
  LeastMarks(parts, &state);
  return state;
}

}  // namespace lockstep
