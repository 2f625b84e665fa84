#include "experiments/simulate/audit.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/fingerprint.h"
#include "base/numeric/optimizer.h"

namespace lockstep {
namespace {

constexpr size_t kBrokenMax = 20;

uint64_t ContentOf(std::span<const float> values) { return Fingerprint64(std::as_bytes(values)); }

std::string NameOf(const std::vector<UpdateId>& ids) {
  return absl::StrJoin(ids, ", ", [](std::string* out, const UpdateId& id) {
    absl::StrAppend(out, "worker ", id.worker, " step ", id.step);
  });
}

}  // namespace

SimAudit::SimAudit(AuditOptions options, const SimModel& model)
    : options_(std::move(options)),
      model_(model),
      ledger_(LedgerRules(options_.rules), options_.workers,
              static_cast<int32_t>(options_.ranges.size())) {}

// Absent workers are waited for by nobody, and the ledger does not know who was absent when: the
// bound is checked here.
PsRules SimAudit::LedgerRules(PsRules rules) {
  if (rules.mode == PsMode::kBounded) rules.mode = PsMode::kAsync;
  return rules;
}

void SimAudit::Break(const std::string& what) {
  const bool known = std::find(broken_.begin(), broken_.end(), what) != broken_.end();
  if (!known && broken_.size() < kBrokenMax) broken_.push_back(what);
}

void SimAudit::OnStart(const Start& start) {
  std::vector<bool>& present = present_[start.epoch()];
  present.assign(static_cast<size_t>(options_.workers), false);
  for (const MemberInfo& member : start.member()) {
    if (member.role() == WORKER) present[static_cast<size_t>(member.index())] = true;
  }
  if (start.restore()) restores_.insert(start.epoch());
}

void SimAudit::OnGradient(int32_t worker, int64_t step, std::span<const float> gradient) {
  std::vector<std::vector<float>>& known = gradients_[{worker, step}];
  const std::vector<float> values(gradient.begin(), gradient.end());
  if (std::find(known.begin(), known.end(), values) == known.end()) known.push_back(values);
}

void SimAudit::OnMoved(int64_t process, int64_t epoch, const Exchange& exchange) {
  for (const auto& [shard, seat] : exchange.seats()) {
    if (seat.copy.has_value() && seat.copy->has_state()) OnCopy(process, epoch, seat);
  }
}

void SimAudit::OnCopy(int64_t process, int64_t epoch, const Seat& seat) {
  const int32_t shard = seat.shard;
  Seen& seen = seen_[{process, shard}];
  const bool moved = seen.version == nullptr || seen.version->number != seat.copy->version();
  if (!moved && seen.epoch == epoch && options_.rules.mode != PsMode::kKOfN) return;
  const ShardState state = seat.copy->Save();
  const std::string what = absl::StrCat("shard ", shard, " version ", state.version, " at process ",
                                        process, ", epoch ", epoch, ": ");
  NoteDrops(epoch, seat, seen, state);
  if (seat.place.head && seen.epoch != epoch) {
    std::vector<int64_t> last_steps;
    for (const WorkerMark& mark : state.workers) last_steps.push_back(mark.last_step);
    const bool restored = restores_.contains(epoch) && rewound_.emplace(epoch, shard).second;
    if (restored) {
      ledger_.Rewound(epoch, shard, state.version, std::move(last_steps));
      seen = {};
    } else {
      ledger_.Began(epoch, shard, state.version, std::move(last_steps));
    }
  }
  if (seen.epoch != epoch) NoteSkips(epoch, seat, state, what);
  const Sight sight = Find(seat, seen, state, what);
  if (moved && !sight.ids.empty()) {
    ledger_.Applied(static_cast<int32_t>(process), epoch, shard, state.version, sight.ids,
                    sight.version->content);
  }
  seen.version = sight.version;
  seen.marks = state.workers;
  seen.epoch = epoch;
  seen_in_[{process, epoch, shard}] = seen;
}

bool SimAudit::WasAway(int32_t worker, int64_t before_epoch) const {
  return std::any_of(present_.begin(), present_.end(), [&](const auto& group) {
    return group.first < before_epoch && !group.second[static_cast<size_t>(worker)];
  });
}

// At the first sight of a copy in an epoch. It may only be somebody who was away in an earlier one,
// and not be put further than the bound asks for. What a head that is gone had skipped, and its
// successor has not, is made.
void SimAudit::NoteSkips(int64_t epoch, const Seat& seat, const ShardState& state,
                         const std::string& what) {
  if (options_.rules.mode != PsMode::kBounded) return;
  auto& skips = skips_[seat.shard];
  if (seat.place.head) {
    std::erase_if(skips, [&state, epoch](const auto& skip) {
      const auto& [worker, step] = skip.first;
      const bool lacks = step > state.workers[static_cast<size_t>(worker)].last_step;
      return lacks && skip.second < epoch;
    });
  }
  const auto [first, last] = shelves_[seat.shard].equal_range(state.version);
  const uint64_t content = ContentOf(*state.parameters);
  const auto known =
      std::find_if(first, last, [&](const auto& each) { return each.second.content == content; });
  if (known == last) return;  // the start values, or Find says so
  const std::vector<bool>& present = present_.at(epoch);
  int64_t furthest = 0;
  for (size_t w = 0; w < present.size(); ++w) {
    if (present[w]) furthest = std::max(furthest, state.workers[w].last_step);
  }
  for (size_t w = 0; w < present.size(); ++w) {
    const auto worker = static_cast<int32_t>(w);
    const int64_t stood = StandsAt(seat.shard, worker, known->second.marks[w].last_step, epoch);
    const int64_t stands = state.workers[w].last_step;
    if (stands <= stood) continue;
    const bool allowed =
        present[w] && WasAway(worker, epoch) && stands <= furthest - options_.rules.staleness;
    if (!allowed) {
      Break(absl::StrCat(what, "worker ", worker, " skips steps ", stood + 1, " to ", stands,
                         "; the first one is at ", furthest));
    }
    for (int64_t step = stood + 1; step <= stands; ++step) skips[{worker, step}] = epoch;
  }
}

int64_t SimAudit::StandsAt(int32_t shard, int32_t worker, int64_t step, int64_t epoch) const {
  const auto skips = skips_.find(shard);
  if (skips == skips_.end()) return step;
  while (true) {
    const auto skip = skips->second.find({worker, step + 1});
    if (skip == skips->second.end() || skip->second > epoch) return step;
    ++step;
  }
}

void SimAudit::NoteDrops(int64_t epoch, const Seat& seat, const Seen& seen,
                         const ShardState& state) {
  if (options_.rules.mode != PsMode::kKOfN || seen.version == nullptr) return;
  for (const UpdateId& id : Between(seat, seen.marks, state.workers, /*dropped=*/true)) {
    drops_[seat.shard].push_back({epoch, state.version, id});
  }
}

std::vector<UpdateId> SimAudit::Between(const Seat& seat, const std::vector<WorkerMark>& before,
                                        const std::vector<WorkerMark>& after, bool dropped) const {
  std::vector<UpdateId> ids;
  for (size_t w = 0; w < after.size(); ++w) {
    const auto worker = static_cast<int32_t>(w);
    const WorkerMark was = before.empty() ? WorkerMark{} : before[w];
    const bool drop = after[w].dropped > was.dropped;
    const int64_t stood = StandsAt(seat.shard, worker, was.last_step, seat.place.epoch);
    if (after[w].last_step <= stood || drop != dropped) continue;
    ids.push_back({worker, after[w].incarnation, after[w].last_step, seat.shard});
  }
  return ids;
}

SimAudit::Sight SimAudit::Find(const Seat& seat, const Seen& seen, const ShardState& state,
                               const std::string& what) {
  const uint64_t content = ContentOf(*state.parameters);
  Shelf& shelf = shelves_[state.shard];
  const auto [first, last] = shelf.equal_range(state.version);
  const bool next = seen.version != nullptr && seen.version->number + 1 == state.version;
  // The same pushes in another order may have made the same bits after a rewind.
  const auto known = std::find_if(first, last, [&](const auto& each) {
    return each.second.content == content && (!next || each.second.before == seen.version);
  });
  std::vector<UpdateId> ids;
  if (next) ids = Between(seat, seen.marks, state.workers, /*dropped=*/false);
  if (known != last) {
    const auto beside = Between(seat, known->second.marks, state.workers, false);
    if (!beside.empty()) {
      Break(absl::StrCat(what, "it has marked ", NameOf(beside), " beside its update"));
    }
    return {&known->second, std::move(ids)};
  }
  std::optional<Version> made;
  if (next) {
    made = Replay(state.shard, *seen.version, state, ids);
    if (!made.has_value()) {
      Break(absl::StrCat(what, "it is not the version before and the pushes of ", NameOf(ids)));
      made = Version{};
    }
    made->before = seen.version;
  } else if (state.version == 0) {
    made = Version{};
  } else {
    Break(absl::StrCat(what, "nobody has ever made it"));
    made = Version{};
  }
  made->number = state.version;
  made->parameters = *state.parameters;
  made->optimizer_state = state.optimizer_state;
  made->marks = state.workers;
  made->round = state.round;
  made->content = content;
  ++versions_;
  return {&shelf.emplace(state.version, *std::move(made))->second, std::move(ids)};
}

std::optional<SimAudit::Version> SimAudit::Replay(int32_t shard, const Version& before,
                                                  const ShardState& state,
                                                  const std::vector<UpdateId>& ids) const {
  if (ids.empty()) return std::nullopt;
  const int64_t count = options_.ranges[static_cast<size_t>(shard)].count;
  OptimizerOptions optimizer = options_.rules.optimizer;
  const bool mean = optimizer.divisor == static_cast<float>(options_.workers);
  // A late push that is applied alone, which ends no round, counts as one of k.
  const bool alone = options_.rules.mode == PsMode::kKOfN && state.round == before.round;
  if (alone && ids.size() != 1) return std::nullopt;
  if (mean) {
    optimizer.divisor =
        static_cast<float>(alone ? options_.rules.k : static_cast<int64_t>(ids.size()));
  }
  const uint64_t content = ContentOf(*state.parameters);
  for (const std::vector<float>& sum : Sums(shard, ids)) {
    Version made = before;
    OptimizerStep(optimizer, state.version, sum.data(), made.optimizer_state.data(), count,
                  made.parameters.data(), made.parameters.data(), count);
    made.content = ContentOf(made.parameters);
    if (made.content == content) return made;
  }
  return std::nullopt;
}

// Each identity may have been pushed with other gradients before; one of them it was.
std::vector<std::vector<float>> SimAudit::Sums(int32_t shard,
                                               const std::vector<UpdateId>& ids) const {
  const ShardRange& range = options_.ranges[static_cast<size_t>(shard)];
  std::vector<std::vector<float>> sums = {{}};
  for (const UpdateId& id : ids) {
    const auto pushed = gradients_.find({id.worker, id.step});
    if (pushed == gradients_.end()) return {};
    std::vector<std::vector<float>> longer;
    for (const std::vector<float>& sum : sums) {
      for (const std::vector<float>& gradient : pushed->second) {
        std::vector<float> next;
        for (const TensorPart& part : range.parts) {
          next.insert(next.end(), gradient.begin() + part.flat,
                      gradient.begin() + part.flat + part.count);
        }
        for (size_t i = 0; i < sum.size(); ++i) next[i] = sum[i] + next[i];
        longer.push_back(std::move(next));
      }
    }
    sums = std::move(longer);
  }
  return sums;
}

// Absent workers are waited for by nobody, so that nobody is blocked for ever; the bound is about
// those in the group, and what they missed while they were away is not asked of them.
int64_t SimAudit::LeastStep(int32_t shard, const std::vector<WorkerMark>& marks,
                            int64_t epoch) const {
  const std::vector<bool>& present = present_.at(epoch);
  int64_t least = -1;
  for (size_t w = 0; w < marks.size(); ++w) {
    const int64_t step = StandsAt(shard, static_cast<int32_t>(w), marks[w].last_step, epoch);
    if (present[w] && (least < 0 || step < least)) least = step;
  }
  return std::max<int64_t>(least, 0);
}

void SimAudit::OnTold(int32_t worker, int64_t server_process, const PsFrame& header, bool answer) {
  const Seen& seen = seen_in_[{server_process, header.epoch(), header.shard()}];
  const Version* version = seen.version;
  while (version != nullptr && version->number > header.version()) version = version->before;
  if (version == nullptr) {
    return Break(absl::StrCat("worker ", worker, " was told version ", header.version(),
                              " of shard ", header.shard(), " in epoch ", header.epoch(),
                              ", which its server has not made"));
  }
  const WorkerMark mark =
      version->marks.empty() ? WorkerMark{} : version->marks[static_cast<size_t>(worker)];
  // A drop makes no version, and of a late one the version may have been there before.
  const bool has_own =
      options_.rules.mode == PsMode::kKOfN ||
      StandsAt(header.shard(), worker, mark.last_step, header.epoch()) >= header.step();
  if (!has_own) {
    Break(absl::StrCat("shard ", header.shard(), ": worker ", worker, " takes up step ",
                       header.step(), " with version ", header.version(), ", which has only step ",
                       mark.last_step, " of it"));
  }
  const int64_t least = LeastStep(header.shard(), version->marks, header.epoch());
  if (options_.rules.mode == PsMode::kBounded && least < header.step() - options_.rules.staleness) {
    Break(absl::StrCat("shard ", header.shard(), ": worker ", worker, " read version ",
                       header.version(), " after step ", header.step(),
                       ": it contains all steps of those present up to ", least, ", bound ",
                       options_.rules.staleness));
  }
  // With staleness 0 a step has one version. Whoever takes up the step before its last one gets the
  // newest, as nobody keeps two; then it makes its last step again and is given that one's. These
  // versions go back, and are no answers to any push; that they hold the bound and its own step is
  // checked above. In the other modes a reading to go on from counts as one of step 0, and so does
  // K_OF_N's answer to a step that is made again after a rewind, where this shard is further: it
  // may not go back, but it does not say what became of a push before the last.
  const bool goes_back =
      options_.rules.mode == PsMode::kBounded && options_.rules.staleness == 0 && !answer;
  if (goes_back) return;
  const WorkerMark& newest = seen.marks[static_cast<size_t>(worker)];
  const bool says =
      answer && (options_.rules.mode != PsMode::kKOfN || header.step() == newest.last_step);
  told_[header.shard()].push_back({static_cast<int32_t>(server_process), header.epoch(), worker,
                                   says ? header.step() : 0, header.version(), least,
                                   says && header.rejected()});
}

// Who is left out, or not replaced before the others were through, does not make all steps.
void SimAudit::NoteAbsent(int32_t shard, const std::vector<WorkerMark>& marks) {
  const std::vector<bool>& present = present_.rbegin()->second;
  for (size_t w = 0; w < marks.size(); ++w) {
    if (present[w]) continue;
    for (int64_t step = marks[w].last_step + 1; step <= options_.steps; ++step) {
      ledger_.Skipped(shard, static_cast<int32_t>(w), step);
    }
  }
}

void SimAudit::OnFinished(int32_t worker, int64_t step, std::span<const float> parameters) {
  if (step == options_.steps) finals_[worker] = {parameters.begin(), parameters.end()};
}

void SimAudit::OnEnd(const std::map<int32_t, int64_t>& process_of_shard) {
  for (const auto& [shard, process] : process_of_shard) {
    const Version* const version = seen_[{process, shard}].version;
    if (version == nullptr) {
      Break(absl::StrCat("shard ", shard, " ends without a version"));
    } else {
      ledger_.Final(shard, version->number, version->content);
      NoteAbsent(shard, seen_[{process, shard}].marks);
    }
  }
  for (const auto& [shard, told] : told_) {
    for (const Telling& each : told) {
      ledger_.Told(each.server, each.epoch, shard, each.worker, each.step, each.version,
                   each.least_step, each.rejected);
    }
  }
  for (const auto& [shard, skips] : skips_) {
    for (const auto& [skip, epoch] : skips) ledger_.Skipped(shard, skip.first, skip.second);
  }
  for (const auto& [shard, drops] : drops_) {
    for (const Drop& drop : drops) ledger_.Dropped(drop.epoch, shard, drop.version, drop.push);
  }
  for (const std::string& what : ledger_.Check(options_.steps)) Break(what);
  if (!options_.undisturbed || options_.rules.mode != PsMode::kSync) return;
  const std::vector<float> undisturbed = Undisturbed();
  for (const auto& [worker, parameters] : finals_) {
    if (parameters == undisturbed) continue;
    Break(absl::StrCat("worker ", worker, " ends with other bits than the undisturbed run's"));
  }
}

std::vector<float> SimAudit::Undisturbed() const {
  std::vector<float> parameters = model_.StartValues();
  const auto count = static_cast<int64_t>(parameters.size());
  std::vector<float> state(static_cast<size_t>(count * StateSlots(options_.rules.optimizer.kind)),
                           0.0F);
  for (int64_t step = 1; step <= options_.steps; ++step) {
    std::vector<float> sum = model_.Gradient(0, step, parameters);
    for (int32_t worker = 1; worker < options_.workers; ++worker) {
      const std::vector<float> gradient = model_.Gradient(worker, step, parameters);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
    }
    OptimizerStep(options_.rules.optimizer, step, sum.data(), state.data(), count,
                  parameters.data(), parameters.data(), count);
  }
  return parameters;
}

double SimAudit::Loss() const {
  double loss = 0;
  for (const auto& [worker, parameters] : finals_) loss += model_.Loss(parameters);
  return finals_.empty() ? 0 : loss / static_cast<double>(finals_.size());
}

}  // namespace lockstep
