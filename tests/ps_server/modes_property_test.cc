// Whole clusters on one shard in one thread, in every mode, in an order drawn at random: chunks
// that come again, broken streams, replaced workers, workers gone for good, restarts of the shard
// from its newest state or from an older one. Whatever happens: a push is applied or dropped once,
// the mode's rule holds for each update and each read, everybody who is left comes to the end, and
// the parameters are those of the recorded updates. A failure prints the seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/ps_server/one_shard.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

constexpr int64_t kCount = 4;
constexpr int64_t kChunk = 2;  // elements
constexpr int64_t kSteps = 8;

struct Faults {
  int in_100 = 0;  // chance of one at each message
  bool shrinks = false;
  bool rewinds = false;
};
struct Case {
  std::string name;
  PsRules rules;
  Faults faults;
};
void PrintTo(const Case& row, std::ostream* out) { *out << row.name; }

using Push = std::pair<int32_t, int64_t>;  // worker, step

class World {
 public:
  World(const Case& row, int32_t workers, uint64_t seed)
      : rules_(row.rules),
        faults_(row.faults),
        seed_(seed),
        random_(seed),
        shard_(OneShardOptions(row.rules, workers, kCount), seed),
        present_(static_cast<size_t>(workers), true),
        workers_(static_cast<size_t>(workers)) {}

  void Run() {
    for (size_t w = 0; w < workers_.size(); ++w) SendStep(w);
    while (!testing::Test::HasFatalFailure()) {
      std::vector<size_t> able;
      for (size_t w = 0; w < workers_.size(); ++w) {
        if (!workers_[w].stream.empty()) able.push_back(w);
      }
      if (able.empty()) break;
      const size_t w = able[Below(able.size())];
      const Message message = workers_[w].stream.front();
      workers_[w].stream.pop_front();
      if (message.offset >= 0 && Below(10) == 0) Deliver(w, message);  // it comes twice
      Deliver(w, message);
      if (Below(20) == 0) saved_.push_back(shard_.shard().Save());
      if (Below(100) < static_cast<size_t>(faults_.in_100)) Break();
    }
  }

  void CheckEnd() {
    for (size_t w = 0; w < workers_.size(); ++w) {
      if (!present_[w]) continue;
      ASSERT_TRUE(workers_[w].finished == kSteps && !workers_[w].asks.has_value())
          << "worker " << w << " is blocked for ever";
      int64_t accepted = 0;
      for (const ShardUpdate& update : updates_) {
        accepted += std::count_if(update.ids.begin(), update.ids.end(), [w](const UpdateId& id) {
          return id.worker == static_cast<int32_t>(w);
        });
      }
      int64_t rejected = 0;
      for (const auto& [push, told] : rejected_) {
        rejected += push.first == static_cast<int32_t>(w) ? 1 : 0;
        EXPECT_TRUE(told || push.first != static_cast<int32_t>(w))
            << "worker " << w << " was not told of step " << push.second;
      }
      EXPECT_EQ(accepted + rejected, kSteps) << "worker " << w;
    }
    const bool mean = !AppliesAlone(rules_.mode);
    const Replayed replayed = Replay(seed_, updates_, kCount, rules_.optimizer, mean, rules_.k);
    EXPECT_TRUE(SameBits(*shard_.shard().parameters(), replayed.versions.back()));
    EXPECT_EQ(shard_.shard().version(), static_cast<int64_t>(updates_.size()));
  }

  const std::vector<ShardUpdate>& updates() const { return updates_; }
  int64_t rejected() const { return static_cast<int64_t>(rejected_.size()); }
  int64_t blocked_ns() const { return blocked_ns_; }
  int64_t clock_max() const { return clock_max_; }
  int64_t broken() const { return broken_; }

 private:
  struct Message {
    int64_t step = 0;
    int64_t offset = -1;  // a chunk of its push; -1: the pull
    int64_t base = 0;
  };
  struct Worker {
    int64_t incarnation = 1;
    std::optional<int64_t> asks = 0;  // it has no parameters, and asks for those of this step
    int64_t finished = 0;             // newest step that was answered
    int64_t version = 0;              // in that answer
    int64_t round = 0;                // likewise
    int64_t told = 0;                 // newest version that it has heard of, and that is not void
    std::deque<Message> stream = {};
  };

