// fault_link.h: a link that loses, repeats, damages or holds back chosen messages, by rule.
// Rules count the messages that this rank posts on a connection, from 0; everything else passes
// through. Reports pass untouched: the faults are those of data. Errors: those of the link inside.
// Threads: as link.h says.
#pragma once

#include <cstdint>
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
};

// `clock` is the inner link's and must outlive the link.
std::unique_ptr<Link> MakeFaultLink(std::unique_ptr<Link> inner, std::vector<FaultRule> rules,
                                    const Clock& clock);

}  // namespace lockstep
