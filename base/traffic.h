// traffic.h: what a process put on and took from its links. Plain counters with one owner thread.
// Every byte handed to the socket or to gRPC counts, our headers included, HTTP/2 and TCP headers
// not.
#pragma once

#include <cstdint>

namespace lockstep {

struct Traffic {
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
  int64_t sent_messages = 0;
  int64_t received_messages = 0;

  Traffic& operator+=(const Traffic& other) {
    sent_bytes += other.sent_bytes;
    received_bytes += other.received_bytes;
    sent_messages += other.sent_messages;
    received_messages += other.received_messages;
    return *this;
  }
  friend Traffic operator-(Traffic a, const Traffic& b) {
    a.sent_bytes -= b.sent_bytes;
    a.received_bytes -= b.received_bytes;
    a.sent_messages -= b.sent_messages;
    a.received_messages -= b.received_messages;
    return a;
  }
};

}  // namespace lockstep
