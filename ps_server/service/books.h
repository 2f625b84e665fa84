// books.h: which update each byte of a server belongs to, and when all of an update's bytes are
// there, so that it can be reported.
// Bytes are booked by what a frame is about, never by when it comes: worker w's step t at a shard
// has its push, its pull of t and the parameters that answer it, though w pushes t + 1 in between.
// An update has the bytes of the pushes it is made of: of all workers (SYNC), of one (ASYNC,
// BOUNDED) or of k (K_OF_N). Those of a push that came late and was dropped go with the shard's
// next event, and so that there is one, K_OF_N's newest update waits for its successor or the end.
// What an update's copies cost is counted apart, by version. All other bytes (HELLO, WELCOME,
// ping-pong, INIT, step 0, what a new group moves before its first step, frames that were refused
// or late, replicas' own) are set-up, or come with no event. Bounds: of a worker and shard two
// steps are open: the one applied, until it is reported, and the one being pushed. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/traffic.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/core/rules.h"
#include "ps_server/core/shard_state.h"
#include "ps_server/core/update.h"

namespace lockstep {

struct UpdateServed {
  ShardUpdate update;
  int32_t shard = 0;
  int64_t apply_start_ns = 0;
  int64_t apply_ns = 0;      // what of fold and optimizer was left when its last chunk came
  int64_t early_ns = 0;      // SYNC: and what was done before
  int64_t staged_bytes = 0;  // pushes held and replies not sent, when it was made
  std::vector<int32_t> rejected =
      {};                    // K_OF_N: workers whose push was dropped since the last event
  int64_t blocked_ns = 0;    // BOUNDED: its reply was held so long
  int64_t replicate_ns = 0;  // CHAIN: from the apply to the tail's word
  Traffic traffic = {};      // exactly of this update: pushes, pulls and parameters
  Traffic replication = {};  // to and from the successor
  int64_t duplicates = 0;    // chunks, since the previous event
  // From the reply's first chunk handed to the transport to its last one taken by it. A worker that
  // never asked has none.
  std::vector<WorkerSpan> replies = {};
};

// A later group stands again, as this server saw it.
struct ServerRecovery {
  int64_t epoch = 0;
  absl::Status cause;         // OK: this server is the replacement
  int64_t broken_ns = 0;      // when it learnt of the loss; 0: it is the replacement
  int64_t serving_ns = 0;     // its first answer
  int64_t exposed_ns = 0;     // until its shards had all their copies again; 0: they had them
  int64_t version = 0;        // of its first shard, when it served again
  int64_t lost_versions = 0;  // that this server had, and the snapshot has not
  Traffic traffic = {};       // of states moved between servers until then
  int64_t duplicates = 0;     // chunks that came again
};

// A server behind this one in a chain has caught up.
struct CopyJoined {
  int32_t shard = 0;
  int32_t server = 0;
  int64_t state_bytes = 0;  // that it was sent
};

// Called by whoever drives the exchange; they must not call back.
struct PsServerEvents {
  // Every worker has the start values; all traffic so far that belongs to no update.
  std::function<void(const Traffic&)> set_up = nullptr;
  // An update is applied and whoever waits for it has its parameters (or a later push of the same
  // workers was applied, or the group ends).
  std::function<void(const UpdateServed&)> update = nullptr;
  // A cut is reached: this is what its snapshot holds. `step` is the least of any worker in it.
  std::function<void(int64_t step, std::shared_ptr<const ShardState>)> cut = nullptr;
  // In `epoch`, a copy has all that it lacked.
  std::function<void(int64_t epoch, const CopyJoined&)> caught_up = nullptr;
  std::function<void(const ServerRecovery&)> recovered = nullptr;
  // Nothing can be acknowledged in `epoch` any more: a successor is gone, or late. It is blamed.
  std::function<void(int64_t epoch, const absl::Status&)> broken = nullptr;
};

class Books {
 public:
  explicit Books(PsServerEvents events) : events_(std::move(events)) {}

  // A group begins, in which this server heads `shards`: reports what is open. `present`: [worker].
  void Open(PsMode mode, std::vector<bool> present, const std::vector<int32_t>& shards);
  // Where the workers are at a shard: what is about an earlier step belongs to no update.
  void Stand(int32_t shard, const std::vector<int64_t>& last_steps);

  // A frame that was taken came in, or one goes out.
  void Book(const PsFrame& header, const Traffic& traffic);
  // One that was refused: it may name any step.
  void BookOutside(const Traffic& traffic) { outside_ += traffic; }
  // One to or from the successor, about this version.
  void BookReplication(int32_t shard, int64_t version, const Traffic& traffic);
  void SetDuplicates(int64_t chunks) { duplicates_ = chunks; }  // so far

  // `served` has just been applied, made of these workers' pushes of these steps; its traffic,
  // replies and duplicates are filled in here.
  using Identity = std::pair<int32_t, int64_t>;  // worker, step
  void Apply(UpdateServed served, std::vector<Identity> pushes);
  // This push was dropped.
  void Drop(int32_t shard, const Identity& push);
  // Every copy has this version of the shard.
  void Replicated(int32_t shard, int64_t version, int64_t now_ns);
  // The reply to `push` was held so long for others.
  void Blocked(int32_t shard, const Identity& push, int64_t blocked_ns);
  // A chunk with this header is handed to the transport (or has been taken by it): if it is of a
  // reply, the reply's span reaches until now.
  void Touch(const PsFrame& header, int64_t now_ns);
  // The transport has taken the last chunk of the reply to `worker`'s pull of `step`.
  void Replied(int32_t shard, const Identity& push);
  // Reports what is applied, but not known to be with its workers. For the end of a group.
  void Close();

  Traffic traffic() const;  // all of it
  Traffic unreported() const { return traffic() - reported_set_up_ - reported_updates_; }

 private:
  // An update, or a dropped push, whose reply may still be under way.
  struct Entry {
    std::optional<UpdateServed> served;  // unset: dropped
    std::vector<Identity> pushes;
    std::vector<int32_t> owed;  // workers that do not have it
  };
  struct Account {
    std::vector<bool> started;            // [worker]: has the start values
    std::vector<int64_t> reported_step;   // [worker]: every step up to here is out
    std::map<Identity, Traffic> steps;    // not reported
    std::map<int64_t, Traffic> versions;  // replication, not reported
    std::deque<Entry> open;               // in order of their application
    Traffic dropped;                      // goes with the next event, as these do
    std::vector<int32_t> rejected;
  };
  Entry* Find(int32_t shard, const Identity& push);
  void Started(Account* account, int32_t worker);
  void ReportSetUp();
  // Nobody waits for these any more.
  void Settle(Account* account, int32_t worker, int64_t step_max);
  void Report(Account* account, Entry entry);

  const PsServerEvents events_;
  PsMode mode_ = PsMode::kSync;
  std::vector<bool> present_;
  std::map<int32_t, Account> accounts_;  // by shard
  bool set_up_reported_ = false;
  int64_t duplicates_ = 0;
  int64_t reported_duplicates_ = 0;
  Traffic outside_;  // of no update, or of one whose event is out already
  Traffic reported_set_up_;
  Traffic reported_updates_;
};

}  // namespace lockstep
