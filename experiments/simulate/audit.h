// audit.h: watches a simulated cluster from outside and checks what was promised, at the moment and
// at the end. It sees every copy of every shard after each call of its server's exchange, every
// gradient that is pushed and every reply that a worker has whole. It makes each update again with
// its own arithmetic, from the version before and the gradients of the identities that the copy has
// marked since: a version whose bytes are not those is not the replay of the surviving updates, and
// a sum with a push missing, twice or in part shows. All of it goes into the ledger
// (ps_server/core/ledger.h) as well, whose promises are checked at the end. Bounds: it keeps every
// version of every shard, so a run is limited to kVersionsMax of them. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "experiments/simulate/model.h"
#include "proto/coordinator.pb.h"
#include "ps_server/core/ledger.h"
#include "ps_server/core/partition.h"
#include "ps_server/service/exchange.h"

namespace lockstep {

// Of all shards together; 16 bytes an element and version are kept.
inline constexpr int64_t kVersionsMax = 100'000;

struct AuditOptions {
  PsRules rules;
  std::vector<ShardRange> ranges;
  int32_t workers = 1;
  int64_t steps = 0;
  // All workers go to the end. Then all their steps are made, and SYNC has the undisturbed run's
  // bits.
  bool undisturbed = false;
};

class SimAudit {
 public:
  // `model` must outlive it.
  SimAudit(AuditOptions options, const SimModel& model);

  void OnStart(const Start& start);
  void OnMoved(int64_t process, int64_t epoch, const Exchange& exchange);
  void OnGradient(int32_t worker, int64_t step, std::span<const float> gradient);
  // `answer`: to the worker's push of that step; else it goes on from there.
  void OnTold(int32_t worker, int64_t server_process, const PsFrame& header, bool answer);
  void OnFinished(int32_t worker, int64_t step, std::span<const float> parameters);
  // Of a complete run, whose heads these processes are.
  void OnEnd(const std::map<int32_t, int64_t>& process_of_shard);

  void Break(const std::string& what);
  // First ones first, at most 20; empty: every promise was kept.
  const std::vector<std::string>& broken() const { return broken_; }
  bool full() const { return versions_ > kVersionsMax; }
  int64_t versions() const { return versions_; }
  // Mean loss of the workers' last parameters.
  double Loss() const;

 private:
  // What a shard is after an update: a node of the tree of all versions that were ever made. Two of
  // one number differ when the first was lost with its server, untold, or made void by a rewind.
  struct Version {
    int64_t number = 0;
    const Version* before = nullptr;
    std::vector<float> parameters;
    std::vector<float> optimizer_state;
    std::vector<WorkerMark> marks;
    int64_t round = 0;
    uint64_t content = 0;
  };
  struct Drop {
    int64_t epoch = 0;
    int64_t version = 0;
    UpdateId push;
  };
  struct Telling {
    int32_t server = 0;
    int64_t epoch = 0;
    int32_t worker = 0;
    int64_t step = 0;  // 0: no push
    int64_t version = 0;
    int64_t least_step = 0;
    bool rejected = false;
  };
  struct Seen {  // of one process's copy
    const Version* version = nullptr;
    std::vector<WorkerMark> marks;
    int64_t epoch = 0;
  };
  struct Sight {  // of a copy: what it is, and the pushes that led there from what it was
    const Version* version = nullptr;
    std::vector<UpdateId> ids;
  };
  using Shelf = std::multimap<int64_t, Version>;  // by number

  void OnCopy(int64_t process, int64_t epoch, const Seat& seat);
  // BOUNDED: steps that a worker missed while it was away.
  void NoteSkips(int64_t epoch, const Seat& seat, const ShardState& state, const std::string& what);
  void NoteAbsent(int32_t shard, const std::vector<WorkerMark>& marks);
  bool WasAway(int32_t worker, int64_t before_epoch) const;
  // A worker that has made `step` at this shard stands there, the steps left out that it missed up
  // to this epoch.
  int64_t StandsAt(int32_t shard, int32_t worker, int64_t step, int64_t epoch) const;
  void NoteDrops(int64_t epoch, const Seat& seat, const Seen& seen, const ShardState& state);
  // The version that a copy has come to. `what`: where, for messages.
  Sight Find(const Seat& seat, const Seen& seen, const ShardState& state, const std::string& what);
  // The update that leads from `before` to `state`, made again. Unset: no gradients do that.
  std::optional<Version> Replay(int32_t shard, const Version& before, const ShardState& state,
                                const std::vector<UpdateId>& ids) const;
  std::vector<std::vector<float>> Sums(int32_t shard, const std::vector<UpdateId>& ids) const;
  std::vector<UpdateId> Between(const Seat& seat, const std::vector<WorkerMark>& before,
                                const std::vector<WorkerMark>& after, bool dropped) const;
  int64_t LeastStep(int32_t shard, const std::vector<WorkerMark>& marks, int64_t epoch) const;
  static PsRules LedgerRules(PsRules rules);
  std::vector<float> Undisturbed() const;

  const AuditOptions options_;
  const SimModel& model_;
  Ledger ledger_;
  std::map<int64_t, std::vector<bool>> present_;      // by epoch: [worker]
  std::set<int64_t> restores_;                        // epochs
  std::set<std::pair<int64_t, int32_t>> rewound_;     // (epoch, shard)
  std::map<int32_t, Shelf> shelves_;                  // by shard
  std::map<std::pair<int64_t, int32_t>, Seen> seen_;  // (process, shard)
  // What a process's copy came to in an epoch: (process, epoch, shard). A worker that was frozen
  // may take what it was told there when the copy is another already.
  std::map<std::tuple<int64_t, int64_t, int32_t>, Seen> seen_in_;
  std::map<std::pair<int32_t, int64_t>, std::vector<std::vector<float>>> gradients_;
  std::map<int32_t, std::vector<float>> finals_;  // worker
  // By shard: worker, step; in which epoch.
  std::map<int32_t, std::map<std::pair<int32_t, int64_t>, int64_t>> skips_;
  std::map<int32_t, std::vector<Drop>> drops_;
  std::map<int32_t, std::vector<Telling>> told_;
  std::vector<std::string> broken_;
  int64_t versions_ = 0;
};

}  // namespace lockstep
