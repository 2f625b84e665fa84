#include "allreduce/schedule/cost_forms.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace lockstep {

double TilesOf(const CostCase& call, double chunk_share) {
  return std::max(1.0, std::ceil(call.bytes * chunk_share / call.tile_bytes));
}

ClosedForm RoundsForm(const CostCase& call, const std::vector<Round>& rounds, double chunk_share,
                      const std::string& formula) {
  const double tiles = TilesOf(call, chunk_share);
  ClosedForm form{.time_ns = 0, .formula = formula};
  for (const Round& round : rounds) {
    const double bytes = call.bytes * round.share;
    form.time_ns +=
        round.times * (tiles * call.cost.alpha_ns() + bytes * call.cost.beta_ns_per_byte +
                       (round.adds ? call.AddNs(bytes) : 0));
  }
  if (tiles > 1) absl::StrAppend(&form.formula, ", alpha for each of ", tiles, " tiles");
  return form;
}

Pieces PiecesOf(const CostCase& call, double chunk_share, double chunks) {
  const double chunk_bytes = call.bytes * chunk_share;
  const double full_tiles = std::floor(chunk_bytes / call.tile_bytes);
  const double rest_bytes = chunk_bytes - full_tiles * call.tile_bytes;
  const Piece full{call.PortNs(call.tile_bytes), call.AddNs(call.tile_bytes), chunks * full_tiles};
  const Piece rest{call.PortNs(rest_bytes), call.AddNs(rest_bytes), chunks};
  if (full_tiles == 0) return {rest, {}};  // one tile, which may be empty
  return {full, rest_bytes > 0 ? rest : Piece{}};
}

double BusyNs(const Pipeline& pipeline, const Piece& piece) {
  return std::max(pipeline.ports * piece.port_ns, pipeline.adds * piece.add_ns);
}

double CycleNs(const CostCase& call, const Pipeline& pipeline, const Piece& piece) {
  return call.cost.latency_ns + pipeline.cycle_ports * piece.port_ns +
         pipeline.cycle_adds * piece.add_ns;
}

namespace {

// What waiting for slots makes of messages: they go in pairs, each when the slots of the pair
// before are free; the last may go alone.
double WaitsNs(double messages, double cycle_ns, double port_ns) {
  const double pairs = std::floor(messages / kPipelineSlots);
  return pairs * cycle_ns + (messages - pairs * kPipelineSlots) * port_ns;
}

// The pieces after the first, by slots alone.
double SlotsNs(const CostCase& call, const Pipeline& pipeline, const Pieces& pieces) {
  const double full = pieces.full.messages - 1;
  const double cycle_ns = CycleNs(call, pipeline, pieces.full);
  if (pieces.rest.messages == 0) return WaitsNs(full, cycle_ns, pieces.full.port_ns);
  const double pairs = std::floor(full / kPipelineSlots);
  const double mixed = full - pairs * kPipelineSlots + pieces.rest.messages;
  return pairs * cycle_ns +
         WaitsNs(mixed, CycleNs(call, pipeline, pieces.rest), pieces.rest.port_ns);
}

}  // namespace

double PipelineNs(const CostCase& call, double first_ns, const Pipeline& pipeline,
                  const Pieces& pieces) {
  const double full_ns = (pieces.full.messages - 1) * BusyNs(pipeline, pieces.full);
  const double rest_ns = std::max(
      pieces.rest.messages * BusyNs(pipeline, pieces.rest),
      WaitsNs(pieces.rest.messages, CycleNs(call, pipeline, pieces.rest), pieces.rest.port_ns));
  return first_ns + std::max(full_ns + rest_ns, SlotsNs(call, pipeline, pieces));
}

double TwoStagesNs(const CostCase& call, const Pipeline& pipeline, const Pieces& pieces) {
  const double full = pieces.full.messages;
  const double rest = pieces.rest.messages;
  const double port_ns = pipeline.ports * pieces.full.port_ns;
  const double add_ns = pipeline.adds * pieces.full.add_ns;
  const double rest_port_ns = rest * pipeline.ports * pieces.rest.port_ns;
  const double rest_add_ns = rest * pipeline.adds * pieces.rest.add_ns;
  const double flow_ns =
      std::max({port_ns + full * add_ns + rest_add_ns, full * port_ns + add_ns + rest_add_ns,
                full * port_ns + rest_port_ns + (rest > 0 ? rest_add_ns : add_ns)});
  const double slots_ns = CycleNs(call, pipeline, pieces.full) + SlotsNs(call, pipeline, pieces);
  return std::max(call.cost.latency_ns + flow_ns, slots_ns);
}

}  // namespace lockstep
