// What each parameter server did, second by second.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"
#include "experiments/report/sections.h"

namespace lockstep {
namespace {

constexpr int kWindowsMin = 3;  // a line of fewer points says no more than its mean

template <typename Values>
double MeanOf(const Values& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}
template <typename Values>
double MostOf(const Values& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// "3.4, most 5.1"
template <typename Values>
std::string LevelHtml(const Values& values) {
  return absl::StrCat(FormatValue(MeanOf(values)), " ",
                      Quiet(absl::StrCat("most ", FormatValue(MostOf(values)))));
}
template <typename Values>
std::string RateHtml(const Values& bytes, double window_s) {
  return absl::StrCat(FormatBytes(MeanOf(bytes) / window_s), " ",
                      Quiet(absl::StrCat("most ", FormatBytes(MostOf(bytes) / window_s))));
}

bool HasSeries(const VariantResult& result) {
  return result.server_seconds_size() > 0 && result.server_seconds(0).cpu_size() >= kWindowsMin;
}

std::string Description(const PageView& view) {
  std::string text = "Pushes that wait and processors in use, second by second.";
  for (const PageRow& row : view.largest) {
    if (!HasSeries(*row.result)) continue;
    for (const ServerSeconds& server : row.result->server_seconds()) {
      absl::StrAppend(&text, " ", row.label, ", server ", server.server(), ": on average ",
                      FormatValue(MeanOf(server.waiting())), " pushes wait, ",
                      FormatValue(MeanOf(server.cpu())), " processors are in use.");
    }
  }
  return text;
}

}  // namespace

std::string LoadHtml(const PageView& view) {
  const std::vector<Column> columns = {{"Synchronisation"},          {"Server", "num"},
                                       {"In a second", "num"},       {"Out a second", "num"},
                                       {"Pushes coming in", "num"},  {"Pushes waiting", "num"},
                                       {"Each waits, ms", "num"},    {"Fold and optimizer", "num"},
                                       {"Replies going out", "num"}, {"Processors", "num"},
                                       {"Staged, most", "num"}};
  std::string rows;
  for (const PageRow& row : view.largest) {
    if (!HasSeries(*row.result)) continue;
    for (const ServerSeconds& server : row.result->server_seconds()) {
      absl::StrAppend(
          &rows,
          Row(row, columns,
              {FormatCount(server.server()), RateHtml(server.in_bytes(), server.window_s()),
               RateHtml(server.out_bytes(), server.window_s()), LevelHtml(server.receiving()),
               LevelHtml(server.waiting()), LevelHtml(server.wait_ms()),
               FormatShare(MeanOf(server.applying())), LevelHtml(server.sending()),
               LevelHtml(server.cpu()), FormatBytes(MostOf(server.staged_bytes()))}));
    }
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      SectionOpen("load", "What each parameter server did, second by second",
                  absl::StrCat("Of the first complete run; the picture shows each variant’s "
                               "server that used its processor most. Many pushes waiting beside an "
                               "idle processor: they wait for other workers.",
                               SizeText(view))),
      PictureHtml({.id = "load",
                   .description = Description(view),
                   .numbers_html = absl::StrCat(TableOpen("load-numbers", "load-title", columns),
                                                rows, TableClose())}),
      Note("Pushes coming in, pushes waiting, replies going out: mean numbers over a second. Every "
           "second of every run, by shard: servers.csv."),
      "</section>\n");
}

}  // namespace lockstep
