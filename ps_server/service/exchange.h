// exchange.h: a server's side of all its streams, between frames and its shards, without gRPC.
// It admits workers and predecessors (epoch, layout, token, incarnation), turns frames into events
// of this server's copies of shards (replication.h), and their messages into frames; whoever does
// the I/O gives each stream that comes a number, and opens those that Dials() asks for. Whatever is
// refused is answered with a REFUSED frame that says why, the stream ends, the server lives, and a
// counter remembers.
//   HELLO     names one shard. A worker has one stream to a server and says HELLO on it for each
//             shard whose head that is; a predecessor likewise, for each shard that it sends. One
//             that comes before its epoch waits, at most limits.connect_timeout_ms.
//   WELCOME   one for each HELLO: version, initialized; to a worker: step, its last applied one; to
//             a predecessor: `layout` is the copy's marks() (replication.h)
//   REPLICATE one Replicate message (core/replication.h) in chunks; `replicated` on the first says
//             what it is, offset and total count elements; version is that of its update
//   PUSH        with `pulls`: and the PULL of its step
//   PUSH, PULL  with `rows`: about rows of a table alone (wire/row_frame.h); a pull may come in
//   several
//             frames, the reply is the rows in the order of their numbers
//   STATE     an encoded ShardState in chunks; offset and total count bytes
//   REPLICATED  version, and in `push` the sequence
// Before its first push a worker may measure its link: a PING's payload goes back as a PONG.
// Groups: Leave ends every stream of an epoch that is dead and keeps the shards; Configure begins
// the next one. A stream to a successor that breaks is opened again, with growing pauses; after
// limits.connect_timeout_ms, or when the successor has confirmed nothing for
// limits.sync_timeout_ms, the group is dead (events.broken), so that nobody is blocked for ever.
// Bounds: streams kStreamsMax; HELLOs that wait on one kHellosMax; queued for a worker: WELCOMEs,
// one PONG, a reply a shard, REFUSED; for a successor: an update a worker and shard, one state a
// shard. Memory: pushes staged (large chunks as they came, in gRPC's slices), at most
// limits.staged_bytes_max over all shards of the server; of each shard its parameters, the ones
// before and those that are being made, and the optimizer's values, in SYNC twice; and one version
// of a shard for each worker whose reply of it is not sent. Which update each byte belongs to:
// books.h. Times come from the clock given. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/socket.h"
#include "base/traffic.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/core/crash_point.h"
#include "ps_server/core/partition.h"
#include "ps_server/core/replication.h"
#include "ps_server/service/assembly.h"
#include "ps_server/service/books.h"
#include "ps_server/service/payload.h"
#include "ps_server/service/seat.h"
#include "ps_server/wire/frame.h"

namespace lockstep {

// Workers of one run, twice over for reconnects, and strangers.
inline constexpr size_t kStreamsMax = 1024;
inline constexpr size_t kHellosMax = 256;

// What the run is; known only after the port is bound. One for each epoch.
struct PsServerConfig {
  int32_t server = 0;
  int32_t servers = 1;  // and shards
  int32_t world_size = 1;
  int64_t epoch = 0;
  PsRules rules;
  Limits limits;
  PsPlacement placement = PsPlacement::kSplit;
  std::vector<bool> present = {};               // [worker]: it is in this group; empty: all are
  std::map<int32_t, ChainPlace> places = {};    // by shard; empty: shard `server`, and no replicas
  std::map<int32_t, Endpoint> successors = {};  // by server
  bool exposed = false;        // a chain that this server heads is shorter than the run asks for
  int64_t snapshot_every = 0;  // steps between two cuts; 0: none
  // Whatever this server held is void: of steps that are made again.
  bool restore = false;
  // By shard: what it begins with: itself, or parts of a run with another number of servers.
  std::map<int32_t, std::vector<ShardState>> restored = {};
};

struct PsCounters {
  int64_t malformed_frames = 0;
  int64_t refused_streams = 0;
  int64_t duplicates = 0;   // chunks
  int64_t rows_pushed = 0;  // of tables, duplicates left out
  int64_t rows_pulled = 0;
};

// A stream to a successor, to be opened under this number.
struct Dial {
  int64_t stream = 0;
  int32_t server = 0;
  Endpoint endpoint;
};

struct HeldShard {
  int32_t shard = 0;
  int64_t version = 0;
};

class Exchange {
 public:
  Exchange(std::string token, PsServerEvents events, const Clock& clock)
      : token_(std::move(token)), clock_(clock), events_(events), books_(std::move(events)) {}

