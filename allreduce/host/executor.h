// executor.h: runs one rank's part of a schedule over a link, in the calling thread, for any count
// and dtype. Chunks: `count` elements are cut into nearly equal parts, the first count % chunks one
// element longer; parts may be empty, their messages are then a header alone. Tiles: the whole
// program runs once for each tile, at most tile_bytes of every chunk. Messages: count chunks of one
// tile. A sent value lives in a slot of its connection until the link has taken it, so the lane
// goes on and the link moves data both ways while lanes wait. Slots are kept: a steady state
// allocates nothing per message. Errors: those of Link::Progress, and Unimplemented for what no
// generator needs yet (scratch chunks, values written to another chunk than they were read from,
// values passed on without being kept). Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "allreduce/schedule/schedule.h"
#include "allreduce/transport/link.h"
#include "base/numeric/dtype.h"

namespace lockstep {

// What one rank runs of a schedule.
struct RankProgram {
  int32_t chunks = 1;
  int32_t slots = 2;
  std::vector<Lane> lanes;
};

// What a schedule leaves open.
struct ExecuteCall {
  void* data = nullptr;  // `count` elements, in place
  int64_t count = 0;
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  int64_t tile_bytes = 1;
  int64_t message_bytes_max = 1;
  uint64_t fingerprint = 0;  // same on every rank
  int64_t deadline_ns = 0;   // on the link's clock
};

class HostExecutor {
 public:
  explicit HostExecutor(Link* link);  // must outlive the executor

  // Returns when every move is done and every message taken by the link. After an error the link
  // must be cancelled before the executor goes.
  absl::Status Run(const RankProgram& program, const ExecuteCall& call);

  // The ranks that the last Run was waiting for when it failed, ascending.
  std::vector<int> WaitingFor() const;

 private:
  struct Slot {
    SendRequest request;
    std::vector<std::byte> bytes;
  };
  // The sending end of a connection, with the messages under way.
  struct Outbox {
    std::vector<Slot> slots;
    size_t next = 0;        // slot to fill
    uint64_t sequence = 0;  // messages so far
  };
  struct LaneRun {
    const Lane* lane = nullptr;
    int64_t tile = 0;
    size_t move = 0;
    bool receiving = false;
    RecvRequest request;
    std::span<std::byte> value;        // where the present move's value is
    std::vector<std::byte> own_bytes;  // holds it when neither a slot nor the data does
  };
  // Elements [first, first + count) of the data.
  struct Piece {
    int64_t first = 0;
    int64_t count = 0;
  };

  absl::Status Prepare();
  absl::Status CheckMove(const Move& move) const;
  void AdvanceAll();  // until every lane waits for the link or is through
  bool Advance(LaneRun* run);
  bool MayStart(const LaneRun& run, const Move& move);
  void StartReceive(LaneRun* run, const Move& move);
  void Finish(LaneRun* run, const Move& move);
  void Send(LaneRun* run, const Move& move);
  std::span<std::byte> PlaceFor(LaneRun* run, const Move& move);
  bool IntoData(const Move& move) const;  // may the message be received straight into the data?
  Piece PieceOf(int32_t chunk, int64_t tile) const;
  std::byte* At(int64_t element) const;
  size_t BytesOf(const Move& move, int64_t tile) const;
  template <typename Visit>  // visit(data bytes, value bytes, elements), chunk by chunk
  void ForPieces(int32_t first, const Move& move, const LaneRun& run, const Visit& visit) const;
  size_t Index(int32_t peer, int32_t channel) const;
  bool AllSent() const;

  Link* const link_;
  std::vector<Outbox> outboxes_;          // [peer][channel]
  std::vector<uint64_t> recv_sequences_;  // [peer][channel]
  std::vector<LaneRun> runs_;
  const RankProgram* program_ = nullptr;  // during Run
  ExecuteCall call_;
  int64_t element_bytes_ = 1;
  int64_t tile_elements_ = 1;
  int64_t tiles_ = 1;
};

}  // namespace lockstep
