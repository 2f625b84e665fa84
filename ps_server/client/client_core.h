// client_core.h: a worker's side of its parameter servers as a state machine without I/O: what goes
// to which server next, what a frame from one means, what is still missing and from whom. The same
// code runs over gRPC (ps_client.h) and in the cluster simulator.
// Shard k is served by the head of its chain; a server may serve several shards, and has one
// stream, on which each of its shards is greeted by itself. A caller begins an operation (Hello,
// Init, Push, Pull), then moves frames: while a stream has room it asks Next for that server; every
// frame read goes to OnFrame; done() says when the operation is through. A caller asks the servers
// in turn, beginning at the one of its rank. Who a worker is: `incarnation` says which process,
// `epoch` which group. A worker that connects in a later epoch, or as a replacement, goes on where
// Resume says. Pushing a step again that a shard has is safe: it is counted there, not applied.
// Rows of a table (core/rows.h) go to the shards that hold them, in the order of their numbers;
// each shard with a part of the table hears of the push and of the pull, so that its step is
// through. In SYNC without tables a step's last chunk asks for the reply, too, whose bits do not
// depend on when it is asked for; parameters that come before the pull, which says where they go,
// TakesLater. Values travel in the wire's dtype; what is sent is converted when it is asked for,
// what arrives goes straight to its place. Errors: what a server refuses, with its reason and whom
// it blames; Internal for frames out of turn (another epoch, a version that goes back, parameters
// of another step); DataLoss for a server without what it had acknowledged. After an error the core
// is dead. Units: elements. Pure: no I/O, no threads, no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/limits.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/client/shard_values.h"
#include "ps_server/core/partition.h"
#include "ps_server/core/rows.h"
#include "ps_server/wire/frame.h"

namespace lockstep {

struct ClientCoreOptions {
  int32_t rank = 0;  // index of the worker; identities carry it
  int64_t incarnation = 0;
  int64_t epoch = 0;
  PsLayout layout;
  std::vector<int32_t> server_of_shard;  // [shard]: index of its chain's head
  Limits limits;
  // [shard]: the newest version that this worker was given in an earlier epoch, which no server may
  // have lost; empty: none, or a restore has made them void.
  std::vector<int64_t> versions = {};
  std::vector<std::string> server_names = {};  // [server]: for messages; unset: "server 0", ...
};

// A frame for a server. `payload` stays valid until the next operation of its kind, or the core is
// gone; the caller's own memory as long as the caller leaves it.
struct ClientFrame {
  PsFrame header;
  Bytes payload;
};

// Where a worker goes on: after `step`. `pull`: its parameters are not those, and are to be pulled.
struct ResumePoint {
  int64_t step = 0;
  bool pull = false;

  bool operator==(const ResumePoint&) const = default;
};

class ClientCore {
 public:
  // REQUIRES: the layout has passed Partition, which made `ranges`; a server for each shard.
  ClientCore(ClientCoreOptions options, std::vector<ShardRange> ranges);

  // Each begins an operation. REQUIRES: done().
  void Hello();  // one HELLO a shard; done when each has its WELCOME
  // Worker 0, if !initialized(): the start values of the shards that lack them.
  void Init(std::span<const float> parameters);
  // Gradients of [offset, offset + gradients.size()) of the flat space, of `step`, 1-based. They
  // are read until Pull(step) is done. Errors: InvalidArgument (not in the flat space).
  absl::Status Push(int64_t step, int64_t offset, std::span<const float> gradients);
  // Done when every shard's parameters are in `parameters`. Step 0: the start values.
  void Pull(int64_t step, std::span<float> parameters);

  // Of `step`, rows of tensor `tensor`, ascending, each once: `gradients` holds them one after the
  // other; those of all other rows are zeros. Both are read until a pull of `step` is done. Errors:
  // InvalidArgument (no table, rows that it has not, or out of order, another number of values).
  absl::Status PushRows(int64_t step, int32_t tensor, std::span<const int64_t> rows,
                        std::span<const float> gradients);
  // Done when these rows' parameters are in `parameters`, one after the other. `rows` is read until
  // then. Errors: as PushRows.
  absl::Status PullRows(int64_t step, int32_t tensor, std::span<const int64_t> rows,
                        std::span<float> parameters);

  // While Hello runs: the stream to `server` is a new one, its shards are greeted again.
  void HelloAgain(int32_t server);
  std::optional<ClientFrame> Next(int32_t server);
  // Parameters of the step that is being pushed: to be offered again once its pull has begun.
  bool TakesLater(const PsFrame& header) const;
  // REQUIRES: !TakesLater(frame.header).
  absl::Status OnFrame(int32_t server, const Frame& frame);
  bool done() const;
  // What the operation waits for, in words, and the servers it waits for; none when done.
  std::string Awaited() const;
  std::vector<int32_t> AwaitedServers() const;

