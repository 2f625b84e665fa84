// executor.h: runs one rank's part of a schedule over a link, in the calling thread, for any count,
// dtype and reduction. Chunks and tiles: layout.h. The whole program runs once for each tile; lanes
// of a rank may be at different tiles, a wait_lane means the same tile. Messages: count chunks of
// one tile; those of empty chunks are a header alone. Values are received into the data and sent
// out of them wherever they stand there in one piece; a value that the link has not taken yet when
// its place is about to be overwritten gets a copy of its own first, so a lane never waits for its
// own send. Other values live in a slot of their connection. Slots and scratch are kept: a steady
// state allocates nothing. AVG adds like SUM: the caller divides. Errors: those of Link::Progress,
// ResourceExhausted (a message beyond message_bytes_max), and Unimplemented for moves that no
// generator makes. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "allreduce/host/message_log.h"
#include "allreduce/schedule/generate.h"
#include "allreduce/schedule/layout.h"
#include "allreduce/transport/link.h"
#include "base/clock.h"
#include "base/numeric/dtype.h"

namespace lockstep {

// A good size of tiles: long enough that a message's own cost counts little, short enough that it
// is still in a cache when the next one works on it.
inline constexpr int64_t kTileBytes = int64_t{128} << 10;

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

  // The same in steps, for a caller who moves the link: Begin, then Advance after each of its
  // Progress calls until true. `part` must stay until then.
  absl::Status Begin(const RankPart& part, const ExecuteCall& call);
  bool Advance();

  // From now on notes every message in `log`, which must outlive the use; null: none.
  void LogMessages(MessageLog* log) { log_ = log; }

  // The ranks that the last Run was waiting for when it failed, ascending.
  std::vector<int> WaitingFor() const;

 private:
  struct Slot {
    SendRequest request;
    std::vector<std::byte> bytes;  // the value, unless it is sent from where it stands
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
    std::span<std::byte> message;      // where the present move's message goes
    std::vector<std::byte> own_bytes;  // holds it when neither a slot nor `out` does
  };
  // Where a move's value is when it is made.
  enum class Stands : uint8_t { kInSlot, kInOut, kInIn };
  // The same part of a move's value and of its operands. Absent: null.
  struct Parts {
    std::byte* value = nullptr;  // the message; where the value stands in a slot: that slot
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    int64_t count = 0;  // elements
  };

  absl::Status PrepareLane(const Lane& lane, int32_t index);
  absl::Status CheckMove(const Move& move) const;
  absl::Status ClaimScratch(const Move& move, int32_t lane);
  bool AdvanceLane(LaneRun* run);  // by one move; false: it waits, or is through
  bool MayStart(const LaneRun& run, const Move& move);
  Stands PlaceOf(const Move& move) const;
  std::span<std::byte> SlotBytes(const LaneRun& run, const Move& move);
  std::span<std::byte> PlaceForMessage(LaneRun* run, const Move& move);
  void StartReceive(LaneRun* run, const Move& move);
  void Finish(LaneRun* run, const Move& move);
  void MakeToSend(const Move& move, const Parts& parts) const;
  void MakeToKeep(const Move& move, const Parts& parts) const;
  void Put(const std::byte* source, std::byte* target, bool fold, int64_t count) const;
  void Send(const LaneRun& run, const Move& move);
  void AboutToWrite(std::span<const std::byte> place);
  void LogSends();
  void LogSend(Slot* slot, int64_t now_ns);
  void LogReceive(const LaneRun& run);
  std::byte* At(int32_t chunk, int64_t tile);
  bool InOnePiece(const Move& move) const;
  size_t BytesOf(const Move& move, int64_t tile) const;
  size_t Index(int32_t peer, int32_t channel) const;
  bool AllSent() const;

  Link* const link_;
  const Clock& clock_;
  MessageLog* log_ = nullptr;
  std::vector<Outbox> outboxes_;          // [peer][channel]
  std::vector<uint64_t> recv_sequences_;  // [peer][channel]
  std::vector<Slot*> in_place_;           // perhaps not yet sent, and out of data or scratch
  std::vector<LaneRun> runs_;
  std::vector<std::byte> scratch_;  // [scratch chunk]: one tile of each
  std::vector<int32_t> owners_;     // [scratch chunk]: the lane that uses it
  const RankPart* part_ = nullptr;  // during Run
  ExecuteCall call_;
  ChunkLayout layout_;
  int64_t element_bytes_ = 1;
  int64_t tiles_ = 1;
};

}  // namespace lockstep
