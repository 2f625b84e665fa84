#include "ps_server/core/ledger.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

constexpr size_t kBrokenMax = 20;

bool SamePushes(const std::vector<UpdateId>& a, const std::vector<UpdateId>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.worker == y.worker && x.step == y.step;
  });
}

std::string NameOf(const std::vector<UpdateId>& pushes) {
  std::string text;
  for (const UpdateId& id : pushes) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "worker ", id.worker, " step ", id.step);
  }
  return text;
}

}  // namespace

Ledger::Ledger(const PsRules& rules, int32_t workers, int32_t shards)
    : rules_(rules), workers_(workers), books_(static_cast<size_t>(shards)) {}

Ledger::Book* Ledger::BookOf(int32_t shard) {
  if (shard < 0 || static_cast<size_t>(shard) >= books_.size()) {
    ++strangers_;
    return nullptr;
  }
  return ++entries_ > kEntriesMax ? nullptr : &books_[static_cast<size_t>(shard)];
}

void Ledger::Applied(int32_t server, int64_t epoch, int32_t shard, int64_t version,
                     std::span<const UpdateId> pushes, uint64_t content) {
  if (Book* book = BookOf(shard)) {
    book->applied.push_back({server, epoch, version, {pushes.begin(), pushes.end()}, content});
  }
}

void Ledger::Dropped(int64_t epoch, int32_t shard, int64_t version, const UpdateId& push) {
  if (Book* book = BookOf(shard)) book->dropped.push_back({epoch, version, push});
}

void Ledger::Told(int32_t server, int64_t epoch, int32_t shard, int32_t worker, int64_t step,
                  int64_t version, int64_t least_step, bool rejected) {
  if (Book* book = BookOf(shard)) {
    book->told.push_back({server, epoch, worker, step, version, least_step, rejected});
  }
}

void Ledger::Began(int64_t epoch, int32_t shard, int64_t version, std::vector<int64_t> last_steps) {
  if (Book* book = BookOf(shard)) book->began[epoch] = {version, std::move(last_steps)};
}

void Ledger::Rewound(int64_t epoch, int32_t shard, int64_t version,
                     std::vector<int64_t> last_steps) {
  if (Book* book = BookOf(shard)) book->rewound[epoch] = {version, std::move(last_steps)};
}

void Ledger::Skipped(int32_t shard, int32_t worker, int64_t step) {
  if (Book* book = BookOf(shard)) book->skipped.emplace(worker, step);
}

void Ledger::Final(int32_t shard, int64_t version, uint64_t content) {
  if (Book* book = BookOf(shard)) book->final.emplace_back(version, content);
}

void Ledger::Expect(int32_t shard, int64_t version, uint64_t content) {
  if (Book* book = BookOf(shard)) book->expected[version] = content;
}

// Goes through the epochs in order. Where one begins without a version, or makes one that is there
// already out of other pushes, the earlier one and all after it were lost.
Ledger::History Ledger::HistoryOf(int32_t shard, const Book& book) const {
  std::vector<const Applying*> order;
  for (const Applying& applying : book.applied) order.push_back(&applying);
  std::stable_sort(order.begin(), order.end(), [](const Applying* a, const Applying* b) {
    return std::tie(a->epoch, a->version) < std::tie(b->epoch, b->version);
  });
  History history;
  auto& updates = history.updates;
  std::set<std::tuple<int64_t, bool, int64_t>> begins;  // epoch, not by a rewind, version
  for (const auto& [epoch, with] : book.rewound) begins.emplace(epoch, false, with.version);
  for (const auto& [epoch, with] : book.began) begins.emplace(epoch, true, with.version);
  auto begin = begins.begin();
  const auto begin_until = [&](int64_t epoch) {
    for (; begin != begins.end() && std::get<0>(*begin) <= epoch; ++begin) {
      const auto [at, loses, version] = *begin;
      const auto kept = static_cast<size_t>(std::max<int64_t>(version, 0));
      if (updates.size() <= kept) continue;
      updates.resize(kept);
      if (loses) history.cut.emplace(at, version + 1);
    }
  };
  for (const Applying* a : order) {
    begin_until(a->epoch);
    const std::string name = absl::StrCat("shard ", shard, ", version ", a->version, ", server ",
                                          a->server, ", epoch ", a->epoch, ": ");
    if (a->version < 1 || a->version > static_cast<int64_t>(updates.size()) + 1) {
      history.conflicts.push_back(absl::StrCat(name, "made of ", NameOf(a->pushes),
                                               ", but nobody made version ", a->version - 1));
      continue;
    }
    const auto at = static_cast<size_t>(a->version - 1);
    if (at < updates.size()) {
      const Update& known = updates[at];
      if (SamePushes(known.pushes, a->pushes) && known.content == a->content) continue;
      if (known.epoch == a->epoch) {
        history.conflicts.push_back(absl::StrCat(name, "two contents of one version: made of ",
                                                 NameOf(a->pushes), " (", a->content, ") and of ",
                                                 NameOf(known.pushes), " (", known.content, ")"));
        continue;
      }
      updates.resize(at);
      history.cut.emplace(a->epoch, a->version);
    }
    updates.push_back({a->epoch, a->pushes, a->content});
  }
  begin_until(std::numeric_limits<int64_t>::max());
  return history;
}

