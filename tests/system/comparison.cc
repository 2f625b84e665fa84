#include "tests/system/comparison.h"

#include <gtest/gtest.h>

#include <fstream>

#include "experiments/analyse/run_json.h"
#include "tests/support/status_matchers.h"

namespace lockstep {

Compared Compare(const TemporaryDir& dir, std::vector<std::string> arguments, double timeout_s) {
  const std::string out = dir.path() + "/out";
  arguments.insert(arguments.end(), {"--plain", "--out", out});
  Compared compared{.result = RunCommand(CompareCommand(arguments), timeout_s), .run = {}};
  EXPECT_FALSE(compared.result.timed_out);
  const auto run = ReadRunJson(out + "/run.json");
  EXPECT_THAT(run, IsOk()) << compared.result.err;
  if (run.ok()) compared.run = *run;
  return compared;
}

std::string SpecFile(const TemporaryDir& dir, const std::string& text) {
  const std::string path = dir.path() + "/spec.textproto";
  std::ofstream(path) << text;
  return path;
}

const VariantResult& VariantOf(const RunFile& run, const std::string& id) {
  for (const VariantResult& variant : run.runs()) {
    if (variant.id() == id) return variant;
  }
  ADD_FAILURE() << "no variant " << id;
  return VariantResult::default_instance();
}

}  // namespace lockstep
