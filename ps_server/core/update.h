// update.h: what one update of a shard is: whose push, and what the shard saw of it.
// Units: elements unless said; times in ns on the shard's clock. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

struct UpdateId {
  int32_t worker = 0;
  int64_t incarnation = 0;
  int64_t step = 0;  // 1-based
  int32_t shard = 0;
};

struct WorkerSpan {
  int32_t worker = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// How old the parameters were that an asynchronous update was computed from: two counts that are
// never mixed.
struct Staleness {
  int64_t update = 0;  // others' updates applied here between the worker's last read and its apply
  int64_t clock = 0;   // its step - 1 - the least step of any worker that its last read contained
  // The worker's cycle that this apply ends; unset for its first update, and where it did not read
  // since its previous one.
  std::optional<int64_t> gap_ns;    // from its previous apply to its last read
  std::optional<int64_t> cycle_ns;  // from its previous apply to this one
};

// The first value of a sum that is not finite. EXACT turns the whole block into NaN.
struct NonFiniteValue {
  int32_t worker = 0;   // the first, in rank order, whose push has one in this block
  int32_t tensor = 0;   // index in the layout
  int64_t element = 0;  // from the start of the tensor
};

struct ShardUpdate {
  int64_t step = 0;                // of the workers whose pushes it is made of; K_OF_N: the largest
  int64_t version = 0;             // updates applied to the shard, this one included
  int64_t wait_ns = 0;             // from the first chunk to the last
  int64_t held_bytes = 0;          // of pushes staged at the shard, when it was begun
  std::vector<UpdateId> ids;       // what it is made of, in rank order
  std::vector<WorkerSpan> pushes;  // each from its first chunk to its last; none at a copy
  std::vector<int32_t> late;       // K_OF_N: of these workers, late pushes that joined it
  std::optional<int32_t> worker;   // ASYNC, BOUNDED: whose update it is; unset: a sum
  std::optional<Staleness> staleness;        // ASYNC, BOUNDED
  std::optional<NonFiniteValue> non_finite;  // EXACT
};

}  // namespace lockstep
