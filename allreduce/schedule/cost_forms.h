// cost_forms.h: the two shapes that all closed forms have (cost.h). Rounds: a lane sends, waits for
// what the others sent and goes on, tile after tile, so times add up exactly. Pipeline: pieces
// follow each other through the same places; the first one takes the whole way, each further one as
// long as the busiest port or adder needs for it, or as long as a free slot is waited for. What is
// approximate about pipelines: how far the first piece's way hides behind ports that are busy
// anyhow. One channel; several share ports and adders in ways that have no formula. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allreduce/schedule/cost.h"

namespace lockstep {

// A call whose time is asked, with what all forms need.
struct CostCase {
  ScheduleSpec spec;
  CostModel cost;
  double bytes = 0;  // S
  double tile_bytes = 1;

  double n() const { return spec.world_size; }
  double PortNs(double message_bytes) const {
    return cost.overhead_ns + message_bytes * cost.beta_ns_per_byte;
  }
  double AddNs(double message_bytes) const { return message_bytes * cost.gamma_ns_per_byte; }
};

struct Round {
  double share = 0;  // of S, in one message each way
  bool adds = false;
  double times = 1;
};
// `chunk_share`: the part of S that a chunk is, which is what tiles are cut from.
ClosedForm RoundsForm(const CostCase& call, const std::vector<Round>& rounds, double chunk_share,
                      const std::string& formula);
double TilesOf(const CostCase& call, double chunk_share);

// Chunks that are cut into messages of at most a tile: full ones, then what is left of each chunk.
struct Piece {
  double port_ns = 0;
  double add_ns = 0;
  double messages = 0;
};
struct Pieces {
  Piece full;
  Piece rest;
  bool one() const { return full.messages + rest.messages == 1; }
};
Pieces PiecesOf(const CostCase& call, double chunk_share, double chunks = 1);

// Counted in messages of one piece and their additions.
struct Pipeline {
  double ports = 1;        // at the busiest port
  double adds = 0;         // by the busiest adder
  double cycle_ports = 1;  // from a send until its slot is free again, beside a latency
  double cycle_adds = 0;
};
inline constexpr double kPipelineSlots = 2;  // of every generator whose pieces follow each other

double BusyNs(const Pipeline& pipeline, const Piece& piece);
double CycleNs(const CostCase& call, const Pipeline& pipeline, const Piece& piece);
// All pieces, if the first one's way from start to end takes `first_ns`.
double PipelineNs(const CostCase& call, double first_ns, const Pipeline& pipeline,
                  const Pieces& pieces);
// The pieces of one chunk that first come through a port and then are added, all of one before any
// of the next: a flow shop of two machines.
double TwoStagesNs(const CostCase& call, const Pipeline& pipeline, const Pieces& pieces);

// Exact where nothing follows the first piece.
ClosedForm NaiveForm(const CostCase& call);
ClosedForm StarForm(const CostCase& call);
ClosedForm DirectForm(const CostCase& call);  // its halves too
std::optional<ClosedForm> PsExchangeForm(const CostCase& call);

ClosedForm TreeForm(const CostCase& call);
ClosedForm DoubleTreeForm(const CostCase& call);
ClosedForm RootedForm(const CostCase& call);  // reduce, broadcast

}  // namespace lockstep
