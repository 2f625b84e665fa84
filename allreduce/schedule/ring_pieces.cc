#include "allreduce/schedule/ring_pieces.h"

namespace lockstep {
namespace {

// First chunk of the part that is `hop` positions before the rank's own.
int32_t PartBefore(const RingPlace& ring, int32_t hop) {
  return ring.first + ring.count * ((ring.position + ring.size - hop) % ring.size);
}

// The others' complete parts: keep each, pass it on, except for the one that has been everywhere.
void AddPassOn(const RingPlace& ring, std::vector<Move>* moves) {
  for (int32_t hop = 1; hop < ring.size; ++hop) {
    moves->push_back({.recv_from = ring.prev,
                      .send_to = hop < ring.size - 1 ? ring.next : kNone,
                      .out = PartBefore(ring, hop),
                      .count = ring.count});
  }
}

}  // namespace

void AddRingReduceScatter(const RingPlace& ring, std::vector<Move>* moves) {
  if (ring.size == 1) return;
  moves->push_back({.send_to = ring.next, .in = PartBefore(ring, 1), .count = ring.count});
  for (int32_t hop = 2; hop < ring.size; ++hop) {  // add mine, pass the sum on
    moves->push_back({.recv_from = ring.prev,
                      .send_to = ring.next,
                      .in = PartBefore(ring, hop),
                      .count = ring.count});
  }
  const int32_t own = PartBefore(ring, 0);
  moves->push_back({.recv_from = ring.prev, .in = own, .out = own, .count = ring.count});
}

void AddRingAllGather(const RingPlace& ring, std::vector<Move>* moves) {
  if (ring.size == 1) return;
  moves->push_back({.send_to = ring.next, .in = PartBefore(ring, 0), .count = ring.count});
  AddPassOn(ring, moves);
}

void AddRingAllReduce(const RingPlace& ring, std::vector<Move>* moves) {
  if (ring.size == 1) return;
  AddRingReduceScatter(ring, moves);
  moves->back().send_to = ring.next;
  AddPassOn(ring, moves);
}

}  // namespace lockstep
