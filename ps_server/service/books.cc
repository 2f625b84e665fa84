#include "ps_server/service/books.h"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

// The step that a frame is about; 0 for start-up and start values.
int64_t StepOf(const PsFrame& header) {
  switch (header.kind()) {
    case PUSH:
    case PULL:
    case PARAMETERS:
      return header.step();
    default:
      return 0;
  }
}

bool Has(const std::vector<Books::Identity>& pushes, const Books::Identity& push) {
  return std::find(pushes.begin(), pushes.end(), push) != pushes.end();
}

}  // namespace

void Books::Open(PsMode mode, std::vector<bool> present, const std::vector<int32_t>& shards) {
  Close();
  mode_ = mode;
  for (const auto& [shard, account] : accounts_) {
    for (const auto& [push, traffic] : account.steps) outside_ += traffic;
    for (const auto& [version, traffic] : account.versions) outside_ += traffic;
  }
  accounts_.clear();
  present_ = std::move(present);
  for (const int32_t shard : shards) {
    accounts_[shard].started.assign(present_.size(), false);
    accounts_[shard].reported_step.assign(present_.size(), 0);
  }
}

void Books::Stand(int32_t shard, const std::vector<int64_t>& last_steps) {
  const auto found = accounts_.find(shard);
  if (found != accounts_.end()) found->second.reported_step = last_steps;
}

void Books::Book(const PsFrame& header, const Traffic& traffic) {
  const int64_t step = StepOf(header);
  const auto found = accounts_.find(header.shard());
  if (step > 0 && found != accounts_.end()) {
    Account& account = found->second;
    // A late frame of a step whose event is out changes no event.
    if (step > account.reported_step[static_cast<size_t>(header.worker())]) {
      account.steps[{header.worker(), step}] += traffic;
      return;
    }
  }
  outside_ += traffic;
}

void Books::BookReplication(int32_t shard, int64_t version, const Traffic& traffic) {
  const auto found = accounts_.find(shard);
  if (found == accounts_.end()) return BookOutside(traffic);
  found->second.versions[version] += traffic;
}

void Books::Apply(UpdateServed served, std::vector<Identity> pushes) {
  const auto found = accounts_.find(served.shard);
  if (found == accounts_.end()) return;
  Account& account = found->second;
  Entry entry;
  for (const auto& [worker, step] : pushes) {
    // Whoever pushes has the start values, and the answers to its earlier steps.
    Started(&account, worker);
    Settle(&account, worker, step - 1);
    entry.owed.push_back(worker);
  }
  entry.served = std::move(served);
  entry.pushes = std::move(pushes);
  account.open.push_back(std::move(entry));
}

void Books::Drop(int32_t shard, const Identity& push) {
  const auto found = accounts_.find(shard);
  if (found == accounts_.end() || Find(shard, push) != nullptr) return;
  Settle(&found->second, push.first, push.second - 1);
  found->second.open.push_back({std::nullopt, {push}, {push.first}});
}

Books::Entry* Books::Find(int32_t shard, const Identity& push) {
  const auto found = accounts_.find(shard);
  if (found == accounts_.end()) return nullptr;
  for (Entry& entry : found->second.open) {
    if (Has(entry.pushes, push)) return &entry;
  }
  return nullptr;
}

void Books::Replicated(int32_t shard, int64_t version, int64_t now_ns) {
  const auto found = accounts_.find(shard);
  if (found == accounts_.end()) return;
  for (Entry& entry : found->second.open) {
    if (!entry.served.has_value() || entry.served->update.version > version) continue;
    if (entry.served->replicate_ns > 0) continue;
    entry.served->replicate_ns = now_ns - entry.served->apply_start_ns - entry.served->apply_ns;
  }
}

void Books::Blocked(int32_t shard, const Identity& push, int64_t blocked_ns) {
  Entry* entry = Find(shard, push);
  if (entry != nullptr && entry->served.has_value()) entry->served->blocked_ns = blocked_ns;
}

