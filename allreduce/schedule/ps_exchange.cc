#include "allreduce/schedule/ps_exchange.h"

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/assemble.h"
#include "base/check.h"

namespace lockstep {
namespace {

std::vector<Lane> WorkerLanes(const PsExchangeSpec& spec, int32_t worker) {
  std::vector<Lane> push;
  std::vector<Lane> pull;
  for (int32_t i = 0; i < spec.servers; ++i) {
    const int32_t server = (worker + i) % spec.servers;
    const int32_t rank = spec.workers + server;
    for (int32_t channel = 0; channel < spec.channels; ++channel) {
      const int32_t chunk = channel * spec.servers + server;
      push.push_back({channel, {{.send_to = rank, .in = chunk}}});
      // Overwrites what was pushed: the answer itself is the proof that the push is through.
      pull.push_back({channel, {{.recv_from = rank, .out = chunk}}});
    }
  }
  push.insert(push.end(), pull.begin(), pull.end());
  return push;
}

std::vector<Lane> ServerLanes(const PsExchangeSpec& spec, int32_t server) {
  std::vector<Lane> sum;
  std::vector<Lane> answer;
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    const int32_t chunk = channel * spec.servers + server;
    Lane& in = sum.emplace_back(Lane{channel, {}});
    Lane& out = answer.emplace_back(Lane{channel, {}});
    for (int32_t i = 0; i < spec.workers; ++i) {
      in.moves.push_back({.recv_from = i, .in = i == 0 ? kNone : chunk, .out = chunk});
      out.moves.push_back({.send_to = (server + i) % spec.workers, .in = chunk});
    }
    out.moves.front().wait_lane = static_cast<int8_t>(channel);
    out.moves.front().wait_move = spec.workers - 1;  // the last addition
  }
  sum.insert(sum.end(), answer.begin(), answer.end());
  return sum;
}

}  // namespace

std::vector<Lane> PsExchangeLanes(const PsExchangeSpec& spec, int32_t rank) {
  const int32_t n = spec.workers + spec.servers;
  CHECK(rank >= 0 && rank < n) << "rank " << rank << " of " << n;
  return rank < spec.workers ? WorkerLanes(spec, rank) : ServerLanes(spec, rank - spec.workers);
}

absl::StatusOr<Shape> PsExchangeShape(const PsExchangeSpec& spec) {
  if (spec.workers < 1 || spec.servers < 1 || spec.channels < 1 || spec.channels > kChannelsMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ps_exchange: workers ", spec.workers, ", servers ", spec.servers, " and channels ",
        spec.channels, " must all be at least 1, channels at most ", kChannelsMax));
  }
  return Shape{.world_size = spec.workers + spec.servers,
               .contributors = spec.workers,
               .chunks = spec.servers * spec.channels,
               .slots = 2};  // works with one; two let a tile arrive while the last one is summed
}

absl::StatusOr<Schedule> MakePsExchange(const PsExchangeSpec& spec) {
  return Assemble<PsExchangeSpec>({PsExchangeShape, PsExchangeLanes}, spec);
}

}  // namespace lockstep