  size_t Below(size_t n) { return random_() % n; }

  // The push of the step after the finished one, and its pull.
  void SendStep(size_t w) {
    Worker& worker = workers_[w];
    if (worker.asks.has_value()) {
      worker.stream.push_back({*worker.asks, -1});
      return;
    }
    if (worker.finished == kSteps) return;
    for (int64_t offset = 0; offset < kCount; offset += kChunk) {
      worker.stream.push_back({worker.finished + 1, offset, worker.round});
    }
    worker.stream.push_back({worker.finished + 1, -1});
    bases_[{static_cast<int32_t>(w), worker.finished + 1}] = worker.round;
  }

  void Deliver(size_t w, const Message& message) {
    ++shard_.now_ns;
    const auto worker = static_cast<int32_t>(w);
    const int64_t incarnation = workers_[w].incarnation;
    const int64_t round = shard_.shard().round();
    const ShardOutput output = message.offset < 0
                                   ? shard_.Pull(worker, message.step, incarnation)
                                   : shard_.Push(worker, message.step, message.base, message.offset,
                                                 message.offset + kChunk, incarnation);
    ASSERT_TRUE(output.refusals.empty()) << output.refusals[0].status;
    if (output.dropped.has_value()) OnDrop(*output.dropped, round);
    if (output.update.has_value()) OnUpdate(*output.update);
    for (const ShardReply& reply : output.replies) OnReply(reply);
  }

  int64_t LastOf(int32_t w) const { return last_.contains(w) ? last_.at(w) : 0; }

  void OnDrop(const UpdateId& id, int64_t round) {
    ASSERT_EQ(id.step, LastOf(id.worker) + 1);
    EXPECT_LT((bases_[{id.worker, id.step}]), round) << "it was not late";
    last_[id.worker] = id.step;
    EXPECT_TRUE(rejected_.emplace(Push{id.worker, id.step}, false).second);
  }

  void OnUpdate(const ShardUpdate& update) {
    ASSERT_EQ(update.version, static_cast<int64_t>(updates_.size()) + 1);
    if (rules_.mode == PsMode::kKOfN) CheckFirstK(update);
    for (size_t i = 0; i < update.ids.size(); ++i) {
      const UpdateId& id = update.ids[i];
      ASSERT_EQ(id.step, LastOf(id.worker) + 1) << "worker " << id.worker;
      EXPECT_TRUE(i == 0 || update.ids[i - 1].worker < id.worker) << "not in rank order";
      last_[id.worker] = id.step;
    }
    if (update.staleness.has_value()) {
      clock_max_ = std::max(clock_max_, update.staleness->clock);
    }
    updates_.push_back(update);
  }

  static bool EndsRound(const ShardUpdate& update) {
    return update.late.size() < update.ids.size();
  }

  // Before `last_` and `updates_` know of it.
  void CheckFirstK(const ShardUpdate& update) {
    const int64_t round = std::count_if(updates_.begin(), updates_.end(), EndsRound);
    const auto late = [&update](int32_t w) {
      return std::find(update.late.begin(), update.late.end(), w) != update.late.end();
    };
    int64_t fresh = 0;
    for (const UpdateId& id : update.ids) {
      EXPECT_EQ((bases_[{id.worker, id.step}] == round), !late(id.worker)) << id.worker;
      if (!late(id.worker)) ++fresh;
    }
    int64_t able = 0;
    for (size_t w = 0; w < workers_.size(); ++w) {
      const auto worker = static_cast<int32_t>(w);
      const bool makes_no_other = late(worker) && LastOf(worker) + 1 == kSteps;
      const bool at_work = present_[w] && LastOf(worker) < kSteps && !shard_.shard().redoes(worker);
      if (at_work && !makes_no_other) ++able;
    }
    const int64_t needed = std::min<int64_t>(rules_.k, able);
    if (EndsRound(update)) {
      EXPECT_EQ(fresh, needed);
      return;
    }
    EXPECT_TRUE(rules_.apply_late);
    EXPECT_EQ(update.ids.size(), 1U);
  }

