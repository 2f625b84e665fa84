// Snapshots on disk, and on a file system that refuses.
#include "ps_server/service/storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/sync.h"
#include "ps_server/service/disk_faults.h"
#include "ps_server/service/snapshots.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Passes everything on, until an operation is to fail.
class RefusingFiles final : public Files {
 public:
  std::string refused;  // "append", "sync", "rename", "sync folder", "create"
  absl::Status why = absl::ResourceExhaustedError("No space left on device");
  std::function<void()> before_append;

  absl::Status MakeFolder(const std::string& path) override { return files_->MakeFolder(path); }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    if (refused == "create") return why;
    auto file = files_->Create(path);
    if (!file.ok()) return file.status();
    return std::make_unique<RefusingFile>(this, *std::move(file));
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return refused == "rename" ? why : files_->Rename(from, to);
  }
  absl::Status SyncFolder(const std::string& path) override {
    return refused == "sync folder" ? why : files_->SyncFolder(path);
  }
  absl::Status Remove(const std::string& path) override { return files_->Remove(path); }
  absl::StatusOr<std::vector<std::byte>> Read(const std::string& path) override {
    return files_->Read(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    return files_->List(folder);
  }

 private:
  class RefusingFile final : public WritableFile {
   public:
    RefusingFile(RefusingFiles* owner, std::unique_ptr<WritableFile> file)
        : owner_(owner), file_(std::move(file)) {}
    absl::Status Append(std::span<const std::byte> bytes) override {
      if (owner_->before_append) owner_->before_append();
      return owner_->refused == "append" ? owner_->why : file_->Append(bytes);
    }
    absl::Status Sync() override { return owner_->refused == "sync" ? owner_->why : file_->Sync(); }

   private:
    RefusingFiles* const owner_;
    std::unique_ptr<WritableFile> file_;
  };
  const std::unique_ptr<Files> files_ = MakeFiles();
};

ShardState StateOf(int32_t shard, int64_t version) {
  ShardState state;
  state.shard = shard;
  state.offset = shard * 8;
  state.layout = 77;
  state.version = version;
  state.parameters = std::make_shared<const std::vector<float>>(8, static_cast<float>(version));
  state.workers.resize(2);
  for (WorkerMark& mark : state.workers) mark.last_step = version;
  return state;
}

class SnapshotTest : public testing::Test {
 protected:
  SnapshotTest() {
    const std::string pattern = testing::TempDir() + "snapshots-XXXXXX";
    std::vector<char> path(pattern.begin(), pattern.end());
    path.push_back('\0');
    folder_ = mkdtemp(path.data());
  }
  ~SnapshotTest() override { std::filesystem::remove_all(folder_); }

  SnapshotPlace Place(int32_t shard, int64_t step, int32_t shards = 2) const {
    return {folder_, shard, shards, step};
  }
  absl::Status Write(int32_t shard, int64_t step) {
    return WriteSnapshot(Place(shard, step), StateOf(shard, step), &files_, nullptr, GoOn).status();
  }
  void WriteCuts(std::initializer_list<int64_t> steps) {
    for (const int64_t step : steps) {
      for (const int32_t shard : {0, 1}) {
        ASSERT_THAT(Write(shard, step), IsOk());
        PruneSnapshots(Place(shard, step), &files_);
      }
    }
  }
  std::vector<std::string> FilesOf(int32_t shard) {
    std::vector<std::string> cuts;
    const std::vector<std::string> folders = *files_.List(folder_);
    for (const std::string& cut : folders) {
      const std::vector<std::string> names = *files_.List(folder_ + "/" + cut);
      for (const std::string& name : names) {
        if (name.find("shard-" + std::to_string(shard)) == 0) cuts.push_back(cut + "/" + name);
      }
    }
    return cuts;
  }
  static absl::Status GoOn() { return absl::OkStatus(); }

  std::string folder_;
  RefusingFiles files_;
};

TEST_F(SnapshotTest, WhatIsReadIsWhatWasWritten) {
  const auto saved = WriteSnapshot(Place(1, 140), StateOf(1, 140), &files_, nullptr, GoOn);
  ASSERT_THAT(saved, IsOk());
  EXPECT_EQ(saved->place.path(), "step-000000000140/shard-1-of-2");
  EXPECT_EQ(saved->version, 140);
  EXPECT_EQ(static_cast<uintmax_t>(saved->bytes),
            std::filesystem::file_size(folder_ + "/" + saved->place.path()));
  const auto states = ReadSnapshot(Place(1, 140), &files_);
  ASSERT_THAT(states, IsOk());
  ASSERT_EQ(states->size(), 1U);
  EXPECT_TRUE((*states)[0] == StateOf(1, 140));
}

