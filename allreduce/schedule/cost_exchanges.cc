#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/cost_forms.h"

namespace lockstep {

ClosedForm NaiveForm(const CostCase& call) {
  const double peers = call.n() - 1;
  const Pieces pieces = PiecesOf(call, 1);
  const Pipeline pipeline{.ports = peers, .adds = peers, .cycle_ports = peers, .cycle_adds = peers};
  // The additions begin with the message that comes last, since they go in the order of ranks.
  return {.time_ns = TwoStagesNs(call, pipeline, pieces),
          .formula = "L + (n-1)*(o + S*beta + S*gamma)",
          .approximate = !pieces.one()};
}

ClosedForm StarForm(const CostCase& call) {
  const double peers = call.n() - 1;
  const Pieces pieces = PiecesOf(call, 1);
  const Piece& piece = pieces.full;
  const Pipeline pipeline{.ports = peers, .adds = peers, .cycle_adds = 1};
  const double first_ns = 2 * call.cost.latency_ns + BusyNs(pipeline, piece) +
                          std::min(piece.port_ns, piece.add_ns) + peers * piece.port_ns;
  return {.time_ns = PipelineNs(call, first_ns, pipeline, pieces),
          .formula = "2L + 2(n-1)*(o + S*beta) + S*gamma, gamma <= beta",
          .approximate = !pieces.one()};
}

ClosedForm DirectForm(const CostCase& call) {
  const bool pushes = call.spec.collective != Collective::kAllGather;
  const bool answers = call.spec.collective != Collective::kReduceScatter;
  const double peers = call.n() - 1;
  if (!pushes || !answers) {
    const Pieces pieces = PiecesOf(call, 1 / call.n());
    const double adds = pushes ? peers : 0;
    const Pipeline pipeline{.ports = peers, .adds = adds, .cycle_ports = peers, .cycle_adds = adds};
    return {.time_ns = TwoStagesNs(call, pipeline, pieces),
            .formula = absl::StrCat("L + (n-1)*o + (n-1)/n*S*", pushes ? "(beta + gamma)" : "beta"),
            .approximate = !pieces.one()};
  }
  // A rank answers before it pushes its next tile, so that one latency of two is hidden.
  const double tiles = TilesOf(call, 1 / call.n());
  const CostModel& cost = call.cost;
  ClosedForm form{
      .time_ns =
          cost.latency_ns + tiles * (cost.latency_ns + 2 * peers * cost.overhead_ns) +
          peers / call.n() * call.bytes * (2 * cost.beta_ns_per_byte + cost.gamma_ns_per_byte),
      .formula = "2L + 2(n-1)*o + 2(n-1)/n*S*beta + (n-1)/n*S*gamma",
      .approximate = tiles > 1};
  if (tiles > 1) absl::StrAppend(&form.formula, ", L + 2(n-1)*o for each of ", tiles, " tiles");
  return form;
}

namespace {

// When an owner has added the messages of one piece, in the order of ranks: it begins with that of
// rank 0, which comes in the last round of `with_first` messages where owners share the senders'
// attention. A sole owner's begin with the second.
double SumsNs(const Piece& piece, double messages, double additions, double owners,
              double with_first) {
  const double begin = messages - with_first + (owners == 1 ? 2 : 1);
  return std::max(messages * piece.port_ns + std::min(owners, additions) * piece.add_ns,
                  begin * piece.port_ns + additions * piece.add_ns);
}

// Servers of their own: pushes and pulls of different tiles overlap, both ways.
ClosedForm SpareForm(const CostCase& call) {
  const double servers = call.spec.servers;
  const double workers = call.n() - servers;
  const Pieces pieces = PiecesOf(call, 1 / servers);
  const Piece& piece = pieces.full;
  const Pipeline pipeline{
      .ports = std::max(workers, servers), .adds = workers - 1, .cycle_adds = 1};
  const double sums_ns = servers <= workers ? SumsNs(piece, workers, workers - 1, servers,
                                                     std::floor(workers / servers))
                                            : servers * piece.port_ns + workers / 2 * piece.add_ns;
  const double answers = servers <= workers ? workers : servers - 1;
  const double first_ns = 2 * call.cost.latency_ns + sums_ns + answers * piece.port_ns;
  return {
      .time_ns = PipelineNs(call, first_ns, pipeline, pieces),
      .formula = "2L + (1+1/t)*max(n/s, 1)*S*beta + (n-1)/(s*t)*S*gamma + (1+1/t)*n*t*o, t tiles",
      .approximate = true};
}

// Owners that push as well: a tile's pushes follow the answers of the tile before.
ClosedForm ColocatedForm(const CostCase& call) {
  const double owners = call.spec.servers;
  const double peers = call.n() - 1;
  const Pieces pieces = PiecesOf(call, 1 / owners);
  const double latency_ns = call.cost.latency_ns;
  const double first_ns = 2 * latency_ns +
                          SumsNs(pieces.full, peers, peers, owners, std::ceil(call.n() / owners)) +
                          peers * pieces.full.port_ns;
  const auto tile_ns = [&](const Piece& piece) {
    return latency_ns + (peers + owners - 1) * piece.port_ns + peers * piece.add_ns;
  };
  // Who does not own runs ahead with two tiles, as many as there are slots, and has to be caught
  // up.
  const Piece& third = pieces.full.messages > kPipelineSlots ? pieces.full : pieces.rest;
  const bool ahead = pieces.full.messages + pieces.rest.messages > kPipelineSlots;
  const double ahead_ns =
      ahead ? (call.n() - owners) * std::max(0.0, third.port_ns - third.add_ns) : 0;
  return {.time_ns = first_ns + ahead_ns + (pieces.full.messages - 1) * tile_ns(pieces.full) +
                     pieces.rest.messages * tile_ns(pieces.rest),
          .formula =
              "(1+t)*L + (1+(n-2)/s)*S*(beta + o/b) + (n-1)/s*S*gamma + (n-s)*(o + b*beta), "
              "b = S/(s*t) in t tiles",
          .approximate = true};
}

// A message of `chunks` chunks.
Piece MessageOf(const Piece& chunk, double chunks, const CostModel& cost) {
  return {cost.overhead_ns + chunks * (chunk.port_ns - cost.overhead_ns), chunks * chunk.add_ns,
          chunk.messages};
}

// Servers and workers own. A further tile takes as long as a worker's port is busy with it, if what
// the workers' lanes wait for each other hides behind the servers' messages; a fifth of these does
// that for sure. When they wait longer, both kinds of lanes get into each other's way.
std::optional<ClosedForm> SplitForm(const CostCase& call) {
  const double k = call.spec.servers;
  const double n = call.n() - k;
  if (k == 0) return DirectForm(call);
  if (k == n) return SpareForm(call);  // the workers' share is none
  const double divisor = std::gcd(static_cast<int32_t>(2 * (n - 1)), static_cast<int32_t>(n - k));
  const double of_server = 2 * (n - 1) / divisor;
  const double of_worker = (n - k) / divisor;
  const CostModel& cost = call.cost;
  const Pieces pieces = PiecesOf(call, 1 / (k * of_server + n * of_worker));
  const Piece server = MessageOf(pieces.full, of_server, cost);
  const Piece worker = MessageOf(pieces.full, of_worker, cost);
  const bool hides = cost.gamma_ns_per_byte <= cost.beta_ns_per_byte &&
                     cost.latency_ns + (n - 1) * worker.add_ns <= k / 5 * server.port_ns;
  if (!pieces.one() && !hides) return std::nullopt;
  // The servers' way, or where messages are short the overheads of a worker; many servers answer
  // while it waits for its peers.
  const double way_ns =
      2 * cost.latency_ns + n * server.port_ns + SumsNs(server, n, n - 1, k, std::floor(n / k));
  const double hidden_ns =
      std::min(cost.latency_ns, std::max(0.0, 2 * k - n - 1) * cost.overhead_ns);
  const double overheads_ns =
      2 * cost.latency_ns - hidden_ns + (n + k) * server.port_ns + (n + k - 2) * cost.overhead_ns;
  const auto tile_ns = [&](const Piece& chunk) {
    return k * MessageOf(chunk, of_server, cost).port_ns +
           2 * (n - 1) * MessageOf(chunk, of_worker, cost).port_ns;
  };
  // More servers than half the workers still answer when these are through with each other.
  const double late_ns = pieces.one() ? 0 : std::max(0.0, 2 * k - n) / 4 * server.port_ns;
  return ClosedForm{.time_ns = std::max(way_ns, overheads_ns) + late_ns +
                               (pieces.full.messages - 1) * tile_ns(pieces.full) +
                               pieces.rest.messages * tile_ns(pieces.rest),
                    .formula =
                        "2L + (1+1/t)*B*beta + (n-1)/(n*t)*B*gamma + (k + (2n+k-2)*t)*o, "
                        "B = 2n(n-1)/(n^2+kn-2k)*S, n workers, k servers, t tiles",
                    .approximate = true};
}

}  // namespace

std::optional<ClosedForm> PsExchangeForm(const CostCase& call) {
  switch (call.spec.placement) {
    case Placement::kSpare:
      return SpareForm(call);
    case Placement::kColocated:
      // One owner never pushes and is a star's root.
      return call.spec.servers == 1 ? StarForm(call) : ColocatedForm(call);
    case Placement::kSplit:
      return SplitForm(call);
  }
  return std::nullopt;
}

}  // namespace lockstep
