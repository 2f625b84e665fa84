// What the numbers depend on, and where more of them are.
#include <algorithm>
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

std::string OverlapText(const ExperimentInfo& experiment) {
  if (experiment.bucket_cap_mb() <= 0) return "";  // a run file of before
  return absl::StrCat(experiment.overlap() ? "a bucket is exchanged while the backward pass goes on"
                                           : "off: the exchange starts after the backward pass",
                      "; buckets of at most ", FormatValue(experiment.bucket_cap_mb()), " MB");
}

struct KnownFile {
  const char* name;
  const char* holds;
};
constexpr KnownFile kKnownFiles[] = {
    {"run.json", "the numbers of this page, schema lockstep.run/1"},
    {"steps.csv", "a row a variant, block, seed, rank and step"},
    {"servers.csv", "a row a variant, block, seed, server, shard and second"},
    {"trace.json",
     "who did what when, one track a worker, server and direction; opens in Perfetto "
     "(ui.perfetto.dev, Open trace file)"},
    {"experiment.textproto", "the experiment as it ran, for lockstep compare"},
};

}  // namespace

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
  terms.Add("Workers compute with", experiment.device());
  terms.Add("Model", ModelText(run.model()));
  terms.Add("Data", run.model().data());
  terms.Add("Optimizer", run.model().optimizer());
  terms.Add("Reduction", ReductionText(experiment));
  terms.Add("Overlap", OverlapText(experiment));
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
  return absl::StrCat(SectionOpen("method", "Data and method", ""), terms.Html(), "</section>\n");
}

FileNames RunFileNames() {
  FileNames names;
  for (const KnownFile& known : kKnownFiles) names.emplace_back(known.name);
  return names;
}

std::string FilesHtml(const FileNames& files) {
  std::string items;
  for (const KnownFile& known : kKnownFiles) {
    if (std::find(files.begin(), files.end(), known.name) == files.end()) continue;
    absl::StrAppend(&items, "<div><dt><a href=\"", known.name, "\">", known.name, "</a></dt><dd>",
                    known.holds, "</dd></div>\n");
  }
  if (items.empty()) return "";
  return absl::StrCat(
      SectionOpen("files", "Downloads", "They lie beside this page in the run’s folder."),
      "<dl class=\"terms\">\n", items, "</dl>\n</section>\n");
}

}  // namespace lockstep