std::vector<std::vector<UpdateId>> Ledger::Surviving(int32_t shard) const {
  std::vector<std::vector<UpdateId>> surviving;
  const History history = HistoryOf(shard, books_[static_cast<size_t>(shard)]);
  for (const Update& update : history.updates) surviving.push_back(update.pushes);
  return surviving;
}

// The checks of one shard.
class Ledger::Checker {
 public:
  Checker(const Ledger& ledger, int32_t shard)
      : rules_(ledger.rules_),
        workers_(ledger.workers_),
        shard_(shard),
        book_(ledger.books_[static_cast<size_t>(shard)]),
        history_(ledger.HistoryOf(shard, book_)),
        told_(book_.told) {
    std::stable_sort(told_.begin(), told_.end(), [](const Telling& a, const Telling& b) {
      return std::tie(a.epoch, a.step) < std::tie(b.epoch, b.step);
    });
  }

  std::vector<std::string> Run(int64_t steps) {
    for (const std::string& conflict : history_.conflicts) broken_.push_back(conflict);
    CheckOnce();
    CheckSteps(steps);
    CheckTold();
    CheckOrder();
    CheckBound();
    CheckContents();
    return broken_;
  }

 private:
  template <typename... Parts>
  void Say(const Parts&... parts) {
    broken_.push_back(absl::StrCat("shard ", shard_, ": ", parts...));
  }
  using Push = std::pair<int32_t, int64_t>;  // worker, step

  // Whether a drop was lost with its server, as its version was, or a later epoch began without it.
  bool Lost(const Dropping& drop) const {
    const auto lost = [&](const auto& later) {
      return later.first > drop.epoch && later.second <= drop.version;
    };
    const auto lacks = [&](const auto& later) {
      return later.first > drop.epoch && !later.second.has(drop.push.worker, drop.push.step);
    };
    return std::any_of(history_.cut.begin(), history_.cut.end(), lost) ||
           std::any_of(book_.began.begin(), book_.began.end(), lacks) ||
           std::any_of(book_.rewound.begin(), book_.rewound.end(), lacks);
  }

  void CheckOnce() {
    for (size_t at = 0; at < history_.updates.size(); ++at) {
      const auto version = static_cast<int64_t>(at) + 1;
      for (const UpdateId& id : history_.updates[at].pushes) {
        const auto [known, first] = applied_.emplace(Push{id.worker, id.step}, version);
        if (!first) {
          Say("worker ", id.worker, "'s push of step ", id.step, " is applied twice, in version ",
              known->second, " and in version ", version);
        }
        if (book_.skipped.contains({id.worker, id.step})) {
          Say("worker ", id.worker, "'s step ", id.step, " is skipped and is part of version ",
              version);
        }
        if (rules_.mode == PsMode::kSync && id.step != version) {
          Say("version ", version, " is made of a push of step ", id.step, " of worker ",
              id.worker);
        }
      }
    }
    for (const Dropping& drop : book_.dropped) {
      if (Lost(drop)) continue;
      const Push push = {drop.push.worker, drop.push.step};
      dropped_.insert(push);
      if (const auto known = applied_.find(push); known != applied_.end()) {
        Say("worker ", push.first, "'s push of step ", push.second, " is dropped at version ",
            drop.version, " and applied in version ", known->second);
      }
    }
  }

  bool Done(int32_t worker, int64_t step) const {
    return applied_.contains({worker, step}) || dropped_.contains({worker, step}) ||
           book_.skipped.contains({worker, step});
  }

  void CheckSteps(int64_t steps) {
    for (int32_t worker = 0; worker < workers_; ++worker) {
      for (int64_t step = 1; step <= steps; ++step) {
        if (!Done(worker, step)) {
          Say("worker ", worker, "'s push of step ", step, " is neither applied nor dropped");
          break;  // the later ones are missing too, or say so below
        }
      }
    }
  }

  // Acknowledged = applied, by one server, and it lasts.
  void CheckTold() {
    std::map<int64_t, int32_t> heads;
    for (const Telling& told : told_) {
      const auto [head, first] = heads.emplace(told.epoch, told.server);
      if (!first && head->second != told.server) {
        Say("servers ", head->second, " and ", told.server, " both acknowledge in epoch ",
            told.epoch);
      }
      if (RewoundAfter(told)) continue;
      const std::string what =
          absl::StrCat("worker ", told.worker, " was told version ", told.version, " for step ",
                       told.step, " by server ", told.server, " in epoch ", told.epoch);
      if (told.version > static_cast<int64_t>(history_.updates.size())) {
        Say(what, ", but ", history_.updates.size(), " versions have survived");
      }
      for (const auto& [epoch, version] : history_.cut) {
        if (epoch > told.epoch && version <= told.version) {
          Say(what, ", but it was lost: epoch ", epoch, " goes on from version ", version - 1);
        }
      }
      CheckAnswer(told, what);
    }
  }