  const std::vector<int32_t>& servers() const { return servers_; }  // each once, in ascending order
  std::string NameOf(int32_t server) const;
  int64_t elements() const { return elements_; }  // of the flat space
  // After Hello: every shard has its start values.
  bool initialized() const;
  // After Hello: the least step of this worker that any shard has applied.
  int64_t resume_step() const;
  // After Hello. `own`: the step whose parameters the worker has; unset: none. `restored`: servers
  // went back to a snapshot. SYNC: every read after a step has the same bits, so own parameters
  // stay good. Other modes' own parameters hold updates that a restore has made void. BOUNDED: the
  // read after resume_step() may have to wait for others, who can't move before this worker is
  // back; the one before it never does, so a worker without parameters makes its last step again.
  // K_OF_N: the worker always pulls, and so belongs to the round of the servers' present
  // parameters.
  absl::StatusOr<ResumePoint> Resume(std::optional<int64_t> own, bool restored) const;
  // A pull was cut short: its target holds parts of two versions.
  bool torn() const;
  std::vector<int64_t> versions() const;          // [shard]: newest that this worker was given
  int64_t rejected() const { return rejected_; }  // pushes dropped by a shard (K_OF_N), so far

 private:
  enum class Operation : uint8_t { kIdle, kHello, kInit, kPush, kPull, kPushRows, kPullRows };

  // Of an operation on rows: those of its rows that a shard has.
  struct RowsSide {
    bool due = false;  // more frames have to go out
    size_t begin = 0;  // [begin, end) of the operation's rows
    size_t end = 0;
    size_t next = 0;                         // not sent
    ShardValues* source = nullptr;           // a push's gradients
    std::optional<ShardValues> target = {};  // a pull's parameters
  };

  struct ShardSide {
    int32_t server;
    ShardValues values;
    bool initialized = false;  // from here: what its WELCOME said
    int64_t applied = 0;
    int64_t version = 0;      // newest given to this worker
    int64_t round = 0;        // K_OF_N: of that one
    int64_t pushed_step = 0;  // of the last chunk that was sent
    int64_t pushed = 0;       // elements of that step
    bool asked = false;       // with them, for its parameters
    // Of the operation:
    bool asks = false;                  // its HELLO or PULL has to go out
    bool waits = false;                 // for its WELCOME or parameters
    ShardValues::Interval unsent = {};  // elements that have to go out
    int64_t pulled = 0;
    RowsSide rows = {};
    std::vector<TableRows> tables = {};  // what the shard has of each
  };

  void Begin(Operation operation, int64_t step);
  PsFrame Header(PsKind kind, size_t shard) const;
  ClientFrame AskingFrame(size_t shard) const;
  ClientFrame NextChunk(size_t shard);
  absl::Status Take(int32_t server, const Frame& frame);
  absl::Status OnWelcome(int32_t server, const PsFrame& header);
  absl::Status OnParameters(int32_t server, const Frame& frame);
  bool PullsWithPush() const;
  bool CountPushed(ShardSide* side, int64_t count) const;
  bool Expects(int32_t server, const Frame& frame) const;
  bool Pending(const ShardSide& side) const {
    return side.asks || side.waits || side.rows.due || side.unsent.begin < side.unsent.end;
  }
  // client_core_rows.cc
  absl::Status CheckRowOperation(int64_t step, int32_t tensor, std::span<const int64_t> rows,
                                 size_t values) const;
  void BeginRows(Operation operation, int64_t step, int32_t tensor, std::span<const int64_t> rows);
  ClientFrame NextRows(size_t shard);
  int64_t ReplyElements(const ShardSide& side) const;
  int64_t version_min(const ShardSide& side) const;
  int64_t round_min() const;

  const ClientCoreOptions options_;
  const Dtype wire_;
  const int64_t chunk_;  // elements
  int64_t elements_ = 0;
  std::vector<ShardSide> shards_;
  std::vector<int32_t> servers_;
  absl::Status dead_;
  Operation operation_ = Operation::kIdle;
  int64_t step_ = 0;                     // of the operation
  std::span<const float> source_;        // likewise
  int64_t source_offset_ = 0;            // of source_ in the flat space
  std::span<float> target_;              // likewise
  std::span<const int64_t> rows_;        // likewise
  int32_t table_ = 0;                    // likewise
  std::deque<ShardValues> row_sources_;  // of pushes that may still be under way
  int64_t rejected_ = 0;
};

}  // namespace lockstep
