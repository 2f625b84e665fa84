#include "base/member/record_writer.h"

#include <fcntl.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/member/group_state.h"
#include "base/socket.h"
#include "base/status.h"
#include "base/sync.h"

namespace lockstep {
namespace {

absl::StatusOr<UniqueFd> CreateFile(const std::string& path) {
  constexpr int kMode = 0644;
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, kMode));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("cannot create ", path));
  return fd;
}

class FileRecordWriter final : public RecordWriter {
 public:
  FileRecordWriter(std::string path, UniqueFd records, const Clock& clock)
      : path_(std::move(path)), clock_(clock), records_(std::move(records)) {}

  void Write(Record record) override {
    record.set_time_ns(clock_.NowNs());
    std::ostringstream framed;
    google::protobuf::util::SerializeDelimitedToOstream(record, &framed);
    const std::string bytes = framed.str();
    MutexLock lock(&mu_);
    WriteAll(records_, bytes.data(), bytes.size());
  }

  int64_t WriteSnapshot(std::span<const float> parameters) override {
    MutexLock lock(&mu_);
    const int64_t offset = snapshot_bytes_;
    if (!snapshots_.valid() && status_.ok()) OpenSnapshots();
    WriteAll(snapshots_, parameters.data(), parameters.size_bytes());
    snapshot_bytes_ += static_cast<int64_t>(parameters.size_bytes());
    return offset;
  }

  absl::Status status() const override {
    MutexLock lock(&mu_);
    return status_;
  }

 private:
  void OpenSnapshots() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    absl::StatusOr<UniqueFd> file = CreateFile(absl::StrCat(path_, ".params"));
    if (file.ok()) {
      snapshots_ = *std::move(file);
    } else {
      status_ = file.status();
    }
  }

  void WriteAll(const UniqueFd& fd, const void* bytes, size_t size)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const char* next = static_cast<const char*>(bytes);
    while (size > 0 && status_.ok()) {
      const ssize_t written = write(fd.get(), next, size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        status_ = ErrnoStatus(errno, absl::StrCat("cannot write ", path_));
        return;
      }
      next += written;
      size -= static_cast<size_t>(written);
    }
  }

  const std::string path_;
  const Clock& clock_;
  mutable Mutex mu_;
  UniqueFd records_ ABSL_GUARDED_BY(mu_);
  UniqueFd snapshots_ ABSL_GUARDED_BY(mu_);
  int64_t snapshot_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordWriter>> RecordWriter::Create(const std::string& path,
                                                                   const Clock& clock) {
  ASSIGN_OR_RETURN(UniqueFd records, CreateFile(path));
  return std::make_unique<FileRecordWriter>(path, std::move(records), clock);
}

absl::StatusOr<std::vector<Record>> ReadRecords(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  google::protobuf::io::IstreamInputStream input(&file);
  std::vector<Record> records;
  Record record;
  bool clean_end = false;
  while (google::protobuf::util::ParseDelimitedFromZeroCopyStream(&record, &input, &clean_end)) {
    records.push_back(record);
    record.Clear();
  }
  return records;
}

std::string RecordPath(const std::string& record_dir, const std::string& role, int index) {
  return RecordPath(record_dir, role, index, kFirstEpoch);
}

std::string RecordPath(const std::string& record_dir, const std::string& role, int index,
                       int64_t first_epoch) {
  const std::string name = absl::StrCat(record_dir, "/", role, "-", index);
  return first_epoch == kFirstEpoch ? absl::StrCat(name, ".rec")
                                    : absl::StrCat(name, "-epoch-", first_epoch, ".rec");
}

absl::StatusOr<std::vector<Record>> ReadMember(const std::string& record_dir,
                                               const std::string& role, int index) {
  absl::StatusOr<std::vector<Record>> first = ReadRecords(RecordPath(record_dir, role, index));
  // A group that was given up before it stood leaves a gap in the epochs, so all are looked for.
  const std::string prefix = absl::StrCat(role, "-", index, "-epoch-");
  std::map<int64_t, std::string> later;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(record_dir, error)) {
    const std::string name = entry.path().filename().string();
    int64_t epoch = 0;
    absl::string_view number = name;
    const bool fits = absl::ConsumePrefix(&number, prefix) &&
                      absl::ConsumeSuffix(&number, ".rec") && absl::SimpleAtoi(number, &epoch);
    if (fits) later[epoch] = entry.path().string();
  }
  if (later.empty()) return first;
  std::vector<Record> records;  // one that joined later has none of the first epoch
  if (first.ok()) records = *std::move(first);
  for (const auto& [epoch, path] : later) {
    ASSIGN_OR_RETURN(const std::vector<Record> more, ReadRecords(path));
    records.insert(records.end(), more.begin(), more.end());
  }
  return records;
}

}  // namespace lockstep