void Books::Touch(const PsFrame& header, int64_t now_ns) {
  if (header.kind() != PARAMETERS || header.step() == 0) return;
  Entry* entry = Find(header.shard(), {header.worker(), header.step()});
  if (entry == nullptr || !entry->served.has_value()) return;
  std::vector<WorkerSpan>& replies = entry->served->replies;
  const auto known = std::find_if(replies.begin(), replies.end(), [&](const WorkerSpan& span) {
    return span.worker == header.worker();
  });
  if (known == replies.end()) {
    replies.push_back({header.worker(), now_ns, now_ns});
  } else {
    known->end_ns = now_ns;
  }
}

void Books::Replied(int32_t shard, const Identity& push) {
  const auto found = accounts_.find(shard);
  if (found == accounts_.end()) return;
  Started(&found->second, push.first);
  Settle(&found->second, push.first, push.second);
}

void Books::Settle(Account* account, int32_t worker, int64_t step_max) {
  for (Entry& entry : account->open) {
    const bool his = std::any_of(entry.pushes.begin(), entry.pushes.end(), [&](const Identity& p) {
      return p.first == worker && p.second <= step_max;
    });
    if (his) std::erase(entry.owed, worker);
  }
  for (;;) {
    const Entry* newest = nullptr;
    for (const Entry& entry : account->open) {
      if (mode_ == PsMode::kKOfN && entry.served.has_value()) newest = &entry;
    }
    const auto next =
        std::find_if(account->open.begin(), account->open.end(),
                     [&](const Entry& entry) { return entry.owed.empty() && &entry != newest; });
    if (next == account->open.end()) return;
    Entry entry = std::move(*next);
    account->open.erase(next);
    Report(account, std::move(entry));
  }
}

void Books::Started(Account* account, int32_t worker) {
  account->started[static_cast<size_t>(worker)] = true;
  for (const auto& [shard, other] : accounts_) {
    for (size_t w = 0; w < present_.size(); ++w) {
      if (present_[w] && !other.started[w]) return;
    }
  }
  ReportSetUp();
}

void Books::ReportSetUp() {
  if (set_up_reported_ || present_.empty()) return;
  set_up_reported_ = true;
  reported_set_up_ = outside_;
  if (events_.set_up) events_.set_up(outside_);
}

void Books::Report(Account* account, Entry entry) {
  Traffic traffic;
  for (const Identity& push : entry.pushes) {
    int64_t& reported = account->reported_step[static_cast<size_t>(push.first)];
    reported = std::max(reported, push.second);
    const auto book = account->steps.extract(push);
    if (!book.empty()) traffic += book.mapped();
  }
  if (!entry.served.has_value()) {
    account->dropped += traffic;
    account->rejected.push_back(entry.pushes[0].first);
    return;
  }
  UpdateServed& served = *entry.served;
  served.traffic = traffic;
  served.traffic += std::exchange(account->dropped, {});
  served.rejected = std::exchange(account->rejected, {});
  const auto end = account->versions.upper_bound(served.update.version);
  for (auto book = account->versions.begin(); book != end; ++book) {
    served.replication += book->second;
  }
  account->versions.erase(account->versions.begin(), end);
  served.duplicates = duplicates_ - std::exchange(reported_duplicates_, duplicates_);
  reported_updates_ += served.traffic;
  reported_updates_ += served.replication;
  if (events_.update) events_.update(served);
}

void Books::Close() {
  ReportSetUp();
  for (auto& [shard, account] : accounts_) {
    // Dropped pushes first: they go with an update that is still open.
    std::stable_partition(account.open.begin(), account.open.end(),
                          [](const Entry& entry) { return !entry.served.has_value(); });
    for (Entry& entry : account.open) Report(&account, std::move(entry));
    account.open.clear();
    outside_ += std::exchange(account.dropped, {});
  }
}

Traffic Books::traffic() const {
  Traffic sum = outside_;
  sum += reported_updates_;
  for (const auto& [shard, account] : accounts_) {
    sum += account.dropped;
    for (const auto& [push, traffic] : account.steps) sum += traffic;
    for (const auto& [version, traffic] : account.versions) sum += traffic;
  }
  return sum;
}

}  // namespace lockstep