  void CheckAnswer(const Telling& told, const std::string& what) {
    const Push push = {told.worker, told.step};
    const auto applied = applied_.find(push);
    const bool dropped = dropped_.contains(push);
    if (told.step == 0 || book_.skipped.contains(push)) return;
    if (told.rejected && !dropped) Say(what, " and that its push was dropped, which it was not");
    if (told.rejected) return;
    if (dropped) Say(what, ", but not that its push was dropped");
    if (!dropped && (applied == applied_.end() || applied->second > told.version)) {
      Say(what, ", but its push ",
          applied == applied_.end() ? std::string("was not applied")
                                    : absl::StrCat("is part of version ", applied->second));
    }
  }

  bool RewoundAfter(const Telling& told) const {
    return std::any_of(book_.rewound.begin(), book_.rewound.end(), [&](const auto& rewound) {
      return rewound.first > told.epoch &&
             (rewound.second.version < told.version || !rewound.second.has(told.worker, told.step));
    });
  }

  // No worker's versions go back, unless its steps do.
  void CheckOrder() {
    std::map<int32_t, std::map<int64_t, int64_t>> newest;  // worker -> step -> version; both rise
    for (const Telling& told : told_) {
      if (RewoundAfter(told)) continue;
      auto& versions = newest[told.worker];
      auto after = versions.upper_bound(told.step);
      const int64_t had = after == versions.begin() ? -1 : std::prev(after)->second;
      if (told.version < had) {
        Say("worker ", told.worker, " was given version ", told.version, " for step ", told.step,
            " in epoch ", told.epoch, ", after version ", had);
      }
      if (told.version <= had) continue;
      while (after != versions.end() && after->second <= told.version) {
        after = versions.erase(after);
      }
      versions[told.step] = told.version;
    }
  }

  void CheckBound() {
    if (rules_.mode != PsMode::kBounded) return;
    const std::vector<int64_t> least = LeastSteps();
    for (const Telling& told : told_) {
      if (told.version < 0 || told.version >= static_cast<int64_t>(least.size())) continue;
      const int64_t lacks = least[static_cast<size_t>(told.version)];
      if (std::min(lacks, told.least_step) >= told.step - rules_.staleness) continue;
      Say("worker ", told.worker, " read version ", told.version, " after step ", told.step,
          ": it contains all steps up to ", std::min(lacks, told.least_step), ", bound ",
          rules_.staleness);
    }
  }

  // [version]: the least step of any worker in it. Whoever has left before the end was waited for
  // by nobody.
  std::vector<int64_t> LeastSteps() const {
    std::vector<int64_t> last(static_cast<size_t>(workers_), 0);
    std::map<int32_t, int64_t> final_step;
    int64_t most = 0;
    for (const auto& [push, version] : applied_) {
      final_step[push.first] = std::max(final_step[push.first], push.second);
      most = std::max(most, push.second);
    }
    std::vector<int64_t> least = {0};
    for (const Update& update : history_.updates) {
      for (const UpdateId& id : update.pushes) last[static_cast<size_t>(id.worker)] = id.step;
      int64_t least_step = most;
      for (const auto& [worker, step] : final_step) {
        if (step == most) least_step = std::min(least_step, last[static_cast<size_t>(worker)]);
      }
      least.push_back(least_step);
    }
    return least;
  }

  void CheckContents() {
    for (const auto& [version, content] : book_.expected) {
      if (version < 1 || version > static_cast<int64_t>(history_.updates.size())) continue;
      const Update& update = history_.updates[static_cast<size_t>(version - 1)];
      if (update.content == content) continue;
      Say("version ", version, ", made in epoch ", update.epoch, " of ", NameOf(update.pushes),
          ", has other parameters (", update.content, ") than expected (", content, ")");
    }
    for (const auto& [version, content] : book_.final) {
      const auto versions = static_cast<int64_t>(history_.updates.size());
      if (version != versions) {
        Say("it ends with version ", version, ", but ", versions, " have survived");
      } else if (version > 0 && history_.updates.back().content != content) {
        Say("it ends with other parameters (", content, ") than version ", version, " had (",
            history_.updates.back().content, ")");
      }
    }
  }

  const PsRules& rules_;
  const int32_t workers_;
  const int32_t shard_;
  const Book& book_;
  const History history_;
  std::vector<Telling> told_;
  std::map<Push, int64_t> applied_;  // version
  std::set<Push> dropped_;
  std::vector<std::string> broken_;
};

std::vector<std::string> Ledger::Check(int64_t steps) const {
  std::vector<std::string> broken;
  if (entries_ > kEntriesMax) {
    broken.push_back(absl::StrCat("the ledger takes ", kEntriesMax, " entries; there were ",
                                  entries_, ": make the run shorter"));
  }
  if (strangers_ > 0) {
    broken.push_back(absl::StrCat(strangers_, " entries are of shards that do not exist"));
  }
  for (size_t shard = 0; shard < books_.size(); ++shard) {
    for (const std::string& text : Checker(*this, static_cast<int32_t>(shard)).Run(steps)) {
      broken.push_back(text);
    }
  }
  if (broken.size() > kBrokenMax) broken.resize(kBrokenMax);
  return broken;
}

}  // namespace lockstep