  void OnReply(const ShardReply& reply) {
    Worker& worker = workers_[static_cast<size_t>(reply.worker)];
    EXPECT_TRUE(reply.version >= worker.told || reply.step < last_[reply.worker])
        << "a pull went back";
    worker.told = std::max(worker.told, reply.version);
    blocked_ns_ += reply.blocked_ns;
    CheckBound(reply);
    const auto rejected = rejected_.find({reply.worker, reply.step});
    if (reply.step == last_[reply.worker]) {
      EXPECT_EQ(reply.rejected, rejected != rejected_.end()) << "step " << reply.step;
    }
    if (rejected != rejected_.end()) rejected->second = true;
    worker.version = reply.version;
    worker.round = reply.round;
    worker.finished = reply.step;
    worker.asks.reset();
    SendStep(static_cast<size_t>(reply.worker));
  }

  // Whose steps the version of a reply contains.
  void CheckBound(const ShardReply& reply) {
    std::map<int32_t, int64_t> contained;
    for (int64_t v = 0; v < reply.version; ++v) {
      for (const UpdateId& id : updates_[static_cast<size_t>(v)].ids) {
        contained[id.worker] = id.step;
      }
    }
    for (size_t w = 0; w < workers_.size(); ++w) {
      if (!present_[w] || !AppliesAlone(rules_.mode)) continue;
      const int64_t step = contained[static_cast<int32_t>(w)];
      EXPECT_GE(step, reply.least_step) << "worker " << w;
      if (rules_.mode != PsMode::kBounded) continue;
      EXPECT_GE(step, reply.step - rules_.staleness) << "the bound is broken by worker " << w;
      // A barrier: none of the next step either, unless the step is made again.
      if (rules_.staleness == 0 && reply.step == last_[reply.worker]) {
        EXPECT_EQ(step, reply.step) << "worker " << w;
      }
    }
  }

  void Break() {
    ++broken_;
    const size_t w = Below(workers_.size());
    const size_t kind = Below(5);
    if (kind == 0 && faults_.shrinks) return Shrink(w);
    if (kind == 1) return Restart(shard_.shard().Save());
    if (kind == 2 && faults_.rewinds && !saved_.empty()) {
      const ShardState state = saved_[Below(saved_.size())];
      return Restart(state, /*rewound=*/true);
    }
    if (!present_[w]) return;
    if (kind == 3) return Replace(w);
    shard_.Attach(static_cast<int32_t>(w), workers_[w].incarnation);
    workers_[w].stream.clear();
    SendStep(w);
  }

  // A new process knows nothing: it goes on from what all shards have of it. Another shard may lack
  // the step that this one has; not if somebody has read what this step is part of.
  void Replace(size_t w) {
    Worker& worker = workers_[w];
    worker = {.incarnation = worker.incarnation + 1, .told = worker.told};
    const auto rank = static_cast<int32_t>(w);
    EXPECT_TRUE(shard_.Attach(rank, worker.incarnation).refusals.empty());
    const int64_t last = shard_.shard().last_step(rank);
    const bool is_first = std::all_of(last_.begin(), last_.end(),
                                      [last](const auto& other) { return other.second <= last; });
    const int64_t resume = last > 0 && is_first ? last - static_cast<int64_t>(Below(2)) : last;
    worker.asks = resume;
    if (resume == last) return SendStep(w);
    Deliver(w, {resume, -1});  // nobody goes on before it has made this step again
  }

  void Shrink(size_t w) {
    if (std::count(present_.begin(), present_.end(), true) == 1) return;
    present_[w] = false;
    Restart(shard_.shard().Save());
  }

  // The shard begins with `state`; what came after it is void.
  void Restart(const ShardState& state, bool rewound = false) {
    updates_.resize(static_cast<size_t>(state.version));
    saved_.erase(
        std::remove_if(saved_.begin(), saved_.end(),
                       [&state](const ShardState& s) { return s.version > state.version; }),
        saved_.end());
    for (size_t w = 0; w < workers_.size(); ++w) {
      const auto rank = static_cast<int32_t>(w);
      last_[rank] = state.workers[w].last_step;
      for (auto it = rejected_.begin(); it != rejected_.end();) {
        const bool is_void = it->first.first == rank && it->first.second > last_[rank];
        it = is_void ? rejected_.erase(it) : std::next(it);
      }
    }
    shard_.Become(state, present_);
    for (size_t w = 0; w < workers_.size(); ++w) Rejoin(w, rewound);
  }

