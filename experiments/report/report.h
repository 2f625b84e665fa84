// report.h: one run file (lockstep.run/1) as one self-contained HTML page, to be opened from disk.
// The page is web/dist/report.template.html, embedded in the program, with its slots filled.
// Verdict and tables are HTML; pictures are drawn from the run file embedded as JSON. Errors:
// InvalidArgument for another schema or a variant id outside [a-z0-9_.-]+, ResourceExhausted beyond
// kReportBytesMax; a failed or aborted run is none: it gets a report too. Pure but for WriteReport.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/report/sections.h"
#include "proto/record.pb.h"

namespace lockstep {

// A page beyond this opens slowly and can't be mailed.
inline constexpr size_t kReportBytesMax = 5'000'000;

// `files`: names of the run's other files beside the page, which it then offers.
absl::StatusOr<std::string> RenderReport(const RunFile& run, const FileNames& files = {});

// Renders, offering what already lies in the page's folder, and replaces `path` at once: readers
// see the old page or the new one, never a part.
absl::Status WriteReport(const std::string& path, const RunFile& run);

}  // namespace lockstep
