// line_channel.h: lines of text over a connected socket. Errors: Unavailable (the other end is
// gone), DeadlineExceeded, the Abort's own status, ResourceExhausted (a line beyond kLineBytesMax).
// Threads: one.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/socket.h"

namespace lockstep {

class LineChannel {
 public:
  static constexpr size_t kLineBytesMax = size_t{1} << 20;
  static constexpr int64_t kNoDeadline = INT64_MAX;

  // Both must outlive the channel.
  LineChannel(UniqueFd fd, const Clock& clock, const Abort& abort)
      : fd_(std::move(fd)), clock_(clock), abort_(abort) {}

  // Without its line break. Sleeps in poll.
  absl::StatusOr<std::string> Read(int64_t deadline_ns);
  // A line is far smaller than a socket's buffer unless the other end has stopped reading.
  absl::Status Write(const std::string& line, int64_t deadline_ns);
  int fd() const { return fd_.get(); }
  // A whole line is here, or the end: Read will not wait.
  bool HasLine() const { return buffer_.find('\n') != std::string::npos; }

 private:
  absl::Status Wait(int16_t events, int64_t deadline_ns);

  UniqueFd fd_;
  const Clock& clock_;
  const Abort& abort_;
  std::string buffer_;
};

// A unix socket at `path`: for the ranks to come, and from a rank.
absl::StatusOr<UniqueFd> ListenAt(const std::string& path);
absl::StatusOr<UniqueFd> ConnectTo(const std::string& path);

}  // namespace lockstep