  // After a rewind a worker's parameters may have updates that are void, so it asks for new ones.
  void Rejoin(size_t w, bool rewound) {
    Worker& worker = workers_[w];
    worker.stream.clear();
    if (!present_[w]) return;
    const auto rank = static_cast<int32_t>(w);
    EXPECT_TRUE(shard_.Attach(rank, worker.incarnation).refusals.empty());
    if (rewound) worker.told = 0;
    if (rewound || worker.asks.has_value()) worker.asks = shard_.shard().last_step(rank);
    SendStep(w);
  }

  const PsRules rules_;
  const Faults faults_;
  const uint64_t seed_;
  std::mt19937_64 random_;
  OneShard shard_;
  std::vector<bool> present_;
  std::vector<Worker> workers_;
  std::vector<ShardState> saved_;
  std::vector<ShardUpdate> updates_;
  std::map<int32_t, int64_t> last_;  // worker: its newest step, applied or dropped
  std::map<Push, int64_t> bases_;
  std::map<Push, bool> rejected_;  // whether its worker has been told
  int64_t blocked_ns_ = 0;
  int64_t clock_max_ = 0;
  int64_t broken_ = 0;
};

std::vector<Case> Cases() {
  const auto rules_of = [](PsMode mode) {
    PsRules rules;
    rules.mode = mode;
    rules.steps = kSteps;
    rules.optimizer = {.learning_rate = 0.02F, .momentum = 0.5F, .divisor = 1.0F};
    return rules;
  };
  std::vector<Case> modes;
  modes.push_back({"sync", rules_of(PsMode::kSync), {}});
  modes.push_back({"async", rules_of(PsMode::kAsync), {}});
  for (const int32_t staleness : {0, 1, 2}) {
    modes.push_back({absl::StrCat("bounded_", staleness), rules_of(PsMode::kBounded), {}});
    modes.back().rules.staleness = staleness;
  }
  for (const bool apply_late : {false, true}) {
    for (const int32_t k : {1, 2, 3}) {
      modes.push_back({absl::StrCat("k_of_n_", k, apply_late ? "_apply" : "_drop"),
                       rules_of(PsMode::kKOfN),
                       {}});
      modes.back().rules.k = k;
      modes.back().rules.apply_late = apply_late;
    }
  }
  std::vector<Case> cases;
  for (const Case& mode : modes) {
    cases.push_back({mode.name + "_undisturbed", mode.rules, {}});
    cases.push_back({mode.name + "_restarts", mode.rules, {.in_100 = 8}});
    cases.push_back({mode.name + "_rewinds", mode.rules, {.in_100 = 4, .rewinds = true}});
    cases.push_back({mode.name + "_shrinks", mode.rules, {.in_100 = 4, .shrinks = true}});
  }
  return cases;
}

class Modes : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Clusters, Modes, testing::ValuesIn(Cases()),
                         [](const auto& row) { return row.param.name; });

TEST_P(Modes, KeepTheirPromises) {
  const PsRules& rules = GetParam().rules;
  int64_t clock_max = 0;
  int64_t blocked_ns = 0;
  int64_t rejected = 0;
  int64_t broken = 0;
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    for (const int32_t workers : {3, 5}) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", workers ", workers));
      Case row = GetParam();
      if (!AppliesAlone(rules.mode)) row.rules.optimizer.divisor = static_cast<float>(workers);
      World world(row, workers, seed);
      world.Run();
      if (HasFatalFailure()) return;
      world.CheckEnd();
      if (HasFailure()) return;
      clock_max = std::max(clock_max, world.clock_max());
      blocked_ns += world.blocked_ns();
      rejected += world.rejected();
      broken += world.broken();
    }
  }
  // The rules were put to the test.
  const bool bounded = rules.mode == PsMode::kBounded;
  if (bounded) {
    EXPECT_EQ(clock_max, rules.staleness);
  }
  EXPECT_EQ(blocked_ns > 0, bounded);
  EXPECT_EQ(rejected > 0, rules.mode == PsMode::kKOfN && !rules.apply_late);
  EXPECT_EQ(broken > 0, GetParam().faults.in_100 > 0);
}

}  // namespace
}  // namespace lockstep