TEST_F(SnapshotTest, ADamagedOrMissingFileIsNamedAndTheCutBeforeStands) {
  WriteCuts({10, 20});
  const std::string path = folder_ + "/" + Place(1, 20).path();
  const auto size = std::filesystem::file_size(path);
  for (const uintmax_t kept : {uintmax_t{0}, uintmax_t{3}, size / 2, size - 1}) {
    std::filesystem::resize_file(path, kept);
    EXPECT_THAT(ReadSnapshot(Place(1, 20), &files_),
                StatusIs(StatusCode::kDataLoss, "snapshot step-000000000020/shard-1-of-2: "));
  }
  ASSERT_THAT(Write(1, 20), IsOk());
  std::vector<std::byte> bytes = *files_.Read(path);
  bytes[bytes.size() - 5] ^= std::byte{1};
  ASSERT_THAT((*files_.Create(path))->Append(bytes), IsOk());
  EXPECT_THAT(ReadSnapshot(Place(1, 20), &files_),
              StatusIs(StatusCode::kDataLoss, "step-000000000020/shard-1-of-2"));
  std::filesystem::remove(path);
  EXPECT_THAT(ReadSnapshot(Place(1, 20), &files_),
              StatusIs(StatusCode::kDataLoss, "step-000000000020/shard-1-of-2: "));
  EXPECT_THAT(ReadSnapshot(Place(1, 10), &files_), IsOk());
}

TEST_F(SnapshotTest, AnotherShardsFileIsRefused) {
  ASSERT_THAT(Write(0, 10), IsOk());
  std::filesystem::copy(folder_ + "/" + Place(0, 10).path(), folder_ + "/" + Place(1, 10).path());
  EXPECT_THAT(ReadSnapshot(Place(1, 10), &files_),
              StatusIs(StatusCode::kDataLoss, "shard-1-of-2: it holds shard 0"));
}

TEST_F(SnapshotTest, TheTwoNewestCompleteCutsAreKept) {
  WriteCuts({10, 20, 30, 40});
  EXPECT_THAT(FilesOf(1),
              ElementsAre("step-000000000030/shard-1-of-2", "step-000000000040/shard-1-of-2"));
  // When shard 0 was saved last, step 40 was not complete yet.
  EXPECT_EQ(FilesOf(0).size(), 3U);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/step-000000000010"));
  // Shard 1 can't be saved any more: what both have stays, and of shard 0 the two newest.
  for (const int64_t step : {50, 60, 70}) {
    ASSERT_THAT(Write(0, step), IsOk());
    PruneSnapshots(Place(0, step), &files_);
  }
  EXPECT_THAT(FilesOf(0),
              ElementsAre("step-000000000030/shard-0-of-2", "step-000000000040/shard-0-of-2",
                          "step-000000000060/shard-0-of-2", "step-000000000070/shard-0-of-2"));
}

TEST_F(SnapshotTest, GoingBackRemovesLaterCuts) {
  WriteCuts({10, 20});
  RewindSnapshots(Place(0, 10), &files_);
  EXPECT_THAT(FilesOf(0), ElementsAre("step-000000000010/shard-0-of-2"));
  EXPECT_EQ(FilesOf(1).size(), 2U);
}

TEST_F(SnapshotTest, ACutOfAnotherNumberOfServersGivesAllItsParts) {
  WriteCuts({10});
  const auto states = ReadSnapshot(Place(2, 10, 3), &files_);
  ASSERT_THAT(states, IsOk());
  EXPECT_EQ(states->size(), 2U);
  std::filesystem::remove(folder_ + "/" + Place(1, 10).path());
  EXPECT_THAT(ReadSnapshot(Place(2, 10, 3), &files_),
              StatusIs(StatusCode::kDataLoss, "step-000000000010/shard-2-of-3"));
}

class RefusedOperation : public SnapshotTest, public testing::WithParamInterface<const char*> {};

