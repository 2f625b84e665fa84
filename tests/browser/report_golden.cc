// report_golden: turns golden run files into reports, for the browser tests.
//   report_golden OUT_DIR RUN.json...   writes OUT_DIR/<name of the run file>.html for each.

#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "experiments/report/report.h"

namespace lockstep {
namespace {

absl::Status Convert(const std::filesystem::path& source, const std::filesystem::path& out_dir) {
  std::ifstream file(source);
  if (!file) return absl::NotFoundError(absl::StrCat("read ", source.string()));
  std::stringstream text;
  text << file.rdbuf();
  RunFile run;
  const auto parsed = google::protobuf::util::JsonStringToMessage(text.str(), &run);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.string(), ": ", parsed.message().ToString()));
  }
  const std::filesystem::path target = out_dir / source.filename().replace_extension(".html");
  return WriteReport(target.string(), run);
}

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: report_golden OUT_DIR RUN.json...\n");
    return kExitUsage;
  }
  for (int i = 2; i < argc; ++i) {
    const absl::Status status = Convert(argv[i], argv[1]);
    if (status.ok()) continue;
    std::fprintf(stderr, "report_golden: %s\n", status.ToString().c_str());
    return ExitCodeFor(status);
  }
  return kExitOk;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::Main(argc, argv); }