  // A planned fault's hook: before the first Configure.
  void set_crash_hook(CrashHook crash) { crash_ = std::move(crash); }
  // Begins an epoch, leaving the one before. Errors: FailedPrecondition (not a later epoch),
  // InvalidArgument (numbers that make no sense), and those of ShardCopy::Restore.
  absl::Status Configure(PsServerConfig config);
  // The group is dead for `cause`: ends its streams. Returns the shards whose whole state is here.
  std::vector<HeldShard> Leave(const absl::Status& cause);

  void Opened(int64_t stream, const std::string& token);
  // `owner` keeps the slices' bytes as they are; null: nobody does, once this returns.
  void Received(int64_t stream, std::span<const Bytes> slices,
                std::shared_ptr<const void> owner = nullptr);
  // A frame of `bytes` with this header is handed to the transport; `complete`: the last one of its
  // Outgoing, so that the next answer may be asked for.
  void Sending(const PsFrame& header, int64_t bytes, bool complete, int64_t stream);
  // The transport has taken it.
  void Sent(const PsFrame& header, bool complete);
  void Closed(int64_t stream);
  void Tick();
  // For the end of a run: opens no stream any more, though frames that were read are still handled.
  void Stop() { stopped_ = true; }
  // Then: reports what is applied, but not known to be with its workers.
  void Report();

  std::vector<std::pair<int64_t, Outgoing>> TakeOutgoing() { return std::exchange(outgoing_, {}); }
  std::vector<Dial> TakeDials() { return std::exchange(dials_, {}); }
  int64_t chunk_bytes() const { return config_.limits.chunk_bytes; }
  const std::map<int32_t, Seat>& seats() const { return seats_; }  // by shard, for onlookers
  PsCounters counters() const { return counters_; }
  Traffic traffic() const { return books_.traffic(); }        // all of it
  Traffic unreported() const { return books_.unreported(); }  // not part of any event so far

 private:
  enum class Peer : uint8_t { kStranger, kWorker, kPredecessor, kSuccessor };
  struct StreamState {
    int64_t opened_ns = 0;
    std::vector<PsFrame> hellos;  // wait for their epoch
    Peer peer = Peer::kStranger;  // once admitted
    int32_t index = -1;           // of the worker, or server
    int64_t incarnation = 0;
    std::map<int32_t, int> owed;  // by greeted shard: replies that the transport does not have
    int64_t unsent_bytes = 0;     // of them
    std::map<int32_t, int64_t> pulled;  // by shard: the last step whose push was its pull, too
    bool owes_pong = false;
    std::map<int32_t, Assembly> parts;  // by shard: what a predecessor's chunks make
    bool closing = false;
  };
  // The way to one successor.
  struct Successor {
    int64_t stream = 0;    // 0: none now
    int64_t since_ns = 0;  // of the first attempt, or failure, since it was up; 0: up
    int64_t next_ns = 0;   // of the next attempt
    int64_t pause_ms = 0;
    std::set<int32_t> welcomed;  // shards
  };

