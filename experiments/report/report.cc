#include "experiments/report/report.h"

#include <google/protobuf/util/json_util.h>

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "experiments/analyse/atomic_file.h"
#include "experiments/analyse/run_json.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"
#include "experiments/report/sections.h"

// The committed page, embedded by template.S.in.
extern "C" {
extern const char lockstep_report_template[];
extern const uint64_t lockstep_report_template_bytes;
}

namespace lockstep {
namespace {

// Ids go into file names and selectors, labels are for people.
bool IsId(const std::string& id) {
  return !id.empty() &&
         id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.-") == std::string::npos;
}

absl::Status CheckRunFile(const RunFile& run) {
  if (run.schema() != kRunSchema) {
    return absl::InvalidArgumentError(absl::StrCat("report: this program reads ", kRunSchema,
                                                   ", the run file says \"", run.schema(),
                                                   "\"; use the lockstep that wrote it"));
  }
  for (const VariantResult& result : run.runs()) {
    if (!IsId(result.id())) {
      return absl::InvalidArgumentError(
          absl::StrCat("report: variant id \"", result.id(), "\" is not of the form [a-z0-9_.-]+"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> RunFileJson(const RunFile& run) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;  // a zero is a value, the chart must not meet a gap
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(run, &json, options);
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("report: run file as JSON: ", status.message().ToString()));
  }
  return json;
}

// In the reader's order: what came out, where the time goes, what the links carry, whether the
// replicas agree, whether it learns.
std::string SectionsHtml(const PageView& view, const FileNames& files) {
  std::string out;
  for (const std::string& section :
       {TableHtml(view), ThroughputHtml(view), BytesHtml(view), BalanceHtml(view), LoadHtml(view),
        AnatomyHtml(view), PredictionHtml(view), ReplicasHtml(view), SameBitsHtml(view),
        StalenessHtml(view), PushesHtml(view), RecoveryHtml(view), LossHtml(view), MethodHtml(view),
        FilesHtml(files)}) {
    out += section;
  }
  return out;
}

FileNames FilesBeside(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  FileNames names;
  for (const std::string& name : RunFileNames()) {
    std::error_code error;  // what can't be seen is not offered
    if (std::filesystem::is_regular_file(folder / name, error)) names.push_back(name);
  }
  return names;
}

}  // namespace

absl::StatusOr<std::string> RenderReport(const RunFile& run, const FileNames& files) {
  RETURN_IF_ERROR(CheckRunFile(run));
  ASSIGN_OR_RETURN(const std::string json, RunFileJson(run));
  const PageView view = MakeView(run);
  const std::string_view page(lockstep_report_template, lockstep_report_template_bytes);
  ASSIGN_OR_RETURN(std::string html, FillSlots(page, {{"TITLE", Escape(Headline(run))},
                                                      {"ID", Escape(run.experiment().id())},
                                                      {"HEAD", HeadHtml(view)},
                                                      {"SECTIONS", SectionsHtml(view, files)},
                                                      {"DATA", JsonForScript(json)}}));
  if (html.size() > kReportBytesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("report: ", FormatBytes(static_cast<double>(html.size())), ", the limit is ",
                     FormatBytes(static_cast<double>(kReportBytesMax)),
                     "; probe less often or run fewer steps (probe.every, train.steps)"));
  }
  return html;
}

absl::Status WriteReport(const std::string& path, const RunFile& run) {
  ASSIGN_OR_RETURN(const std::string html, RenderReport(run, FilesBeside(path)));
  return Annotate(WriteFileAtomically(path, html), "report");
}

}  // namespace lockstep
