// record_writer.h: one process's record file: length-delimited Record messages, each written with
// one write(2) so that a killed process leaves a readable prefix. Parameter copies go to
// <path>.params. Errors: as errno (disk full is ResourceExhausted); the first one is kept and
// returned by status(). Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "proto/record.pb.h"

namespace lockstep {

class RecordWriter {
 public:
  virtual ~RecordWriter() = default;
  static absl::StatusOr<std::unique_ptr<RecordWriter>> Create(const std::string& path,
                                                              const Clock& clock);
  // Fills in time_ns.
  virtual void Write(Record record) = 0;
  // Returns the offset of the copy in the .params file.
  virtual int64_t WriteSnapshot(std::span<const float> parameters) = 0;
  virtual absl::Status status() const = 0;
};

// Every complete record of a file; a truncated last one is left out.
absl::StatusOr<std::vector<Record>> ReadRecords(const std::string& path);

// "worker-2.rec" in `record_dir`.
std::string RecordPath(const std::string& record_dir, const std::string& role, int index);
// Of a process whose first group has this epoch: a replacement writes beside its predecessor, which
// may not be dead: "worker-2-epoch-3.rec".
std::string RecordPath(const std::string& record_dir, const std::string& role, int index,
                       int64_t first_epoch);
// Of all processes that were this member, one after the other; each begins with Started.
absl::StatusOr<std::vector<Record>> ReadMember(const std::string& record_dir,
                                               const std::string& role, int index);

}  // namespace lockstep
