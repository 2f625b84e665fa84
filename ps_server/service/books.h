// books.h: which update each byte of a server belongs to, and when all of an update's bytes are
// there, so that it can be reported.
// Bytes are booked by what a frame is about, never by when it comes: an update of step t has its
// pushes, the pulls of step t and the parameters that answer them, though a fast worker pushes t +
// 1 in between. SYNC: one account for all workers, an update a step. ASYNC: an account for each
// worker, so an update has that worker's bytes alone. All other bytes (HELLO, WELCOME, ping-pong,
// INIT, step 0, frames that were refused or late) are set-up, or come with no event.
// Of an account at most two steps are open: the one applied, until it is reported, and the one
// being pushed. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/traffic.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/core/partition.h"
#include "ps_server/core/update.h"

namespace lockstep {

struct UpdateServed {
  ShardUpdate update;
  int32_t shard = 0;
  int64_t apply_start_ns = 0;
  int64_t apply_ns = 0;
  Traffic traffic;         // exactly of this update: pushes, pulls and parameters
  int64_t duplicates = 0;  // chunks, since the previous event
  // From the reply's first chunk handed to the transport to its last one taken by it. A worker that
  // never asked has none.
  std::vector<WorkerSpan> replies;
};
// Called by whoever drives the exchange; they must not call back.
struct PsServerEvents {
  // Every worker has the start values; all traffic so far that belongs to no update.
  std::function<void(const Traffic&)> set_up;
  // An update is applied and whoever waits for it has its parameters (or a later one of the same
  // account came, or the run ends).
  std::function<void(const UpdateServed&)> update;
};

class Books {
 public:
  explicit Books(PsServerEvents events) : events_(std::move(events)) {}

  // Before the first frame that is about a step.
  void Open(PsMode mode, int32_t world_size);

  // A frame that was taken came in, or one goes out.
  void Book(const PsFrame& header, const Traffic& traffic);
  // One that was refused: it may name any step.
  void BookOutside(const Traffic& traffic) { outside_ += traffic; }
  void SetDuplicates(int64_t chunks) { duplicates_ = chunks; }  // so far

  // `served` has just been applied; its traffic, replies and duplicates are filled in here.
  void Apply(UpdateServed served);
  // A chunk with this header is handed to the transport (or has been taken by it): if it is of a
  // reply, the reply's span reaches until now.
  void Touch(const PsFrame& header, int64_t now_ns);
  // The transport has taken the last chunk of the reply to `worker`'s pull of `step`.
  void Replied(int32_t worker, int64_t step);
  // Reports what is applied, but not known to be with its workers. For the end of a run.
  void Close();

  Traffic traffic() const;  // all of it
  Traffic unreported() const { return traffic() - reported_set_up_ - reported_updates_; }

 private:
  struct Account {
    int64_t reported_step = 0;           // every step up to here is out
    std::optional<UpdateServed> served;  // applied, not reported
    std::vector<int32_t> owed;           // workers that do not have it
    std::map<int64_t, Traffic> steps;    // not reported
  };
  Account& AccountOf(int32_t worker) {
    return accounts_[mode_ == PsMode::kSync ? 0 : static_cast<size_t>(worker)];
  }
  void Started(int32_t worker);
  void ReportSetUp();
  void Report(Account* account);

  const PsServerEvents events_;
  PsMode mode_ = PsMode::kSync;
  std::vector<Account> accounts_;
  std::vector<bool> started_;  // [rank]: has the start values
  bool set_up_reported_ = false;
  int64_t duplicates_ = 0;
  int64_t reported_duplicates_ = 0;
  Traffic outside_;  // of no update, or of one whose event is out already
  Traffic reported_set_up_;
  Traffic reported_updates_;
};

}  // namespace lockstep
