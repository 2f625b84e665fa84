// digits.h: the bundled UCI optical handwritten digits (digits.SOURCE.md): 1,797 samples of 64
// features in 0..1, classes 0..9. The file is part of the program. Errors: DataLoss, naming line
// and column.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"

namespace lockstep {

absl::StatusOr<Dataset> LoadDigits();

// Lines of 64 pixels 0..16 and a label 0..9, comma-separated. Pixels are divided by 16 (exact).
absl::StatusOr<Dataset> ParseDigits(std::string_view csv);

}  // namespace lockstep
