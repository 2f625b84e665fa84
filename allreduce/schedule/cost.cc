#include "allreduce/schedule/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <queue>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/cost_forms.h"
#include "allreduce/schedule/fold_in.h"
#include "allreduce/schedule/hierarchical.h"

namespace lockstep {
namespace {

// When the last of n ranks can know what one of them knew: everybody who knows it tells others, one
// each `overhead`, and they know it `alpha` after. Paper: Karp, Sahay, Santos, Schauser, SPAA 1993.
double SpreadNs(int32_t n, const CostModel& cost) {
  // The moments at which a rank that knows it has told the next one.
  std::priority_queue<double, std::vector<double>, std::greater<>> told;
  told.push(cost.alpha_ns());
  double now = 0;
  for (int32_t knowing = 1; knowing < n; ++knowing) {
    now = told.top();
    told.pop();
    told.push(now + cost.overhead_ns);
    told.push(now + cost.alpha_ns());
  }
  return now;
}

int32_t ContributorsOf(const ScheduleSpec& spec) {
  const bool apart =
      spec.algorithm == Algorithm::kPsExchange && spec.placement != Placement::kColocated;
  return apart ? spec.world_size - spec.servers : spec.world_size;
}

// Bytes that some port must carry, by counting what must cross all of them; of S = 1.
double PortShare(const ScheduleSpec& spec) {
  const double n = ContributorsOf(spec);
  switch (spec.collective) {
    case Collective::kAllReduce:  // a chunk is gathered in n - 1 messages, spread in n - 1
      return std::max(1.0, 2 * (n - 1) / spec.world_size);
    case Collective::kReduce:
    case Collective::kBroadcast:
      return 1;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return (n - 1) / n;
    case Collective::kBarrier:
      return 0;
  }
  return 0;
}

bool Adds(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

ClosedForm RingForm(const CostCase& call) {
  const double n = call.n();
  const double share = 1 / n;
  switch (call.spec.collective) {
    case Collective::kReduceScatter:
      return RoundsForm(call, {{share, true, n - 1}}, share,
                        "(n-1)*alpha + (n-1)/n*S*(beta + gamma)");
    case Collective::kAllGather:
      return RoundsForm(call, {{share, false, n - 1}}, share, "(n-1)*alpha + (n-1)/n*S*beta");
    default:
      return RoundsForm(call, {{share, true, n - 1}, {share, false, n - 1}}, share,
                        "2(n-1)*alpha + 2(n-1)/n*S*beta + (n-1)/n*S*gamma");
  }
}

ClosedForm HalvingDoublingForm(const CostCase& call) {
  const FoldIn fold_in(call.spec.world_size);
  const double p = fold_in.positions;
  std::vector<Round> rounds;
  for (double share = 0.5; share * p >= 1; share /= 2) {
    rounds.push_back({share, true, 1});
    rounds.push_back({share, false, 1});
  }
  if (fold_in.folded == 0) {
    return RoundsForm(call, rounds, 1 / p, "2*log2(n)*alpha + 2(n-1)/n*S*beta + (n-1)/n*S*gamma");
  }
  // The others first fold into one and get the result from it.
  rounds.push_back({1, true, 1});
  rounds.push_back({1, false, 1});
  ClosedForm form = RoundsForm(
      call, rounds, 1 / p,
      "(2*log2(p)+2)*alpha + (2(p-1)/p+2)*S*beta + ((p-1)/p+1)*S*gamma, p = bit_floor(n)");
  form.approximate = true;
  if (2 * fold_in.folded < fold_in.positions) {  // its partners' first halves meet the folded input
    form.time_ns +=
        call.bytes / 2 * std::min(call.cost.beta_ns_per_byte, call.cost.gamma_ns_per_byte);
  }
  return form;
}

ClosedForm RecursiveDoublingForm(const CostCase& call) {
  const FoldIn fold_in(call.spec.world_size);
  const double rounds = std::bit_width(static_cast<uint32_t>(fold_in.positions)) - 1;
  if (fold_in.folded == 0) {
    return RoundsForm(call, {{1, true, rounds}}, 1, "log2(n)*(alpha + S*beta + S*gamma)");
  }
  if (2 * fold_in.folded > fold_in.positions) {
    ClosedForm form =
        RoundsForm(call, {{1, true, rounds + 1}, {1, false, 1}}, 1,
                   "(log2(p)+2)*(alpha + S*beta) + (log2(p)+1)*S*gamma, p = bit_floor(n)");
    form.approximate = true;
    return form;
  }
  // With few folded ranks those who must answer one are not those who hear of it last, so one
  // message less is in a row; but several meet at the port of who takes part for two.
  const Pieces pieces = PiecesOf(call, 1);
  const double crowd = std::min(1.0, (rounds - 1) * fold_in.folded / 4);
  const auto tile_ns = [&](const Piece& piece) {
    const double round_ns = call.cost.latency_ns + piece.port_ns + piece.add_ns;
    const double crowded_ns = (rounds + 1) * call.cost.latency_ns +
                              (rounds + 2 + crowd) * piece.port_ns + 2 * piece.add_ns;
    return std::max((rounds + 1) * round_ns, crowded_ns);
  };
  const Piece& first = pieces.full;
  const double first_ns = (rounds + 1) * (call.cost.latency_ns + first.port_ns + first.add_ns) +
                          std::max(0.0, first.port_ns - rounds * first.add_ns);
  return {.time_ns = first_ns + (first.messages - 1) * tile_ns(first) +
                     pieces.rest.messages * tile_ns(pieces.rest),
          .formula =
              "(log2(p)+1)*(alpha + S*beta + S*gamma) + max(0, S*beta - log2(p)*S*gamma), "
              "p = bit_floor(n)",
          .approximate = true};
}

ClosedForm HierarchicalForm(const CostCase& call) {
  const int32_t size = call.spec.group_size;
  const double g = size == 0 ? NaturalGroupSize(call.spec.world_size) : size;
  const double m = call.n() / g;
  return RoundsForm(call,
                    {{1 / g, true, g - 1},
                     {1 / call.n(), true, m - 1},
                     {1 / call.n(), false, m - 1},
                     {1 / g, false, g - 1}},
                    1 / call.n(),
                    absl::StrCat("2(g-1)*alpha + 2(g-1)/g*S*beta + 2(m-1)*alpha + 2(m-1)/m*S/g*beta"
                                 " + (n-1)/n*S*gamma, g = ",
                                 g, ", m = ", m));
}

ClosedForm BarrierForm(const CostCase& call) {
  const double rounds = std::bit_width(static_cast<uint32_t>(call.spec.world_size - 1));
  return RoundsForm(call, {{0, false, rounds}}, 1, "ceil(log2(n))*alpha");
}

std::optional<ClosedForm> AllReduceForm(const CostCase& call) {
  switch (call.spec.algorithm) {
    case Algorithm::kNaive:
      return NaiveForm(call);
    case Algorithm::kTree:
      return TreeForm(call);
    case Algorithm::kPsExchange:
      return PsExchangeForm(call);
    case Algorithm::kStar:
      return StarForm(call);
    case Algorithm::kDoubleTree:
      return DoubleTreeForm(call);
    case Algorithm::kHalvingDoubling:
      return HalvingDoublingForm(call);
    case Algorithm::kDirect:
      return DirectForm(call);
    case Algorithm::kHierarchical:
      return HierarchicalForm(call);
    case Algorithm::kRecursiveDoubling:
      return RecursiveDoublingForm(call);
    case Algorithm::kRing:
    case Algorithm::kAuto:
      break;
  }
  return RingForm(call);
}

}  // namespace

std::optional<ClosedForm> ClosedFormOf(const ScheduleSpec& spec, const CostModel& cost,
                                       int64_t bytes, int64_t tile_bytes) {
  if (spec.channels != 1 || !MakeRankPart(spec, 0).ok()) return std::nullopt;
  const CostCase call{spec, cost, static_cast<double>(bytes), static_cast<double>(tile_bytes)};
  if (spec.world_size == 1) return ClosedForm{.time_ns = 0, .formula = "0"};
  switch (spec.collective) {
    case Collective::kAllReduce:
      return AllReduceForm(call);
    case Collective::kReduce:
    case Collective::kBroadcast:
      return RootedForm(call);
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return spec.algorithm == Algorithm::kDirect ? DirectForm(call) : RingForm(call);
    case Collective::kBarrier:
      return BarrierForm(call);
  }
  return std::nullopt;
}

double LowerBoundNs(const ScheduleSpec& spec, const CostModel& cost, int64_t bytes) {
  const double n = ContributorsOf(spec);
  if (n <= 1) return 0;
  const auto s = static_cast<double>(bytes);
  const double port_ns = cost.alpha_ns() + PortShare(spec) * s * cost.beta_ns_per_byte;
  const double add_ns =
      Adds(spec.collective) ? (n - 1) / spec.world_size * s * cost.gamma_ns_per_byte : 0;
  return std::max({SpreadNs(static_cast<int32_t>(n), cost), port_ns, add_ns});
}

}  // namespace lockstep
