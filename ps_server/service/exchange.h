// exchange.h: a server's side of all its streams, between frames and the shard, without gRPC.
// It admits workers (epoch, layout, token, incarnation), turns frames into events of the shard, and
// the shard's messages into frames; whoever does the I/O gives each stream a number. A HELLO that
// comes before Configure waits, at most limits.connect_timeout_ms. Whatever is refused is answered
// with a REFUSED frame that says why, the stream ends, the server lives, and a counter remembers.
// Bounds: streams kStreamsMax; queued for a stream: WELCOME, one reply, REFUSED.
// Bytes are booked by what a frame is about, never by when it comes: step t has its pushes, the
// pulls for version t and the parameters of version t, though a fast worker pushes t + 1 in
// between. Times come from the clock given. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
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
  SgdOptions sgd;  // divisor: world_size for MEAN, 1 for SUM
  Limits limits;
};

struct StepServed {
  int64_t step = 0;
  int32_t shard = 0;
  int64_t version = 0;
  int64_t wait_ns = 0;
  int64_t apply_ns = 0;
  Traffic traffic;         // exactly of this step: pushes, pulls and parameters
  int64_t duplicates = 0;  // chunks, since the previous one
};
// Called by whoever drives the exchange; they must not call back.
struct PsServerEvents {
  // Every worker has the start values; all traffic so far that belongs to no step: HELLO, WELCOME,
  // INIT, version 0, and what was refused.
  std::function<void(const Traffic&)> set_up;
  // A step is applied and every worker has its parameters (or a later step came, or the run ends).
  std::function<void(const StepServed&)> step;
};

struct PsCounters {
  int64_t malformed_frames = 0;
  int64_t refused_streams = 0;
  int64_t duplicates = 0;  // chunks
};

struct Outgoing {
  PsFrame header;
  SharedParameters
      parameters;     // PARAMETERS: the whole shard, to be cut into chunks; null otherwise
  bool last = false;  // the stream ends after it
};

class Exchange {
 public:
  Exchange(std::string token, PsServerEvents events, const Clock& clock)
      : token_(std::move(token)), events_(std::move(events)), clock_(clock) {}

  // Errors: FailedPrecondition when called twice, InvalidArgument when the numbers make no sense.
  absl::Status Configure(const PsServerConfig& config);
  void Opened(int64_t stream, const std::string& token);
  void Received(int64_t stream, std::span<const Bytes> slices);
  // A chunk of `bytes` with this header went to the transport; `complete`: the last one of its
  // Outgoing.
  void Sent(const PsFrame& header, int64_t bytes, bool complete, int64_t stream);
  void Closed(int64_t stream);
  void Tick();
  // Reports what is applied, but not known to be with every worker. For the end of a run.
  void Report();

  std::vector<std::pair<int64_t, Outgoing>> TakeOutgoing() { return std::exchange(outgoing_, {}); }
  int64_t chunk_bytes() const { return limits_.chunk_bytes; }
  PsCounters counters() const;
  Traffic traffic() const;  // all of it
  // Not part of any event so far.
  Traffic unreported() const;

 private:
  struct StreamState {
    int64_t opened_ns = 0;
    std::optional<PsFrame> hello;  // waits for Configure
    int32_t worker = -1;           // admitted
    int64_t incarnation = 0;
    bool replying = false;
    bool closing = false;
  };
  // The version that workers are pulling, until all have it.
  struct Serving {
    StepServed step;
    std::vector<bool> served;  // [rank]
    bool reported = false;
  };

  Traffic* BookOf(const PsFrame& header);
  void Refuse(int64_t stream, const absl::Status& status);
  void Greet(int64_t stream);
  absl::Status Admit(int64_t stream, const PsFrame& hello);
  absl::Status CheckLayout(const PsFrame& hello);
  absl::Status MakeShard(const PsLayout& layout, int32_t worker);
  absl::Status Dispatch(int64_t stream, StreamState* state, const Frame& frame);
  ShardOutput Drive(const ShardEvent& event);
  void Deliver(const ShardOutput& output, int64_t sender);

  const std::string token_;
  const PsServerEvents events_;
  const Clock& clock_;
  Limits limits_;
  std::optional<PsServerConfig> config_;
  std::optional<PsLayout> layout_;  // of the first worker admitted
  int32_t layout_worker_ = -1;
  std::optional<Shard> shard_;
  std::map<int64_t, StreamState> streams_;
  std::map<int32_t, int64_t> stream_of_;  // worker -> stream
  std::vector<std::pair<int64_t, Outgoing>> outgoing_;
  Serving serving_;
  PsCounters counters_;
  Traffic outside_;                   // of no step, or of a step whose event is out already
  std::map<int64_t, Traffic> steps_;  // without an event yet: the one served and the one staged
  Traffic reported_set_up_;
  Traffic reported_steps_;
  int64_t reported_duplicates_ = 0;
};

}  // namespace lockstep
