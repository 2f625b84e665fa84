#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"
#include "experiments/report/sections.h"

namespace lockstep {
namespace {

constexpr size_t kHashShown = 12;  // digits; the whole hash stands in the title

// One line of the byte table: what an endpoint of a variant carries in one step.
struct ByteLine {
  std::string endpoint;
  std::string formula_text;
  double formula = 0;
  double out = 0;
  double in = 0;
  double worst = 0;  // of out and in, where the formula speaks about both: the one further off
};

std::string CountText(const VariantResult& result, double bytes) {
  return result.has_bytes() ? FormatCount(bytes) : kNotMeasured;
}

std::vector<ByteLine> ByteLines(const VariantResult& result) {
  const BytesResult& bytes = result.bytes();
  std::vector<ByteLine> lines = {{.endpoint = "each worker",
                                  .formula_text = bytes.formula_text(),
                                  .formula = bytes.formula(),
                                  .out = bytes.tx_per_worker_step(),
                                  .in = bytes.rx_per_worker_step(),
                                  .worst = bytes.tx_per_worker_step()}};
  if (bytes.has_server_in_per_step() || bytes.has_server_out_per_step()) {
    const double in = bytes.server_in_per_step();
    const double out = bytes.server_out_per_step();
    const bool in_worse =
        std::abs(in - bytes.server_formula()) > std::abs(out - bytes.server_formula());
    lines.push_back({.endpoint = "each server",
                     .formula_text = bytes.server_formula_text(),
                     .formula = bytes.server_formula(),
                     .out = out,
                     .in = in,
                     .worst = in_worse ? in : out});
  }
  return lines;
}

std::string DifferenceText(const VariantResult& result, const ByteLine& line) {
  if (!result.has_bytes()) return kNotMeasured;
  if (line.formula > 0) return FormatSignedShare(line.worst / line.formula - 1);
  return line.worst == 0 ? FormatSignedShare(0) : kNotMeasured;
}

std::string BytesNote(const PageView& view) {
  std::string apart;
  for (const PageRow& row : view.rows) {
    absl::StrAppend(&apart, apart.empty() ? "" : ", ", row.result->label(), " ",
                    FormatBytes(row.result->bytes().set_up()));
  }
  return absl::StrCat(
      "<p class=\"note\">n workers, s servers, S = ",
      FormatCount(view.run->model().gradient_bytes()),
      " bytes of gradients. Start-up, call check, start values and probe are counted "
      "apart, over a whole run: ",
      Escape(apart), ".</p>\n");
}

std::string HashHtml(const std::string& hash) {
  if (hash.empty()) return kNotMeasured;
  const std::string shown = hash.size() > kHashShown ? hash.substr(0, kHashShown) + "…" : hash;
  return absl::StrCat("<code title=\"", Escape(hash), "\">", Escape(shown), "</code>");
}

std::string StateHtml(const ReplicaResult& replicas) {
  if (replicas.state() == "identical") return "<span class=\"ok\">✓ bit-identical</span>";
  if (replicas.state() == "diverged") return "<span class=\"bad\">✗ differ</span>";
  return "not compared";
}

std::string DistanceText(const ReplicaResult& replicas) {
  if (replicas.max_rel().has_number_value()) {
    const double share = replicas.max_rel().number_value();
    return share == 0 ? "exactly 0" : FormatShare(share);
  }
  return kNotMeasured;
}

// A reason is a sentence, too long for a cell.
std::string DistanceNotes(const PageView& view) {
  std::string out;
  for (const PageRow& row : view.rows) {
    const std::string& reason = row.result->replicas().max_rel_reason();
    if (reason.empty()) continue;
    absl::StrAppend(&out, "<p class=\"note\">", Escape(row.result->label()),
                    ": distance not measured, ", Escape(reason), ".</p>\n");
  }
  return out;
}

std::string RepeatsHtml(const VariantResult& result, int blocks) {
  if (blocks < 2 || result.final_hash().empty()) return kNotMeasured;
  if (result.repeated_hash_equal()) return "<span class=\"ok\">✓ same bits</span>";
  return "<span class=\"bad\">✗ other bits</span>";
}

// Collects the terms of "Data and method"; a value the run file lacks is left out.
class Terms {
 public:
  void Add(std::string_view term, std::string_view value) {
    if (value.empty()) return;
    absl::StrAppend(&html_, "<div><dt>", Escape(term), "</dt><dd>", Escape(value), "</dd></div>\n");
  }
  // Over the whole width, to be copied.
  void AddCode(std::string_view term, std::string_view code) {
    if (code.empty()) return;
    absl::StrAppend(&html_, "<div class=\"wide\"><dt>", Escape(term), "</dt><dd><code>",
                    Escape(code), "</code></dd></div>\n");
  }
  std::string Html() const { return absl::StrCat("<dl class=\"terms\">\n", html_, "</dl>\n"); }

