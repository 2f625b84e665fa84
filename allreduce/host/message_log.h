// message_log.h: when the messages of collectives were under way, for a timeline. Bounded: what
// does not fit is counted, not kept. Times on the link's clock, in ns. Threads: that of the
// communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep {

struct LoggedMessage {
  int32_t peer = 0;  // rank
  int32_t channel = 0;
  uint64_t sequence = 0;  // k-th message on the connection (sender, receiver, channel)
  bool sent = false;
  int64_t start_ns = 0;  // posted
  int64_t end_ns = 0;    // known to be taken by the link, or received
  int64_t bytes = 0;     // payload
};

class MessageLog {
 public:
  explicit MessageLog(size_t messages_max) : messages_max_(messages_max) {}
  void Add(const LoggedMessage& message) {
    if (messages_.size() < messages_max_) {
      messages_.push_back(message);
    } else {
      ++dropped_;
    }
  }
  // Empties the log.
  std::vector<LoggedMessage> Take() {
    dropped_ = 0;
    return std::exchange(messages_, {});
  }
  int64_t dropped() const { return dropped_; }  // since the last Take

 private:
  const size_t messages_max_;
  std::vector<LoggedMessage> messages_;
  int64_t dropped_ = 0;
};

}  // namespace lockstep
