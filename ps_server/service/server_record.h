// server_record.h: a server's record file, written by the threads that serve. One process writes
// one file; a replacement writes its own beside its predecessor's. Threads: any; Open comes first.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/member/record_writer.h"
#include "base/traffic.h"
#include "proto/coordinator.pb.h"
#include "ps_server/service/books.h"

namespace lockstep {

class ServerRecord {
 public:
  explicit ServerRecord(const Clock& clock) : clock_(clock) {}

  // Before the service is configured: nothing happens earlier.
  absl::Status Open(int index, const Start& start);
  void SetUp(const Traffic& traffic);
  void Update(const UpdateServed& served);
  void Recover(const ServerRecovery& recovery);
  // `left`: it goes as planned, and the run goes on.
  void End(const absl::Status& status, bool left, const Traffic& traffic);

  RecordWriter* writer() { return writer_.get(); }
  int64_t step() const { return step_; }
  absl::Status status() const { return writer_ == nullptr ? absl::OkStatus() : writer_->status(); }

 private:
  const Clock& clock_;
  std::unique_ptr<RecordWriter> writer_;
  std::atomic<int64_t> step_ = 0;  // last one served
  int64_t cpu_ns_ = 0;             // of this process, at the previous update
  bool warned_ = false;
};

}  // namespace lockstep
