// What gpu_check makes of its comparisons: a script stands in for `lockstep`.
#include "experiments/gpu_check/quickstart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::gpu {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

// Called as: lockstep compare SPEC --only WAY --out DIR --plain.
constexpr char kScript[] = R"(#!/bin/sh
ends() { mkdir -p "$6"; echo "{\"runs\": [{\"final_hash\": \"$hash\"}]}" > "$6/run.json"; exit 0; }
grep -q 'share_gpu: true' "$2" || exit 9
case $4 in
  ring) hash=aa; ends "$@" ;;
  ps_sync) hash=$OTHER_HASH; ends "$@" ;;
  cuda) echo "variant cuda: not here" >&2; exit 4 ;;
  nccl) echo "waiting"; exec sleep 60 ;;
esac
)";

class QuickstartTest : public testing::Test {
 protected:
  // With `hash` of parameter servers.
  CheckReport Run(const std::string& hash) {
    const fs::path dir = fs::path(testing::TempDir()) / ("quickstart_" + hash);
    fs::create_directories(dir);
    std::string script = kScript;
    script.replace(script.find("$OTHER_HASH"), std::string("$OTHER_HASH").size(), hash);
    std::ofstream(dir / "lockstep") << script;
    fs::permissions(dir / "lockstep", fs::perms::owner_all);
    CheckReport report;
    RunQuickstart({.program_dir = dir.string(), .limit = milliseconds(500)}, &report);
    return report;
  }
};

TEST_F(QuickstartTest, WaysEndWithOneHashOrAreSkippedByName) {
  const CheckReport report = Run("aa");
  EXPECT_EQ(report.cases, 2);
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("ring: ends with hash aa (correctness only)"),
                                        HasSubstr("ps_sync: ends with hash aa"),
                                        HasSubstr("cuda: skipped: variant cuda: not here")));
  EXPECT_THAT(report.wrong, ElementsAre(HasSubstr("nccl: not through in time; exit code -1: "
                                                  "waiting")));
}

TEST_F(QuickstartTest, AnotherHashIsWrong) {
  EXPECT_THAT(Run("bb").wrong,
              testing::Contains(HasSubstr("ps_sync: parameter hash 'bb', expected 'aa'")));
}

TEST_F(QuickstartTest, WithoutTheProgramItIsSkipped) {
  CheckReport report;
  RunQuickstart({.program_dir = "/nowhere", .limit = milliseconds(500)}, &report);
  EXPECT_THAT(report.wrong, IsEmpty());
  EXPECT_THAT(report.notes,
              ElementsAre("quickstart on a GPU: skipped: no lockstep beside gpu_check"));
}

}  // namespace
}  // namespace lockstep::gpu
