// chaos.h: `lockstep chaos`: simulated clusters under random fault plans, told as text or JSON.
// Pure but for the progress that a caller prints. Errors: InvalidArgument for words that are no
// mode or policy.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep {

struct ChaosArguments {
  int64_t seeds = 100;
  std::optional<uint64_t> seed = {};  // replays this one alone, and shows its plan
  std::string mode = {};              // empty: each seed has its own
  std::string policy = {};
  bool json = false;
};
struct ChaosAnswer {
  std::string text;  // for standard output, with its last newline
  int exit_code = 0;
};

// `progress`: runs done, failures found; may be empty.
absl::StatusOr<ChaosAnswer> RunChaosCommand(
    const ChaosArguments& arguments,
    const std::function<void(int64_t runs, int64_t failures)>& progress);

}  // namespace lockstep
