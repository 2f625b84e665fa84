#include "experiments/coordinator/cuts.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace lockstep {

bool Cuts::Add(const Saved& saved) {
  if (saved.shard() < 0 || saved.shard() >= shards_ || saved.step() < 0) return false;
  cuts_[saved.step()][saved.shard()] = saved;
  Forget();
  const auto cut = cuts_.find(saved.step());
  return cut != cuts_.end() && Whole(cut->second);
}

std::optional<int64_t> Cuts::newest() const {
  for (auto cut = cuts_.rbegin(); cut != cuts_.rend(); ++cut) {
    if (Whole(cut->second)) return cut->first;
  }
  return std::nullopt;
}

// Whatever is older than the oldest complete one that is kept, and the oldest of too many.
void Cuts::Forget() {
  int complete = 0;
  for (auto cut = cuts_.rbegin(); cut != cuts_.rend(); ++cut) {
    complete += Whole(cut->second) ? 1 : 0;
    if (complete < kCompleteKept) continue;
    cuts_.erase(cuts_.begin(), std::prev(cut.base()));
    break;
  }
  while (cuts_.size() > kIncompleteMax + kCompleteKept) {
    const auto first = std::find_if(cuts_.begin(), cuts_.end(),
                                    [this](const auto& cut) { return !Whole(cut.second); });
    cuts_.erase(first);
  }
}

void Cuts::RewindTo(int64_t step) { cuts_.erase(cuts_.upper_bound(step), cuts_.end()); }

std::string Cuts::Manifest() const {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string manifest = "# Snapshots that every shard of the run has saved, the newest first.\n";
  for (auto cut = cuts_.rbegin(); cut != cuts_.rend(); ++cut) {
    if (!Whole(cut->second)) continue;
    for (const auto& [shard, saved] : cut->second) {
      MemberEvent event;
      *event.mutable_saved() = saved;
      std::string line;
      printer.PrintToString(event, &line);
      absl::StrAppend(&manifest, line, "\n");
    }
  }
  return manifest;
}

}  // namespace lockstep
