// link_cost.h: what a message costs on a link, as measured: time = alpha + bytes * beta, one way.
// Hockney's model. Paper: Hockney, Parallel Computing 20(3), 1994.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

struct LinkCost {
  double alpha_ns = 0;          // per message: half the median round trip of empty messages
  double beta_ns_per_byte = 0;  // from the slope between empty and large ones
  std::string link;             // "tcp", "grpc", "in_process"
  int64_t large_bytes = 0;
  int32_t samples = 0;  // round trips of each size
};

}  // namespace lockstep
