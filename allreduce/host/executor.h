// executor.h: runs one rank's part of a schedule over a link, in the calling thread, for any count,
// dtype and reduction. Chunks and tiles: layout.h. The whole program runs once for each tile; lanes
// of a rank may be at different tiles, a wait_lane means the same tile. Messages: count chunks of
// one tile; those of empty chunks are a header alone. A sent value lives in a slot of its
// connection until the link has taken it, so the lane goes on and the link moves data both ways
// while lanes wait. Slots and scratch are kept: a steady state allocates nothing. Errors: those of
// Link::Progress, ResourceExhausted (a message beyond message_bytes_max), and Unimplemented for
// moves that no generator makes. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "allreduce/host/layout.h"
#include "allreduce/host/message_log.h"
#include "allreduce/schedule/generate.h"
#include "allreduce/transport/link.h"
#include "base/clock.h"
#include "base/numeric/dtype.h"

namespace lockstep {

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
  // Both must outlive the executor; `clock` is the link's.
  HostExecutor(Link* link, const Clock& clock);

  // Returns when every move is done and every message taken by the link. After an error the link
  // must be cancelled before the executor goes.
  absl::Status Run(const RankPart& part, const ExecuteCall& call);

  // From now on notes every message in `log`, which must outlive the use; null: none.
  void LogMessages(MessageLog* log) { log_ = log; }

  // The ranks that the last Run was waiting for when it failed, ascending.
  std::vector<int> WaitingFor() const;

 private:
  struct Slot {
    SendRequest request;
    std::vector<std::byte> bytes;
    int64_t posted_ns = 0;
    bool to_log = false;  // posted, and not yet in the log
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
    int64_t posted_ns = 0;
    std::span<std::byte> value;        // where the present move's value is; empty: in `out`
    std::vector<std::byte> own_bytes;  // holds it when neither a slot nor `out` does
  };
  // The same part of a move's value, wherever it stands. Absent: null.
  struct Parts {
    std::byte* value = nullptr;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    int64_t count = 0;  // elements
  };

  absl::Status Prepare();
  absl::Status CheckMove(const Move& move) const;
  absl::Status ClaimScratch(const Move& move, int32_t lane);
  void AdvanceAll();  // until every lane waits for the link or is through
  bool Advance(LaneRun* run);
  bool MayStart(const LaneRun& run, const Move& move);
  std::span<std::byte> PlaceFor(LaneRun* run, const Move& move);
  void StartReceive(LaneRun* run, const Move& move);
  void Finish(LaneRun* run, const Move& move);
  void MakeToSend(const Move& move, const Parts& parts) const;
  void MakeToKeep(const Move& move, const Parts& parts) const;
  void Put(const std::byte* source, std::byte* target, bool fold, int64_t count) const;
  void Send(LaneRun* run, const Move& move);
  void LogSends();
  void LogSend(Slot* slot, int64_t now_ns);
  void LogReceive(const LaneRun& run);
  std::byte* At(int32_t chunk, int64_t tile);
  size_t BytesOf(const Move& move, int64_t tile) const;
  size_t Index(int32_t peer, int32_t channel) const;
  bool AllSent() const;

  Link* const link_;
  const Clock& clock_;
  MessageLog* log_ = nullptr;
  std::vector<Outbox> outboxes_;          // [peer][channel]
  std::vector<uint64_t> recv_sequences_;  // [peer][channel]
  std::vector<LaneRun> runs_;
  std::vector<std::byte> scratch_;  // [scratch chunk]: one tile of each
  std::vector<int32_t> owners_;     // [scratch chunk]: the lane that uses it
  const RankPart* part_ = nullptr;  // during Run
  ExecuteCall call_;
  ChunkLayout layout_;
  int64_t element_bytes_ = 1;
  int64_t scratch_bytes_ = 0;  // of one scratch chunk's tile
  int64_t tiles_ = 1;
};

}  // namespace lockstep