TEST_P(RefusedOperation, LeavesTheCutBeforeAndNoHalfOfThisOne) {
  WriteCuts({10});
  files_.refused = GetParam();
  EXPECT_THAT(Write(0, 20), StatusIs(StatusCode::kResourceExhausted,
                                     "snapshot step-000000000020/shard-0-of-2: No space left"));
  EXPECT_THAT(FilesOf(0), ElementsAre("step-000000000010/shard-0-of-2"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/step-000000000020"));
  EXPECT_THAT(ReadSnapshot(Place(0, 10), &files_), IsOk());
  files_.refused.clear();
  EXPECT_THAT(Write(0, 30), IsOk());
}

INSTANTIATE_TEST_SUITE_P(Rows, RefusedOperation,
                         testing::Values("create", "append", "sync", "rename", "sync folder"),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::erase(name, ' ');
                           return name;
                         });

TEST_F(SnapshotTest, CrashPointsComeBeforeItHasItsName) {
  std::vector<std::pair<CrashPoint, bool>> points;
  const std::string path = folder_ + "/" + Place(0, 10).path();
  const CrashHook crash = [&](CrashPoint point, int64_t step) {
    EXPECT_EQ(step, 10);
    points.emplace_back(point, std::filesystem::exists(path));
  };
  ASSERT_THAT(WriteSnapshot(Place(0, 10), StateOf(0, 10), &files_, crash, GoOn), IsOk());
  EXPECT_THAT(points, ElementsAre(std::pair(CrashPoint::kDuringSnapshot, false),
                                  std::pair(CrashPoint::kSnapshotNotNamed, false)));
}

// What the storage's thread says.
class Events {
 public:
  StorageEvents Get() {
    return {
        .saved = [this](const SavedSnapshot& s) { Add(s.place.path()); },
        .failed = [this](const SnapshotPlace& place,
                         const absl::Status& why) { Add(place.path() + " " + why.ToString()); }};
  }
  std::vector<std::string> Await(size_t count) {
    MutexLock lock(&mu_);
    EXPECT_TRUE(mu_.AwaitFor(
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return said_.size() >= count; }, 10'000));
    return said_;
  }

 private:
  void Add(const std::string& line) {
    MutexLock lock(&mu_);
    said_.push_back(line);
  }
  Mutex mu_;
  std::vector<std::string> said_ ABSL_GUARDED_BY(mu_);
};

TEST_F(SnapshotTest, AFullDiskIsReportedAndTheNextCutIsWritten) {
  const MonotonicClock clock;
  Events events;
  Storage storage({folder_, 2, 10'000}, &files_, clock, events.Get(), nullptr);
  files_.refused = "append";
  storage.Save(10, std::make_shared<const ShardState>(StateOf(0, 10)));
  EXPECT_THAT(events.Await(1)[0], HasSubstr("RESOURCE_EXHAUSTED: snapshot step-000000000010"));
  files_.refused.clear();
  storage.Save(20, std::make_shared<const ShardState>(StateOf(0, 20)));
  EXPECT_EQ(events.Await(2)[1], "step-000000000020/shard-0-of-2");
  EXPECT_THAT(storage.Restore(0, 20), IsOk());
}

TEST_F(SnapshotTest, APlannedFaultFillsTheDiskForSoLong) {
  ManualClock clock;
  DiskFaults disk(MakeFiles(), clock);
  const auto write = [&](int64_t step) {
    return WriteSnapshot(Place(0, step), StateOf(0, step), &disk, nullptr, GoOn).status();
  };
  ASSERT_THAT(write(10), IsOk());
  disk.FillUp(500);
  EXPECT_THAT(write(20), StatusIs(StatusCode::kResourceExhausted, "planned fault DISK_FULL"));
  EXPECT_THAT(FilesOf(0), ElementsAre("step-000000000010/shard-0-of-2"));
  clock.AdvanceMs(500);
  EXPECT_THAT(write(30), IsOk());
  EXPECT_THAT(ReadSnapshot(Place(0, 10), &disk), IsOk());
}

// Whatever the disk does, nobody waits: of each shard the newest state waits, and the one that it
// replaces is reported.
TEST_F(SnapshotTest, ASlowDiskKeepsNobodyWaiting) {
  const MonotonicClock clock;
  Events events;
  Mutex mu;
  bool begun = false;
  bool go_on = false;
  files_.before_append = [&] {
    MutexLock lock(&mu);
    begun = true;
    EXPECT_TRUE(mu.AwaitFor([&] { return go_on; }, 10'000));
  };
  {
    Storage storage({folder_, 2, 10'000}, &files_, clock, events.Get(), nullptr);
    storage.Save(10, std::make_shared<const ShardState>(StateOf(0, 10)));
    {
      MutexLock lock(&mu);
      EXPECT_TRUE(mu.AwaitFor([&] { return begun; }, 10'000));
    }
    for (const int64_t step : {20, 30, 40}) {
      for (const int32_t shard : {0, 1}) {
        storage.Save(step, std::make_shared<const ShardState>(StateOf(shard, step)));
      }
    }
    EXPECT_EQ(events.Await(4).size(), 4U);  // steps 20 and 30 of both
    {
      MutexLock lock(&mu);
      go_on = true;
    }
    EXPECT_EQ(events.Await(7).size(), 7U);
  }
  EXPECT_THAT(FilesOf(1), ElementsAre("step-000000000040/shard-1-of-2"));
}

TEST_F(SnapshotTest, ASnapshotHasItsTime) {
  const MonotonicClock clock;
  Events events;
  Storage storage({folder_, 2, 0}, &files_, clock, events.Get(), nullptr);
  storage.Save(10, std::make_shared<const ShardState>(StateOf(0, 10)));
  EXPECT_THAT(events.Await(1)[0], HasSubstr("DEADLINE_EXCEEDED"));
  EXPECT_THAT(FilesOf(0), IsEmpty());
}

}  // namespace
}  // namespace lockstep
