// ledger.h: checks a run's whole history of updates against what was promised. It is fed with what
// each server applied and each worker was told, in any order, and says every promise that was
// broken: with shard, worker, step and versions.
//   any mode  an identity (worker, step, shard) is applied once, or dropped once and told so;
//             acknowledged = applied; a version has one content whoever made it; at most one server
//             acknowledges for a shard in an epoch; no worker is given a version older than one it
//             had, unless it goes back to an earlier step; what was told survives to the end, or to
//             the version that a rewind named
//   SYNC      version t is made of pushes of step t
//   BOUNDED   no read is staler than its bound
//   content   a version whose content is known from elsewhere has it: SYNC: the undisturbed run,
//             bit for bit; ASYNC, BOUNDED, K_OF_N: a replay of Surviving
// An update that was never told may be lost with its server: a later epoch then begins without it,
// or makes its version anew, and the surviving history is that of the last epoch. Takes at most
// kEntriesMax calls, about 100 bytes each, and says so when there are more. Pure. Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ps_server/core/rules.h"
#include "ps_server/core/update.h"

namespace lockstep {

class Ledger {
 public:
  static constexpr int64_t kEntriesMax = int64_t{1} << 22;

  Ledger(const PsRules& rules, int32_t workers, int32_t shards);

  // `server` applied an update in `epoch`. Copies of a chain report each; `content` is a
  // fingerprint of the parameters after it.
  void Applied(int32_t server, int64_t epoch, int32_t shard, int64_t version,
               std::span<const UpdateId> pushes, uint64_t content);
  // K_OF_N: a server noted in `epoch`, being at `version`, that this push came late.
  void Dropped(int64_t epoch, int32_t shard, int64_t version, const UpdateId& push);
  // `worker` was given `version` by `server` as the answer to its push of `step` (0: no push).
  // `least_step`: of any worker that this version contains, as the server says.
  void Told(int32_t server, int64_t epoch, int32_t shard, int32_t worker, int64_t step,
            int64_t version, int64_t least_step, bool rejected);
  // The head of this shard began `epoch` with `version`, each worker being at its last step in it:
  // what earlier epochs made after that is lost. A drop makes no version, so the version alone does
  // not say.
  void Began(int64_t epoch, int32_t shard, int64_t version, std::vector<int64_t> last_steps);
  // Likewise, but with a snapshot: what came after it is void, and whoever was told of it is told
  // again.
  void Rewound(int64_t epoch, int32_t shard, int64_t version, std::vector<int64_t> last_steps);
  // BOUNDED: whoever missed this step came back at a later one: it is not made, and counts as done.
  void Skipped(int32_t shard, int32_t worker, int64_t step);
  // What a shard has at the end.
  void Final(int32_t shard, int64_t version, uint64_t content);
  // The content that a version must have, from an undisturbed run or a replay.
  void Expect(int32_t shard, int64_t version, uint64_t content);

  // [version - 1]: the pushes of the updates that survived, for a replay.
  std::vector<std::vector<UpdateId>> Surviving(int32_t shard) const;
  // Every broken promise, first ones first, at most 20; empty: none. `steps`: that each worker was
  // to make; 0: not checked.
  std::vector<std::string> Check(int64_t steps) const;

 private:
  struct Applying {
    int32_t server = 0;
    int64_t epoch = 0;
    int64_t version = 0;
    std::vector<UpdateId> pushes;
    uint64_t content = 0;
  };
  struct Telling {
    int32_t server = 0;
    int64_t epoch = 0;
    int32_t worker = 0;
    int64_t step = 0;
    int64_t version = 0;
    int64_t least_step = 0;
    bool rejected = false;
  };
  struct Dropping {
    int64_t epoch = 0;
    int64_t version = 0;
    UpdateId push;
  };
  struct Beginning {
    int64_t version = 0;
    std::vector<int64_t> last_steps;  // [worker]
    bool has(int32_t worker, int64_t step) const {
      return step <= last_steps[static_cast<size_t>(worker)];
    }
  };
  struct Book {  // of a shard
    std::vector<Applying> applied;
    std::vector<Dropping> dropped;
    std::vector<Telling> told;
    std::set<std::pair<int32_t, int64_t>> skipped;  // worker, step
    std::map<int64_t, Beginning> began;             // by epoch
    std::map<int64_t, Beginning> rewound;           // likewise
    std::map<int64_t, uint64_t> expected;           // version -> content
    std::vector<std::pair<int64_t, uint64_t>> final;
  };
  struct Update {
    int64_t epoch = 0;  // that made it first
    std::vector<UpdateId> pushes;
    uint64_t content = 0;
  };
  struct History {
    std::vector<Update> updates;         // [version - 1]
    std::map<int64_t, int64_t> cut;      // epoch -> the first version that it lost, or made anew
    std::vector<std::string> conflicts;  // met on the way
  };
  class Checker;

  Book* BookOf(int32_t shard);
  History HistoryOf(int32_t shard, const Book& book) const;

  const PsRules rules_;
  const int32_t workers_;
  std::vector<Book> books_;  // [shard]
  int64_t entries_ = 0;
  int64_t strangers_ = 0;  // calls for shards that do not exist
};

}  // namespace lockstep
