// fault_link.h: a link that loses, repeats, damages or holds back chosen messages, by rule.
// Rules count the messages that this rank posts on a connection, from 0; everything else passes
// through. Reports pass untouched: the faults are those of data. Errors: those of the link inside.
// Threads: as link.h says.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "allreduce/transport/link.h"
#include "base/clock.h"

namespace lockstep {

enum class LinkFault : uint8_t {
  kDrop,       // never sent; the sender doesn't notice
  kDuplicate,  // sent twice
  kCorrupt,    // one bit of the byte at `corrupt_byte` is flipped: header first, then payload
  kDelay,      // held for `delay_ms`, and the connection's later messages behind it
};

struct FaultRule {
  LinkFault fault = LinkFault::kDrop;
  int peer = 0;
  uint16_t channel = 0;
  int64_t first = 0;  // this message ...
  int64_t count = 1;  // ... and the next count - 1
  size_t corrupt_byte = 0;
  int64_t delay_ms = 0;
  int tag = 0;  // the caller's
};

// Rules for the messages from now on: the link takes them at its next PostSend, forgets the ones it
// took before and counts from there. Same threads as the link.
struct ArmedFaults {
  bool armed = false;  // set by who fills `rules`, cleared by the link
  std::vector<FaultRule> rules;
  std::function<void(int tag)> strikes;  // before a rule changes anything; may be empty
};

// `clock` is the inner link's. It and `armed`, which may be null, must outlive the link.
std::unique_ptr<Link> MakeFaultLink(std::unique_ptr<Link> inner, std::vector<FaultRule> rules,
                                    const Clock& clock, ArmedFaults* armed = nullptr);

}  // namespace lockstep
