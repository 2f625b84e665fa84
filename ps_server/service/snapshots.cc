#include "ps_server/service/snapshots.h"

#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr char kCutPrefix[] = "step-";
constexpr size_t kCutsKept = 2;  // the newest may turn out to be damaged
// Between two pieces somebody may ask for the end: about a millisecond of a disk.
constexpr size_t kPieceBytes = size_t{1} << 20;

std::string NameOf(int32_t shard, int32_t shards) {
  return absl::StrCat("shard-", shard, "-of-", shards);
}

// Steps that have a folder, in ascending order.
std::vector<int64_t> Cuts(const std::string& folder, Files* files) {
  std::vector<int64_t> steps;
  const auto names = files->List(folder);
  if (!names.ok()) return steps;
  for (const std::string& name : *names) {
    absl::string_view digits = name;
    int64_t step = 0;
    if (absl::ConsumePrefix(&digits, kCutPrefix) && absl::SimpleAtoi(digits, &step)) {
      steps.push_back(step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<std::string> NamesIn(const SnapshotPlace& place, Files* files) {
  return files->List(absl::StrCat(place.folder, "/", place.cut()))
      .value_or(std::vector<std::string>());
}

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::binary_search(names.begin(), names.end(), name);
}

bool Complete(const std::vector<std::string>& names, int32_t shards) {
  for (int32_t shard = 0; shard < shards; ++shard) {
    if (!Has(names, NameOf(shard, shards))) return false;
  }
  return true;
}

void RemoveFile(const SnapshotPlace& place, Files* files) {
  (void)files->Remove(absl::StrCat(place.folder, "/", place.path()));
  // The last one takes the folder with it.
  if (NamesIn(place, files).empty()) {
    (void)files->Remove(absl::StrCat(place.folder, "/", place.cut()));
  }
}

absl::Status WritePieces(const EncodedState& encoded, const SnapshotPlace& place,
                         WritableFile* file, const CrashHook& crash,
                         const std::function<absl::Status()>& go_on) {
  int64_t written = 0;
  bool half = false;
  for (std::span<const std::byte> part : encoded.parts) {
    while (!part.empty()) {
      RETURN_IF_ERROR(go_on());
      const std::span<const std::byte> piece = part.first(std::min(kPieceBytes, part.size()));
      RETURN_IF_ERROR(file->Append(piece));
      part = part.subspan(piece.size());
      written += static_cast<int64_t>(piece.size());
      if (half || written * 2 < encoded.bytes) continue;
      half = true;
      if (crash) crash(CrashPoint::kDuringSnapshot, place.step);
    }
  }
  return file->Sync();
}

absl::Status WriteAndName(const EncodedState& encoded, const SnapshotPlace& place,
                          const std::string& path, Files* files, const CrashHook& crash,
                          const std::function<absl::Status()>& go_on) {
  const std::string unnamed = path + ".tmp";
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files->Create(unnamed));
    RETURN_IF_ERROR(WritePieces(encoded, place, file.get(), crash, go_on));
  }
  if (crash) crash(CrashPoint::kSnapshotNotNamed, place.step);
  RETURN_IF_ERROR(files->Rename(unnamed, path));
  RETURN_IF_ERROR(files->SyncFolder(absl::StrCat(place.folder, "/", place.cut())));
  return files->SyncFolder(place.folder);
}

absl::StatusOr<ShardState> ReadState(const SnapshotPlace& place, Files* files) {
  const auto bytes = files->Read(absl::StrCat(place.folder, "/", place.path()));
  absl::StatusOr<ShardState> state =
      bytes.ok() ? DecodeState(*bytes) : absl::StatusOr<ShardState>(bytes.status());
  if (state.ok() && state->shard != place.shard) {
    state = absl::DataLossError(absl::StrCat("it holds shard ", state->shard));
  }
  if (state.ok()) return state;
  return absl::DataLossError(
      absl::StrCat("snapshot ", place.path(), ": ", state.status().message()));
}

}  // namespace

std::string SnapshotPlace::cut() const { return absl::StrFormat("%s%012d", kCutPrefix, step); }

std::string SnapshotPlace::path() const { return absl::StrCat(cut(), "/", NameOf(shard, shards)); }

absl::StatusOr<SavedSnapshot> WriteSnapshot(const SnapshotPlace& place, const ShardState& state,
                                            Files* files, const CrashHook& crash,
                                            const std::function<absl::Status()>& go_on) {
  const EncodedState encoded = EncodeState(state);
  const std::string path = absl::StrCat(place.folder, "/", place.path());
  absl::Status status = files->MakeFolder(absl::StrCat(place.folder, "/", place.cut()));
  if (status.ok()) status = WriteAndName(encoded, place, path, files, crash, go_on);
  if (status.ok()) {
    return SavedSnapshot{place, state.version, encoded.bytes, encoded.checksum};
  }
  // What a failed sync has left of it is not known, so it is never tried again: it goes, under
  // whichever name it has.
  (void)files->Remove(path + ".tmp");
  RemoveFile(place, files);
  return Annotate(status, absl::StrCat("snapshot ", place.path()));
}

absl::StatusOr<std::vector<ShardState>> ReadSnapshot(const SnapshotPlace& place, Files* files) {
  const std::vector<std::string> names = NamesIn(place, files);
  std::vector<ShardState> states;
  if (!Has(names, NameOf(place.shard, place.shards))) {
    // Complete for some other number, if for any.
    for (auto shards = static_cast<int32_t>(names.size()); shards > 0; --shards) {
      if (shards == place.shards || !Complete(names, shards)) continue;
      for (int32_t shard = 0; shard < shards; ++shard) {
        const SnapshotPlace part = {place.folder, shard, shards, place.step};
        ASSIGN_OR_RETURN(states.emplace_back(), ReadState(part, files));
      }
      return states;
    }
  }
  ASSIGN_OR_RETURN(states.emplace_back(), ReadState(place, files));
  return states;
}

void PruneSnapshots(const SnapshotPlace& newest, Files* files) {
  const std::string own = NameOf(newest.shard, newest.shards);
  size_t complete = 0;
  size_t mine = 0;
  const std::vector<int64_t> steps = Cuts(newest.folder, files);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    SnapshotPlace place = newest;
    place.step = *step;
    const std::vector<std::string> names = NamesIn(place, files);
    if (!Has(names, own)) continue;
    const bool whole = Complete(names, newest.shards);
    const bool kept = mine < kCutsKept || (whole && complete < kCutsKept);
    mine += 1;
    complete += whole ? 1 : 0;
    if (!kept) RemoveFile(place, files);
  }
}

void RewindSnapshots(const SnapshotPlace& place, Files* files) {
  for (const int64_t step : Cuts(place.folder, files)) {
    SnapshotPlace later = place;
    later.step = step;
    if (step > place.step && Has(NamesIn(later, files), NameOf(place.shard, place.shards))) {
      RemoveFile(later, files);
    }
  }
}

}  // namespace lockstep
