// shards.h: what the coordinator knows of a parameter-server run's shards: who has them in which
// order (chains.h), which cuts are on disk (cuts.h), and from these what a new epoch begins with.
// A shard whose every copy is lost is taken from the newest complete cut, and then all shards are,
// by every server; without one it is lost for good. Pure: no I/O, no clock. Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "experiments/coordinator/chains.h"
#include "experiments/coordinator/cuts.h"
#include "proto/coordinator.pb.h"

namespace lockstep {

class Shards {
 public:
  // REQUIRES: a variant with parameter servers.
  explicit Shards(const RunConfig& run);

  // Of the group that is over, from each of its servers that lives: the shards whose whole state
  // it has. A server that did not report has none.
  void Report(int server, const Broken& broken);
  // The server's process, and with it all that it had, is gone.
  void Lose(int server) { held_.erase(server); }
  // The cut that is being restored can't be: an earlier one has to do.
  void Spoil();

  // As of now, all of `present` having reported or being new: the shards can only be had from a
  // cut. Then every server has to be there.
  bool MustRestore(const std::set<int>& present) const;
  // Why no epoch can follow: "shard 2 is lost: servers 1 and 2 held it; last durable step 140".
  // Empty: one can. `finished`: the step that every worker has finished.
  std::string Hopeless(const std::set<int>& present, int64_t finished) const;

  // Plans the first epoch, or the next one, of the servers `present`, into `start`. Returns what
  // changed: "shard 1 goes on at server 2 with all 31 updates". REQUIRES: not Hopeless.
  std::string Begin(const std::set<int>& present, Start* start);
  // The epoch's group stands. What was to be restored is.
  void Stand() { restoring_.reset(); }
  // The step that the epoch goes back to.
  std::optional<int64_t> restoring() const { return restoring_; }

  // True: the manifest is another one now.
  bool Add(const Saved& saved) { return cuts_.Add(saved); }
  std::string Manifest() const { return cuts_.Manifest(); }
  // True: that server is a copy of the shard now, or will be with those before it.
  bool Add(const CaughtUp& caught_up) {
    return catch_up_.Add(caught_up.shard(), caught_up.server(), &chains_);
  }
  // Every shard has all its copies.
  bool Complete() const { return lockstep::Complete(chains_, replicas_); }

 private:
  bool Has(int server, int shard) const;
  Chains Next(const std::set<int>& present) const;
  std::string Change(const Chains& next) const;

  const int servers_;
  const int replicas_;
  bool begun_ = false;
  Chains chains_;
  CatchUp catch_up_;
  std::map<int, std::map<int, int64_t>> held_;  // [server][shard]: version; since the group broke
  std::optional<int64_t> restoring_;
  Cuts cuts_;
};

// "server 1", "servers 1 and 2", "servers 0, 1 and 2".
std::string Named(const std::string& noun, const std::set<int>& indices);

}  // namespace lockstep
