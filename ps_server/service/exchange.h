// exchange.h: a server's side of all its streams, between frames and the shard, without gRPC.
// It admits workers (epoch, layout, token, incarnation), turns frames into events of the shard, and
// the shard's messages into frames; whoever does the I/O gives each stream a number. A HELLO that
// comes before Configure waits, at most limits.connect_timeout_ms. Whatever is refused is answered
// with a REFUSED frame that says why, the stream ends, the server lives, and a counter remembers.
// Before its first push a worker may measure its link: a PING's payload goes back as a PONG.
// Bounds: streams kStreamsMax; queued for a stream: WELCOME, one PONG, one reply, REFUSED. Which
// update each byte belongs to: books.h. Times come from the clock given. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/traffic.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/core/partition.h"
#include "ps_server/core/shard.h"
#include "ps_server/service/books.h"
#include "ps_server/wire/frame.h"

namespace lockstep {

// Workers of one run, twice over for reconnects, and strangers.
inline constexpr size_t kStreamsMax = 1024;

// What the run is; known only after the port is bound.
struct PsServerConfig {
  int32_t server = 0;  // owns shard `server` of `servers`
  int32_t servers = 1;
  int32_t world_size = 1;
  int64_t epoch = 0;
  PsMode mode = PsMode::kSync;
  PsOrder order = PsOrder::kRank;
  SgdOptions sgd;  // divisor: world_size for MEAN, 1 for SUM and for ASYNC
  Limits limits;
};

struct PsCounters {
  int64_t malformed_frames = 0;
  int64_t refused_streams = 0;
  int64_t duplicates = 0;  // chunks
};

struct Outgoing {
  PsFrame header;
  SharedParameters parameters = nullptr;  // PARAMETERS: the whole shard, to be cut into chunks
  std::string payload;                    // PONG
  bool last = false;                      // the stream ends after it
};

class Exchange {
 public:
  Exchange(std::string token, PsServerEvents events, const Clock& clock)
      : token_(std::move(token)), clock_(clock), books_(std::move(events)) {}

  // Errors: FailedPrecondition when called twice, InvalidArgument when the numbers make no sense.
  absl::Status Configure(const PsServerConfig& config);
  void Opened(int64_t stream, const std::string& token);
  void Received(int64_t stream, std::span<const Bytes> slices);
  // A frame of `bytes` with this header is handed to the transport; `complete`: the last one of its
  // Outgoing, so that the next answer may be asked for.
  void Sending(const PsFrame& header, int64_t bytes, bool complete, int64_t stream);
  // The transport has taken it.
  void Sent(const PsFrame& header, bool complete);
  void Closed(int64_t stream);
  void Tick();
  // Reports what is applied, but not known to be with its workers. For the end of a run.
  void Report() { books_.Close(); }

  std::vector<std::pair<int64_t, Outgoing>> TakeOutgoing() { return std::exchange(outgoing_, {}); }
  int64_t chunk_bytes() const { return limits_.chunk_bytes; }
  PsCounters counters() const;
  Traffic traffic() const { return books_.traffic(); }        // all of it
  Traffic unreported() const { return books_.unreported(); }  // not part of any event so far

 private:
  struct StreamState {
    int64_t opened_ns = 0;
    std::optional<PsFrame> hello;  // waits for Configure
    int32_t worker = -1;           // admitted
    int64_t incarnation = 0;
    bool pushed = false;
    int owed = 0;  // answers that the transport does not have yet
    bool closing = false;
  };

  void Refuse(int64_t stream, const absl::Status& status);
  void Greet(int64_t stream);
  absl::Status Admit(int64_t stream, const PsFrame& hello);
  absl::Status CheckLayout(const PsFrame& hello);
  absl::Status MakeShard(const PsLayout& layout, int32_t worker);
  absl::Status Dispatch(int64_t stream, StreamState* state, const Frame& frame);
  absl::Status OnPing(int64_t stream, StreamState* state, const Frame& frame);
  PsFrame MakeHeader(PsKind kind, int32_t worker) const;
  ShardOutput Drive(const ShardEvent& event);
  void Deliver(const ShardOutput& output, int64_t sender);

  const std::string token_;
  const Clock& clock_;
  Limits limits_;
  std::optional<PsServerConfig> config_;
  std::optional<PsLayout> layout_;  // of the first worker admitted
  int32_t layout_worker_ = -1;
  std::optional<Shard> shard_;
  std::map<int64_t, StreamState> streams_;
  std::map<int32_t, int64_t> stream_of_;  // worker -> stream
  std::vector<std::pair<int64_t, Outgoing>> outgoing_;
  PsCounters counters_;
  Books books_;
};

}  // namespace lockstep
