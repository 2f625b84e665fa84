// golden.h: the golden run files of tests/browser/golden, and their reports as text.
#pragma once

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "experiments/report/report.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"

namespace lockstep {

inline std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline RunFile Golden(const std::string& name) {
  RunFile run;
  const std::string path = absl::StrCat(SourceDir(), "/tests/browser/golden/", name, ".json");
  const auto status = google::protobuf::util::JsonStringToMessage(ReadText(path), &run);
  EXPECT_TRUE(status.ok()) << path << ": " << status.ToString();
  return run;
}

inline VariantResult& Find(RunFile& run, const std::string& id) {
  for (VariantResult& result : *run.mutable_runs()) {
    if (result.id() == id) return result;
  }
  ADD_FAILURE() << "no variant " << id;
  return *run.add_runs();
}

// With plain spaces where the page has no-break ones.
inline std::string Plain(const std::string& html) {
  return absl::StrReplaceAll(html, {{"\u00a0", " "}});
}

inline std::string Render(const RunFile& run) {
  const absl::StatusOr<std::string> page = RenderReport(run);
  EXPECT_THAT(page, IsOk());
  return page.ok() ? Plain(*page) : "";
}

inline std::string Between(const std::string& text, const std::string& begin,
                           const std::string& end) {
  const size_t from = text.find(begin);
  const size_t to = text.find(end, from);
  if (from == std::string::npos || to == std::string::npos) return "";
  return text.substr(from + begin.size(), to - from - begin.size());
}

}  // namespace lockstep
