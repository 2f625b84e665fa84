#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/cost_forms.h"

namespace lockstep {
namespace {

double ChildrenOf(double n) { return std::min(2.0, n - 1); }
double Square(double x) { return x * x; }
double Share(double part, double whole) { return part < whole ? part / whole : 1; }

// A binary tree of which the lowest level may be incomplete.
struct TreeLevels {
  double height = 0;    // messages on the way from the farthest leaf
  double complete = 0;  // levels at which ranks have all children, as a fraction for those between
};

TreeLevels LevelsOf(double n) {
  const double height = std::floor(std::log2(n));
  return {height, n == 2 ? 1 : std::log2((n + 1) / 2)};
}

// The lone children of an incomplete level hide behind the pairs of the others where ports are what
// counts (weight 0) and are one more message on the way where latency or additions are (1).
double LevelsThatCount(const TreeLevels& levels, double weight) {
  const double complete = std::min(levels.complete, levels.height);
  return complete + (levels.height - complete) * Square(weight);
}

double UpNs(double n, const Piece& piece) {
  const double level_ns =
      piece.port_ns + piece.add_ns + (ChildrenOf(n) - 1) * std::max(piece.port_ns, piece.add_ns);
  return LevelsThatCount(LevelsOf(n), Share(piece.add_ns, piece.port_ns)) * level_ns;
}

double DownNs(double n, const Piece& piece) {
  return LevelsOf(n).complete * ChildrenOf(n) * piece.port_ns;
}

// An inner rank has the next slot before it adds; there is none with three ranks.
double CycleAdds(double n) { return n > 3 ? 2 : 1; }
// Its port is shared with the other way's messages.
double CyclePorts(double n) { return n > 3 ? 2 : 1; }

// How much the waits for slots count against the busiest port.
double SlotsWeight(const CostCase& call, const Pipeline& pipeline, const Piece& piece) {
  return Share(CycleNs(call, pipeline, piece), kPipelineSlots * BusyNs(pipeline, piece));
}

// Up to the root, down from it, or both. `messages`: of a piece, at the busiest port.
ClosedForm HeapForm(const CostCase& call, bool up, bool down, double messages) {
  const double n = call.n();
  const Pieces pieces = PiecesOf(call, 1.0 / kTreeChunksPerChannel, kTreeChunksPerChannel);
  const Pipeline pipeline{.ports = messages,
                          .adds = up ? ChildrenOf(n) : 0,
                          .cycle_ports = up && down ? CyclePorts(n) : 1,
                          .cycle_adds = up ? CycleAdds(n) : 0};
  const double ways = (up ? 1 : 0) + (down ? 1 : 0);
  const double latencies =
      ways * LevelsThatCount(LevelsOf(n), SlotsWeight(call, pipeline, pieces.full));
  const double first_ns = latencies * call.cost.latency_ns + (up ? UpNs(n, pieces.full) : 0) +
                          (down ? DownNs(n, pieces.full) : 0);
  return {
      .time_ns = PipelineNs(call, first_ns, pipeline, pieces),
      .formula = absl::StrCat(ways, "*floor(log2(n))*L + ", 2 * ways, "*log2((n+1)/2)*(o + b*beta)",
                              up ? " + floor(log2(n))*b*gamma" : "", " + (k-1)*max(", messages,
                              "*(o + b*beta), (alpha + b*beta)/2), b = S/k in k pieces"),
      .approximate = true};
}

// Every inner rank takes from one and gives to one.
ClosedForm ChainForm(const CostCase& call) {
  const double n = call.n();
  const bool adds = call.spec.collective == Collective::kReduce;
  const Pieces pieces = PiecesOf(call, 1.0 / kChainChunksPerChannel, kChainChunksPerChannel);
  // A rank with two neighbours has the next slot before it adds.
  const Pipeline pipeline{.adds = adds ? 1.0 : 0.0, .cycle_adds = !adds ? 0.0 : n > 2 ? 2.0 : 1.0};
  const double hop_ns =
      call.cost.latency_ns + pieces.full.port_ns + (adds ? pieces.full.add_ns : 0);
  return {.time_ns = PipelineNs(call, (n - 1) * hop_ns, pipeline, pieces),
          .formula = absl::StrCat("(n-1)*(alpha + b*beta", adds ? " + b*gamma" : "",
                                  ") + (k-1)*max(o + b*beta, (alpha + b*beta",
                                  adds ? " + 2b*gamma" : "", ")/2), b = S/k in k pieces"),
          .approximate = true};
}

ClosedForm FanForm(const CostCase& call) {
  const double peers = call.n() - 1;
  const bool adds = call.spec.collective == Collective::kReduce;
  const Pieces pieces = PiecesOf(call, 1);
  const Pipeline pipeline{.ports = peers, .adds = adds ? peers : 0, .cycle_adds = adds ? 1.0 : 0.0};
  const double first_ns = call.cost.latency_ns + BusyNs(pipeline, pieces.full) +
                          (adds ? std::min(pieces.full.port_ns, pieces.full.add_ns) : 0);
  return {.time_ns = PipelineNs(call, first_ns, pipeline, pieces),
          .formula = absl::StrCat("L + (n-1)*(o + S*beta)", adds ? " + S*gamma" : ""),
          .approximate = !pieces.one()};
}

}  // namespace

ClosedForm TreeForm(const CostCase& call) {
  const double n = call.n();
  return HeapForm(call, /*up=*/true, /*down=*/true, n < 3 ? 1 : n < 5 ? 2 : 3);
}

ClosedForm RootedForm(const CostCase& call) {
  if (call.spec.algorithm == Algorithm::kRing) return ChainForm(call);
  if (call.spec.algorithm == Algorithm::kStar) return FanForm(call);
  const bool up = call.spec.collective == Collective::kReduce;
  return HeapForm(call, up, !up, ChildrenOf(call.n()));
}

ClosedForm DoubleTreeForm(const CostCase& call) {
  const double n = call.n();
  const double height = LevelsOf(n).height;
  const double children = ChildrenOf(n);
  const double chunks = kTreeChunksPerChannel;
  const Pieces pieces = PiecesOf(call, 1 / (2 * chunks), chunks);  // one of each tree
  const Piece& piece = pieces.full;
  const double messages = std::min(4.0, n);  // of both trees' pieces, at the busiest port
  const Pipeline pipeline{.ports = messages,
                          .adds = children,
                          .cycle_ports = CyclePorts(n),
                          .cycle_adds = CycleAdds(n)};
  // The first piece meets other pieces where ports are what counts, and only its own where
  // additions or slots are.
  const double by_port_ns = (messages + 3 * std::max(0.0, height - 2)) * piece.port_ns;
  const double by_add_ns = height * ((1 + children) * piece.port_ns + children * piece.add_ns);
  const double adds_weight = Share(children * piece.add_ns, messages * piece.port_ns);
  const double latencies = (1.25 + 0.75 * SlotsWeight(call, pipeline, piece)) * height;
  const double first_ns =
      latencies * call.cost.latency_ns + (1 - adds_weight) * by_port_ns + adds_weight * by_add_ns;
  return {.time_ns = PipelineNs(call, first_ns, pipeline, pieces),
          .formula =
              "2*floor(log2(n))*L + (4 + 3*max(0, floor(log2(n))-2))*(o + b*beta) + "
              "floor(log2(n))*2*b*gamma"
              " + (k-1)*max(4*(o + b*beta), (alpha + b*beta)/2), b = S/(2k) in 2k pieces",
          .approximate = true};
}

}  // namespace lockstep