  // exchange.cc: streams and frames.
  void Refuse(int64_t stream, const absl::Status& status);
  bool Alive(int64_t stream) const;
  absl::Status Dispatch(int64_t stream, StreamState* state, const Frame& frame);
  absl::Status FromWorker(int64_t stream, StreamState* state, const Frame& frame);
  absl::Status OnPush(int64_t stream, StreamState* state, Seat* seat, const Frame& frame);
  absl::Status OnPull(int64_t stream, StreamState* state, Seat* seat, const Frame& frame);
  absl::StatusOr<ShardRows> RowsOf(const Seat& seat, const Frame& frame);
  absl::StatusOr<bool> OnRowPull(Seat* seat, const Frame& frame);
  absl::Status OnPing(int64_t stream, StreamState* state, const Frame& frame);
  PsFrame MakeHeader(PsKind kind, int32_t worker, int32_t shard) const;
  void RefuseLateStrangers(int64_t now_ns);

  // admission.cc: epochs, HELLO, the layout.
  absl::Status CheckConfig(const PsServerConfig& config) const;
  void GreetWaiting();
  void Greet(int64_t stream);
  absl::Status Admit(int64_t stream, const PsFrame& hello);
  absl::Status AdmitWorker(int64_t stream, Seat* seat, const PsFrame& hello);
  absl::Status AdmitPredecessor(int64_t stream, Seat* seat, const PsFrame& hello);
  absl::Status CheckLayout(const PsFrame& hello, const std::string& sender);
  absl::Status Settle();
  absl::Status CheckStaging(const std::vector<ShardRange>& ranges) const;
  absl::Status SeatCopy(Seat* seat, const ShardRange& range);
  bool present(int32_t worker) const;

  // delivery.cc: what a copy answers.
  void Drive(Seat* seat, const CopyEvent& event, int64_t stream);
  void BookUpdate(Seat* seat, const ShardUpdate& update, int64_t start_ns, int64_t end_ns);
  void NoteConfirmed(Seat* seat, int64_t now_ns);
  void BookDrop(Seat* seat, const UpdateId& push);
  void Deliver(Seat* seat, const CopyOutput& output, int64_t stream);
  void DeliverReply(Seat* seat, const ShardReply& reply);
  int64_t CutStepOf(const Seat& seat) const;
  void CutIfDue(Seat* seat);
  void Crash(CrashPoint point, int64_t step) const;
  void CrashWhileSending(const PsFrame& header, bool complete, Seat* seat) const;
  // recovery.cc: how a later group came to stand.
  void NoteExposure();
  void NoteServing();
  void ReportRecovery(int64_t now_ns);

  // chain.cc: the servers before and behind this one.
  void DialSuccessors();
  void DialNow(int32_t server, Successor* successor);
  void KeepSuccessors(int64_t now_ns);
  void GiveUp(const absl::Status& why);
  void LoseSuccessor(int32_t server);
  absl::Status FromSuccessor(int64_t stream, StreamState* state, const Frame& frame);
  absl::Status FromPredecessor(int64_t stream, StreamState* state, const Frame& frame);
  void SendChain(Seat* seat, const CopyOutput& output);

  const std::string token_;
  const Clock& clock_;
  const PsServerEvents events_;
  CrashHook crash_;
  bool configured_ = false;
  bool left_ = false;    // the group of config_.epoch is dead
  bool broken_ = false;  // events_.broken has been called
  bool stopped_ = false;
  PsServerConfig config_;
  std::optional<PsLayout> layout_;  // of the first member admitted
  std::string layout_of_;           // "worker 1"
  std::map<int32_t, Seat> seats_;   // by shard
  std::map<int64_t, StreamState> streams_;
  std::map<int32_t, int64_t> stream_of_;     // worker -> stream
  std::map<int32_t, Successor> successors_;  // by server
  int64_t next_dial_ = -1;
  std::vector<std::pair<int64_t, Outgoing>> outgoing_;
  std::vector<Dial> dials_;
  PsCounters counters_;
  std::optional<ServerRecovery> recovery_;  // of this epoch, until it is reported
  int64_t duplicates_before_ = 0;
  std::optional<int64_t> exposed_since_ns_;  // a copy of one of its shards is missing
  Books books_;
};

}  // namespace lockstep