 private:
  std::string html_;
};

std::string TimeBaseSentence(const RunFile& run) {
  if (run.experiment().time_base() != "wall") return TimeBaseText(run);
  return "wall clock: real processes and sockets on this host, links not shaped";
}

std::string HostText(const HostInfo& host) {
  std::vector<std::string> parts;
  if (!host.cpu().empty()) parts.push_back(host.cpu());
  if (host.cores() > 0) parts.push_back(Plural(host.cores(), "core"));
  if (!host.os().empty()) parts.push_back(host.os());
  return absl::StrJoin(parts, ", ");
}

std::string LoadText(const HostInfo& host) {
  if (host.cpu_busy() <= 0) return "";
  return absl::StrCat(
      FormatShare(host.cpu_busy()), " of the processors busy over the whole run, load at most ",
      FormatValue(host.loadavg_max()), host.cpu_bound() ? "; the processors were the limit" : "");
}

std::string ModelText(const ModelInfo& model) {
  if (model.parameters() <= 0) return model.description();
  return absl::StrCat(model.description(), model.description().empty() ? "" : ", ",
                      Plural(model.parameters(), "parameter"), ", ", model.dtype(), ", ",
                      FormatBytes(model.gradient_bytes()), " of gradients");
}

std::string StepsText(const ExperimentInfo& experiment) {
  if (experiment.steps() <= 0) return "";
  std::string out = absl::StrCat(Plural(experiment.steps(), "step"), " a run");
  if (experiment.warmup_steps() > 0) {
    absl::StrAppend(&out, ", the first ", FormatCount(experiment.warmup_steps()),
                    " left out of every time");
  }
  return out;
}

std::string BlocksText(const ExperimentInfo& experiment) {
  return absl::StrCat(Plural(experiment.blocks(), "finished block"),
                      "; a block runs every variant once, in random order");
}

std::string ReductionText(const ExperimentInfo& experiment) {
  if (experiment.reduce_op().empty()) return "";
  const std::string order = absl::AsciiStrToLower(experiment.reduction_order());
  return absl::StrCat(
      absl::AsciiStrToLower(experiment.reduce_op()), " over the workers, added in ",
      order == "engine" ? "the order of the algorithm" : absl::StrCat("order: ", order));
}

std::string ToolText(const ToolInfo& tool) {
  std::string out = absl::StrCat("lockstep ", tool.version());
  if (!tool.git().empty()) absl::StrAppend(&out, ", commit ", tool.git());
  if (!tool.build().empty()) absl::StrAppend(&out, ", ", tool.build(), " build");
  return out;
}

}  // namespace

std::string BytesHtml(const PageView& view) {
  if (view.rows.empty()) return "";
  std::string out =
      "<section aria-labelledby=\"bytes-title\">\n<h2 id=\"bytes-title\">Bytes, counted and by "
      "formula</h2>\n"
      "<p class=\"sub\">Per step, one direction. Every byte handed to a socket or to gRPC counts, "
      "our "
      "own headers included; headers of TCP and HTTP/2 do not.</p>\n";
  const std::vector<Column> columns = {{"Synchronisation"},    {"Endpoint", "text"},
                                       {"Formula", "text"},    {"Formula’s value", "num"},
                                       {"Counted out", "num"}, {"Counted in", "num"},
                                       {"Off by", "num"}};
  absl::StrAppend(&out, TableOpen("bytes", "bytes-title", columns));
  for (const PageRow& row : view.rows) {
    for (const ByteLine& line : ByteLines(*row.result)) {
      const std::string formula =
          line.formula_text.empty() ? kNotMeasured : Escape(line.formula_text);
      absl::StrAppend(&out, RowOpen(row), Cell(columns[1], line.endpoint),
                      Cell(columns[2], formula),
                      Cell(columns[3], CountText(*row.result, line.formula)),
                      Cell(columns[4], CountText(*row.result, line.out)),
                      Cell(columns[5], CountText(*row.result, line.in)));
      absl::StrAppend(&out, Cell(columns[6], DifferenceText(*row.result, line)), RowClose());
    }
  }
  absl::StrAppend(&out, TableClose(), BytesNote(view), "</section>\n");
  return out;
}

std::string ReplicasHtml(const PageView& view) {
  if (view.rows.empty()) return "";
  std::string out =
      "<section aria-labelledby=\"replicas-title\">\n<h2 id=\"replicas-title\">Do the replicas "
      "stay the same?</h2>\n"
      "<p class=\"sub\">Each worker’s parameters are hashed at every probe; equal hashes mean "
      "equal "
      "bits. Distance: the largest difference between two workers, as a share of the largest "
      "parameter, at the last probe.</p>\n";
  const std::vector<Column> columns = {
      {"Synchronisation"},     {"Replicas"},      {"First differing step", "num"},
      {"Distance", "num"},     {"Probes", "num"}, {"Final parameters", "num"},
      {"Repeated runs", "num"}};
  absl::StrAppend(&out, TableOpen("replicas", "replicas-title", columns));
  for (const PageRow& row : view.rows) {
    const ReplicaResult& replicas = row.result->replicas();
    const std::string first = replicas.has_first_diff_step()
                                  ? FormatCount(replicas.first_diff_step())
                                  : (replicas.state() == "identical" ? "none" : kNotMeasured);
    absl::StrAppend(&out, RowOpen(row), Cell(columns[1], StateHtml(replicas)),
                    Cell(columns[2], first), Cell(columns[3], DistanceText(replicas)),
                    Cell(columns[4], FormatCount(replicas.probes_size())));
    absl::StrAppend(&out, Cell(columns[5], HashHtml(row.result->final_hash())),
                    Cell(columns[6], RepeatsHtml(*row.result, view.run->experiment().blocks())),
                    RowClose());
  }
  absl::StrAppend(&out, TableClose(), DistanceNotes(view), "</section>\n");
  return out;
}

std::string MethodHtml(const PageView& view) {
  const RunFile& run = *view.run;
  const ExperimentInfo& experiment = run.experiment();
  Terms terms;
  terms.AddCode("Command", experiment.command());
  terms.Add("Started", experiment.started_at());
  if (experiment.duration_s() > 0) terms.Add("Took", FormatDuration(experiment.duration_s()));
  terms.Add("Host", HostText(run.host()));
  terms.Add("Load", LoadText(run.host()));
  if (!experiment.time_base().empty()) terms.Add("Time base", TimeBaseSentence(run));
  terms.Add("Congestion control", run.host().congestion_control());
  terms.Add("Model", ModelText(run.model()));
  terms.Add("Data", run.model().data());
  terms.Add("Optimizer", run.model().optimizer());
  terms.Add("Reduction", ReductionText(experiment));
  if (experiment.workers() > 0) terms.Add("Workers", FormatCount(experiment.workers()));
  if (experiment.global_batch() > 0) {
    terms.Add("Global batch", absl::StrCat(Plural(experiment.global_batch(), "sample"), " a step"));
  }
  terms.Add("Steps", StepsText(experiment));
  terms.Add("Seeds", absl::StrJoin(experiment.seeds(), ", ", [](std::string* out, double seed) {
              absl::StrAppend(out, FormatCount(seed));
            }));
  if (experiment.blocks() > 0) terms.Add("Blocks", BlocksText(experiment));
  if (!run.tool().version().empty()) terms.Add("Versions", ToolText(run.tool()));
  terms.Add("Run file", run.schema());
  return absl::StrCat(
      "<section aria-labelledby=\"method-title\">\n<h2 id=\"method-title\">Data and method</h2>\n",
      terms.Html(), "</section>\n");
}

}  // namespace lockstep
