#include "experiments/report/series.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

constexpr size_t kStyles = 6;
// In the order of the palette in style.css: ring, one server, asynchronous, several servers, tree,
// naive.
constexpr std::array<const char*, kStyles> kMarkers = {
    "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z",  // circle
    "M-2-7h4v5h5v4h-5v5h-4v-5h-5v-4h5z",     // cross
    "M-6.5-5.5h13L0 6.5z",                   // triangle down
    "M-6.5 5.5h13L0-6.5z",                   // triangle up
    "M0-7.5L6.5 0 0 7.5-6.5 0z",             // diamond
    "M-5.5-5.5h11v11h-11z",                  // square
};
constexpr const char* kControlMarker = "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z";

size_t Preferred(const VariantResult& result) {
  if (result.mode() == "ps_sync") return result.servers() > 1 ? 3 : 1;
  if (result.mode().rfind("ps", 0) == 0) return 2;
  if (result.algorithm().find("tree") != std::string::npos) return 4;
  if (result.algorithm() == "naive") return 5;
  return 0;
}

}  // namespace

std::vector<Series> AssignSeries(const RunFile& run) {
  std::vector<Series> series(static_cast<size_t>(run.runs_size()));
  std::array<bool, kStyles> taken = {};
  std::vector<size_t> waiting;  // their own style went to an earlier variant of the kind
  for (size_t i = 0; i < series.size(); ++i) {
    const VariantResult& result = run.runs(static_cast<int>(i));
    const size_t own = Preferred(result);
    if (!result.ranked()) {
      series[i] = {"sc", kControlMarker};
    } else if (taken[own]) {
      waiting.push_back(i);
    } else {
      taken[own] = true;
      series[i] = {absl::StrCat("s", own), kMarkers[own]};
    }
  }
  size_t extra = 0;  // variants beyond the six styles: known colours with other shapes
  for (const size_t i : waiting) {
    const size_t free =
        static_cast<size_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
    if (free < kStyles) {
      taken[free] = true;
      series[i] = {absl::StrCat("s", free), kMarkers[free]};
      continue;
    }
    const size_t color = extra % kStyles;
    const size_t shape = (color + 1 + extra / kStyles) % kStyles;
    series[i] = {absl::StrCat("s", color), kMarkers[shape]};
    ++extra;
  }
  return series;
}

std::string MarkerHtml(const Series& series) {
  return absl::StrCat("<svg class=\"mk ", series.style,
                      "\" viewBox=\"-8 -8 16 16\" aria-hidden=\"true\"><path d=\"", series.marker,
                      "\"/></svg>");
}

}  // namespace lockstep
