#include "experiments/coordinator/shards.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace lockstep {
namespace {

int ReplicasOf(const RunConfig& run) {
  const Ps& ps = run.variant().ps();
  return ps.policy() == Ps::CHAIN ? ps.replicas() : 0;
}

// "31", "30 and 31".
std::string Listed(const std::vector<std::string>& words) {
  if (words.size() < 2) return absl::StrJoin(words, "");
  const std::vector<std::string> first(words.begin(), words.end() - 1);
  return absl::StrCat(absl::StrJoin(first, ", "), " and ", words.back());
}

}  // namespace

std::string Named(const std::string& noun, const std::set<int>& indices) {
  std::vector<std::string> words;
  words.reserve(indices.size());
  for (const int index : indices) words.push_back(absl::StrCat(index));
  return absl::StrCat(noun, indices.size() == 1 ? " " : "s ", Listed(words));
}

Shards::Shards(const RunConfig& run)
    : servers_(run.servers()),
      replicas_(ReplicasOf(run)),
      chains_(InitialChains(servers_, replicas_)),
      cuts_(servers_) {
  CHECK(run.variant().has_ps());
}

void Shards::Report(int server, const Broken& broken) {
  std::map<int, int64_t>& held = held_[server];
  for (const ShardHeld& shard : broken.held()) held[shard.shard()] = shard.version();
}

void Shards::Spoil() {
  if (restoring_.has_value()) cuts_.Spoil(*restoring_);
}

bool Shards::Has(int server, int shard) const {
  const auto held = held_.find(server);
  return held != held_.end() && held->second.contains(shard);
}

Chains Shards::Next(const std::set<int>& present) const {
  return NextChains(chains_, replicas_, present,
                    [this](int server, int shard) { return Has(server, shard); });
}

bool Shards::MustRestore(const std::set<int>& present) const {
  return restoring_.has_value() || !LostShards(Next(present)).empty();
}

std::string Shards::Hopeless(const std::set<int>& present, int64_t finished) const {
  if (!MustRestore(present) || cuts_.newest().has_value()) return "";
  if (restoring_.has_value()) return "no snapshot is left that can be restored";
  const std::vector<int> lost = LostShards(Next(present));
  std::set<int> holders;
  for (const int shard : lost) {
    const std::vector<int>& servers = chains_[static_cast<size_t>(shard)].servers;
    holders.insert(servers.begin(), servers.end());
  }
  const bool one = lost.size() == 1;
  const bool durable = replicas_ > 0;  // then what was acknowledged was on more than one server
  return absl::StrCat(
      Named("shard", {lost.begin(), lost.end()}), one ? " is" : " are",
      " lost: ", Named("server", holders), " held ", one ? "it" : "them", "; ",
      durable ? absl::StrCat("last durable step ", finished) : "nothing was saved yet");
}

std::string Shards::Begin(const std::set<int>& present, Start* start) {
  std::string change;
  if (begun_) {
    const bool restore = MustRestore(present);
    restoring_ = restore ? cuts_.newest() : std::nullopt;
    CHECK(restoring_.has_value() == restore);
    const Chains next = restore ? RestoredChains(servers_, replicas_) : Next(present);
    change = restore ? absl::StrCat("every shard goes back to its snapshot of step ", *restoring_)
                     : Change(next);
    if (restore) cuts_.RewindTo(*restoring_);
    chains_ = next;
  }
  begun_ = true;
  held_.clear();
  catch_up_.Clear();
  start->set_restore(restoring_.has_value());
  start->set_step(restoring_.value_or(0));
  for (int shard = 0; shard < servers_; ++shard) {
    const Chain& chain = chains_[static_cast<size_t>(shard)];
    ShardChain* named = start->add_chain();
    named->set_shard(shard);
    named->mutable_server()->Add(chain.servers.begin(), chain.servers.end());
    named->mutable_joining()->Add(chain.joining.begin(), chain.joining.end());
  }
  return change;
}

// Which shards have another head, and who begins to copy which.
std::string Shards::Change(const Chains& next) const {
  std::vector<std::string> changes;
  std::map<int, std::set<int>> copied;  // [server]: shards
  for (int shard = 0; shard < servers_; ++shard) {
    const Chain& before = chains_[static_cast<size_t>(shard)];
    const Chain& after = next[static_cast<size_t>(shard)];
    const int head = after.servers.front();
    if (head != before.servers.front()) {
      changes.push_back(absl::StrCat("shard ", shard, " goes on at server ", head, " with all ",
                                     held_.at(head).at(shard), " updates"));
    }
    for (const int server : after.joining) copied[server].insert(shard);
  }
  for (const auto& [server, shards] : copied) {
    changes.push_back(absl::StrCat("server ", server, " copies ", Named("shard", shards)));
  }
  return absl::StrJoin(changes, ", ");
}

}  // namespace lockstep
