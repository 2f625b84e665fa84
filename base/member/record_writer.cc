#include "base/member/record_writer.h"

#include <fcntl.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
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
  return absl::StrCat(record_dir, "/", role, "-", index, ".rec");
}

}  // namespace lockstep
