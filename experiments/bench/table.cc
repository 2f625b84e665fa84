#include "experiments/bench/table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "experiments/analyse/format.h"
#include "experiments/bench/options.h"
#include "experiments/bench/protocol.h"
#include "experiments/bench/values.h"

namespace lockstep {
namespace {

constexpr char kAutoTook[] = "auto: ";  // then the algorithm's name (communicator.h)

constexpr char kDefinitions[] =
    "time     of one operation, the mean over ranks; p50, p99, min over all timed operations; us\n"
    "algbw    bytes / p50\n"
    "busbw    algbw x 2(n-1)/n: what the busiest connection of a ring carries; GB/s\n"
    "cpu      ms of all ranks together an operation, user and system; where ranks share cores\n"
    "         this is the figure that transfers\n"
    "model    the schedule simulated on the link as measured in this run; where ranks share cores\n"
    "         the work of all messages and bytes, as an all-gather of all ranks showed it; us\n"
    "chain    messages one after the other on the longest path of the schedule\n"
    "ok       every element of every rank was right, in the first turn and in the last\n"
    "sent     bytes and messages that left a rank an operation: ours with headers, as our link\n"
    "         counts; a library's as the kernel counts the payload of its connections\n"
    "GB       10^9 bytes; KiB, MiB powers of two\n";

std::string CountText(double count) { return absl::StrFormat("%.12g", count); }

std::string SentText(const BenchRow& row) {
  std::vector<std::string> parts;
  double least = 0;
  double most = 0;
  for (const BenchSent& sent : row.sent()) {
    least = parts.empty() ? sent.bytes() : std::min(least, sent.bytes());
    most = std::max(most, sent.bytes());
    parts.push_back(
        absl::StrCat(sent.role(), sent.ranks().find('-') == std::string::npos ? " " : "s ",
                     sent.ranks(), ": ", CountText(sent.bytes()), " B",
                     sent.has_messages() ? absl::StrCat(" in ", CountText(sent.messages())) : ""));
  }
  constexpr size_t kPartsMax = 3;
  if (parts.size() <= kPartsMax) return absl::StrJoin(parts, ", ");
  return absl::StrCat("a rank: ", CountText(least), " to ", CountText(most), " B");
}

std::string AlgorithmText(const BenchRow& row) {
  std::string text = row.algorithm();
  if (absl::StartsWith(row.choice(), kAutoTook)) {
    const size_t end = row.choice().find_first_of(" ,", sizeof(kAutoTook) - 1);
    absl::StrAppend(&text, " (", row.choice().substr(0, end).substr(sizeof(kAutoTook) - 1), ")");
  }
  if (!row.setting().empty()) absl::StrAppend(&text, ", ", row.setting());
  if (row.servers() > 0) absl::StrAppend(&text, " (", row.servers(), " more ranks)");
  return text;
}

std::string RowText(const BenchRow& row) {
  return absl::StrFormat("%8s  %-4s  %-34s %9s %9s %9s %7s %7s %8s %9s %5s  %-3s %s\n",
                         BytesText(static_cast<int64_t>(row.bytes())), row.engine(),
                         AlgorithmText(row), Significant(row.time_us().p50(), 3),
                         Significant(row.time_us().p99(), 3), Significant(row.time_us().min(), 3),
                         Significant(row.algbw_gb_s(), 3),
                         row.has_busbw_gb_s() ? Significant(row.busbw_gb_s(), 3) : "n/a",
                         Significant(row.cpu_ms_per_op(), 3),
                         row.has_modelled_us() ? Significant(row.modelled_us(), 3) : "-",
                         row.has_chain() ? absl::StrCat(row.chain()) : "-",
                         row.correct() ? "yes" : "NO", SentText(row));
}

std::string Heading(const BenchRow& row) {
  const std::string congestion =
      row.congestion_control().empty() ? "" : absl::StrCat(", ", row.congestion_control());
  return absl::StrFormat(
      "\n%d ranks over %s%s, %s %s\n%8s  %-4s  %-34s %9s %9s %9s %7s %7s %8s %9s %5s  %-3s %s\n",
      row.ranks(), row.link(), congestion, row.dtype(), row.op(), "size", "", "algorithm", "p50",
      "p99", "min", "algbw", "busbw", "cpu", "model", "chain", "ok", "sent");
}

std::string RoofsText(const BenchRoofs& roofs) {
  return absl::StrFormat(
      "Roofs: memcpy %s GB/s, fold %s GB/s (f32, one thread, 64 MiB); memory read and written in "
      "place by %d threads %s GB/s;\n       TCP over loopback (%s) %s GB/s one way, 4 B there and "
      "back %s us with both ends blocking\n",
      Significant(roofs.memcpy_gb_s(), 3), Significant(roofs.fold_gb_s(), 3),
      roofs.update_threads(), Significant(roofs.update_gb_s(), 3), roofs.congestion_control(),
      Significant(roofs.tcp_gb_s(), 3), Significant(roofs.tcp_round_trip_us(), 3));
}

std::string ComparisonText(const BenchComparison& c) {
  return absl::StrFormat("  %8s  %7s us %-20s %7s us %-30s %6sx  (%s..%s, %d rounds)\n",
                         BytesText(static_cast<int64_t>(c.bytes())), Significant(c.ours_us(), 3),
                         c.ours_setting(), Significant(c.peer_us(), 3), c.peer_setting(),
                         Significant(c.ratio().median(), 3), Significant(c.ratio().low(), 3),
                         Significant(c.ratio().high(), 3), c.ratio().n());
}

std::string SummaryText(const BenchFile& file) {
  std::string text =
      "\nOurs against each peer, both at their best setting for the size. Ratio: their time / "
      "ours, the median over\nrounds and its 95 % interval (under 6 rounds: least to greatest); "
      "above 1 ours is faster\n";
  for (const BenchGeomean& g : file.geomeans()) {
    absl::StrAppend(&text, g.peer(), " over ", g.link(), ", ", g.ranks(), " ranks: geometric mean ",
                    Significant(g.ratio(), 3), "x over ", Counted(g.sizes(), "size"), ", least ",
                    Significant(g.least(), 3), "x\n");
    for (const BenchComparison& c : file.comparisons()) {
      if (c.peer() == g.peer() && c.link() == g.link() && c.ranks() == g.ranks()) {
        absl::StrAppend(&text, ComparisonText(c));
      }
    }
  }
  return file.comparisons().empty() ? "" : text;
}

std::string SizeOrNone(bool has, double bytes) {
  return has ? BytesText(static_cast<int64_t>(bytes)) : "none of these sizes";
}

std::string CrossingText(const BenchCrossing& c) {
  return absl::StrCat("Crossing, ", c.ranks(), " ranks over ", c.link(), ": ", c.large(), " (",
                      c.large_chain(), " messages in a row) is not slower than ", c.small(), " (",
                      c.small_chain(), ") from ",
                      SizeOrNone(c.has_measured_bytes(), c.measured_bytes()), " measured, ",
                      SizeOrNone(c.has_modelled_bytes(), c.modelled_bytes()), " modelled\n");
}

std::string FloorText(const BenchFloor& floor) {
  return absl::StrCat(
      "Floor: ", BytesText(static_cast<int64_t>(floor.bytes())), " on ", floor.ranks(),
      " ranks in shared memory must read and write ", Significant(floor.moved_bytes() / 1e6, 4),
      " MB: ", Significant(floor.floor_us(), 3), " us at ",
      Significant(floor.moved_bytes() / floor.floor_us() / 1e3, 3),
      " GB/s, which as many ranks reach in their own memory in the same rounds; ours ",
      Significant(floor.ours_us(), 3), " us is ", Percent(floor.share()), " of that speed\n");
}

}  // namespace

namespace {

// CASES R19: what integers do when a sum or a product is too large, and whether it happened here.
std::set<std::string> WrapNotes(const BenchFile& file) {
  std::set<std::string> notes;
  for (const BenchRow& row : file.rows()) {
    const std::optional<Dtype> dtype = DtypeNamed(row.dtype());
    const std::optional<ReduceOp> op = ReduceOpNamed(row.op());
    if (!dtype || !op) continue;
    const int64_t first = FirstWrapped(row.ranks(), *dtype, *op);
    const auto elements = static_cast<int64_t>(row.bytes()) / SizeOf(*dtype);
    if (first < 0 || first >= elements) continue;
    notes.insert(absl::StrCat(
        "With ", row.ranks(), " ranks ", row.op(), " of ", row.dtype(), " overflows, from element ",
        first, " on: such results wrap modulo 2^", 8 * SizeOf(*dtype), ", alike on every engine."));
  }
  return notes;
}

}  // namespace

std::vector<std::string> StandingNotes(const BenchFile& file) {
  std::vector<std::string> notes = {
      "All ranks share this machine's cores. Each rank is bound to a core of its own where there "
      "are "
      "enough, ours and the peers' alike, else none is. Other load and processor frequency were "
      "not "
      "controlled; contestants take turns in random order, so they meet all alike.",
      "Ours checks each call (operation, dtype, count, sequence) and has a deadline. The peers are "
      "called as their users call them, blocking and unchecked; while another has its turn every "
      "rank sleeps."};
  std::set<std::string> congestion;
  bool gloo = false;
  for (const BenchRow& row : file.rows()) {
    if (!row.congestion_control().empty()) congestion.insert(row.congestion_control());
    gloo = gloo || row.engine() == "gloo";
  }
  if (gloo) {
    notes.emplace_back(
        "Gloo's small sizes with more ranks than cores show its event thread, which spins whole "
        "time slices: being faster there proves nothing.");
  }
  if (congestion.size() > 1) {
    notes.push_back(absl::StrCat(
        "The contestants' congestion controls differ: ", absl::StrJoin(congestion, ", "),
        ". Their TCP rows do not compare."));
  }
  for (const std::string& note : WrapNotes(file)) notes.push_back(note);
  return notes;
}

std::string BenchText(const BenchFile& file) {
  std::string text = absl::StrCat(
      "lockstep bench allreduce, ", file.build(), ", ", file.started_at(), "\n", file.command(),
      "\n", file.host().cpu(), ", ", file.host().cores(), " cores, ", file.host().os(),
      "; load before ", file.load_before(), ", largest ", Significant(file.host().loadavg_max(), 3),
      "\n", RoofsText(file.roofs()), kDefinitions);
  for (const std::string& note : file.notes()) absl::StrAppend(&text, "Note: ", note, "\n");
  std::map<std::pair<std::string, int>, std::string> tables;  // [link, ranks]
  for (const BenchRow& row : file.rows()) {
    std::string& table = tables[{row.link(), row.ranks()}];
    absl::StrAppend(&table, table.empty() ? Heading(row) : "", RowText(row));
  }
  for (const auto& [place, table] : tables) absl::StrAppend(&text, table);
  absl::StrAppend(&text, SummaryText(file));
  for (const BenchCrossing& crossing : file.crossings()) {
    absl::StrAppend(&text, CrossingText(crossing));
  }
  for (const BenchFloor& floor : file.floors()) absl::StrAppend(&text, FloorText(floor));
  return text;
}

std::string BenchCsv(const BenchFile& file) {
  std::string csv =
      "engine,algorithm,setting,link,ranks,servers,bytes,dtype,op,p50_us,p99_us,min_us,p10_us,"
      "p90_us,samples,rounds,algbw_gb_s,busbw_gb_s,cpu_ms_per_op,modelled_us,correct,"
      "congestion_control,sent\n";
  for (const BenchRow& row : file.rows()) {
    const BenchTimes& t = row.time_us();
    absl::StrAppend(&csv, row.engine(), ",", row.algorithm(), ",", row.setting(), ",", row.link(),
                    ",", row.ranks(), ",", row.servers(), ",", static_cast<int64_t>(row.bytes()),
                    ",", row.dtype(), ",", row.op(), ",", t.p50(), ",", t.p99(), ",", t.min(), ",",
                    t.p10(), ",", t.p90(), ",", t.samples(), ",", t.rounds(), ",", row.algbw_gb_s(),
                    ",", row.has_busbw_gb_s() ? absl::StrCat(row.busbw_gb_s()) : "", ",");
    absl::StrAppend(&csv, row.cpu_ms_per_op(), ",",
                    row.has_modelled_us() ? absl::StrCat(row.modelled_us()) : "", ",",
                    row.correct() ? "true" : "false", ",", row.congestion_control(), ",\"",
                    SentText(row), "\"\n");
  }
  return csv;
}

}  // namespace lockstep
