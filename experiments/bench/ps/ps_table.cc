// The table of `lockstep bench ps`.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/byte_size.h"
#include "experiments/analyse/format.h"
#include "experiments/bench/ps/ps_bench.h"

namespace lockstep {
namespace {

constexpr char kDefinitions[] =
    "goodput  payload pushed and pulled by all workers, by the median step; GB/s\n"
    "of grpc  goodput over that of bare gRPC streams (same settings; nothing added up, nobody "
    "waits),\n"
    "         median of rounds and their range\n"
    "cpu      seconds of all processes per GB: ours, and bare gRPC's\n"
    "ack      a null step: from the push until its parameters are here; us, p50 and p99\n"
    "GB       10^9 bytes; KiB, MiB powers of two\n";

std::string RowText(const PsBenchRow& row) {
  return absl::StrFormat(
      "%8s %3d %3d  %8s %8s %8s  %6s %-15s %7s %7s  %9s %9s %9s  %s\n",
      BytesText(static_cast<int64_t>(row.bytes())), row.workers(), row.servers(),
      Significant(row.goodput_gb_s(), 3), Significant(row.grpc_roof_gb_s(), 3),
      Significant(row.tcp_roof_gb_s(), 3), Percent(row.ratio().median()),
      absl::StrCat("(", Percent(row.ratio().low()), "..", Percent(row.ratio().high()), ")"),
      Significant(row.cpu_s_per_gb(), 2), Significant(row.grpc_cpu_s_per_gb(), 2),
      Significant(row.ack_us().p50(), 3), Significant(row.ack_us().p99(), 3),
      Significant(row.grpc_ack_us().p50(), 3), row.correct() ? "yes" : "NO");
}

std::string KneeText(const PsBenchKnee& knee) {
  const std::string what = absl::StrCat("  ", BytesText(static_cast<int64_t>(knee.bytes())), ", ",
                                        Counted(knee.servers(), "server"), ": ");
  if (knee.resource() == "not reached") {
    return absl::StrCat(what, "not reached with ", Counted(knee.workers(), "worker"), "\n");
  }
  return absl::StrCat(what, "at ", Counted(knee.workers(), "worker"), ", by ", knee.resource(),
                      "\n");
}

// How the rows of a step fell to the servers; nothing where there are none.
std::string RowsText(const PsBenchFile& file) {
  std::string text;
  for (const PsBenchRow& row : file.rows()) {
    if (row.rows() == 0) continue;
    std::vector<std::string> counts;
    for (const double rows : row.server_rows()) counts.push_back(Significant(rows, 3));
    absl::StrAppend(&text, "  ", BytesText(static_cast<int64_t>(row.bytes())), ", ",
                    Counted(row.workers(), "worker"), ", ", row.rows(), " rows of ",
                    row.row_floats(), " floats each: ", absl::StrJoin(counts, " + "), "\n");
  }
  return text.empty() ? "" : absl::StrCat("\nRows that each server took in a step\n", text);
}

}  // namespace

std::string PsBenchText(const PsBenchFile& file) {
  std::string text =
      absl::StrCat("Parameter servers: null steps, f32, SYNC, ",
                   file.rows_size() == 0 ? std::string() : file.rows(0).congestion_control(),
                   "\n\n", kDefinitions, "\n");
  absl::StrAppend(&text,
                  absl::StrFormat("%8s %3s %3s  %8s %8s %8s  %6s %-15s %7s %7s  %9s %9s %9s  %s\n",
                                  "size", "n", "s", "goodput", "grpc", "tcp", "of", "grpc", "cpu",
                                  "grpc", "ack p50", "p99", "grpc p50", "ok"));
  for (const PsBenchRow& row : file.rows()) text += RowText(row);
  absl::StrAppend(&text, "\nKnee: from how many workers on more of them add less than a tenth\n");
  for (const PsBenchKnee& knee : file.knees()) text += KneeText(knee);
  text += RowsText(file);
  for (const std::string& note : file.notes()) absl::StrAppend(&text, "Note: ", note, "\n");
  return text;
}

}  // namespace lockstep
