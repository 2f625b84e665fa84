#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/experiments/spec/spec_support.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

const std::filesystem::path kSpecs = std::filesystem::path(SourceDir()) / "experiments/specs";

std::string FileText(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Each file of experiments/specs is in the program, as it is, and right.
TEST(FindSpecTest, EveryReadyMadeSpecIsEmbeddedAndValid) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kSpecs)) {
    const std::string name = entry.path().stem();
    names.push_back(name);
    const auto spec = FindSpec(name);
    ASSERT_THAT(spec, IsOk());
    EXPECT_EQ(spec->display_name, name + ".textproto");
    EXPECT_EQ(spec->text, FileText(entry.path()));
    const LoadedSpec loaded = LoadSpec(*spec, {});
    EXPECT_THAT(loaded.status(), IsOk());
    EXPECT_THAT(loaded.notes, testing::IsEmpty());
    EXPECT_EQ(loaded.experiment.name(), name);
  }
  EXPECT_THAT(KnownSpecs(), testing::UnorderedElementsAreArray(names));
}

TEST(FindSpecTest, QuickstartIsWhatTheReadmePromises) {
  const Experiment quickstart = LoadSpec(*FindSpec("quickstart"), {}).experiment;
  EXPECT_EQ(quickstart.workers(0), 4);
  EXPECT_EQ(EstimateSize(quickstart).parameters, 85'002);
  std::vector<std::string> names;
  for (const Variant& variant : quickstart.variant()) names.push_back(variant.name());
  EXPECT_THAT(names, testing::ElementsAre("none", "ps_sync", "ps_async", "ps_async_r", "naive",
                                          "ring", "tree", "ps_schedule"));
  EXPECT_EQ(quickstart.variant(1).ps().servers(0), 2);
  EXPECT_EQ(quickstart.variant(7).all_reduce().servers(0), 2);
  EXPECT_TRUE(quickstart.overlap());
}

TEST(FindSpecTest, ReadsFilesByPath) {
  const std::string path = kSpecs / "quickstart.textproto";
  const auto spec = FindSpec(path);
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->display_name, path);
  EXPECT_EQ(spec->text, FindSpec("quickstart")->text);
}

// Runs in a new folder of its own.
class FindSpecInFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    before_ = std::filesystem::current_path();
    std::string folder = (std::filesystem::temp_directory_path() / "find_test_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    std::filesystem::current_path(folder_);
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }
  static void Write(const std::string& name, const std::string& text) {
    std::ofstream(name, std::ios::binary) << text;
  }

 private:
  std::filesystem::path before_;
  std::filesystem::path folder_;
};

TEST_F(FindSpecInFolderTest, ReadyMadeGoesBeforeAFileAndSaysSo) {
  Write("quickstart", ValidSpec());
  const auto ready_made = FindSpec("quickstart");
  ASSERT_THAT(ready_made, IsOk());
  EXPECT_EQ(ready_made->display_name, "quickstart.textproto");
  const LoadedSpec loaded = LoadSpec(*ready_made, {});
  EXPECT_EQ(loaded.experiment.name(), "quickstart");
  ASSERT_EQ(loaded.notes.size(), 1u);
  EXPECT_THAT(loaded.notes[0].ToString(),
              testing::AllOf(testing::StartsWith("spec quickstart: this is the ready-made spec"),
                             testing::EndsWith("write ./quickstart")));
  const auto file = FindSpec("./quickstart");
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->text, ValidSpec());
  EXPECT_EQ(file->note, "");
}

TEST_F(FindSpecInFolderTest, AFolderOfThatNameIsNoRival) {
  std::filesystem::create_directory("quickstart");
  EXPECT_EQ(FindSpec("quickstart")->note, "");
}

TEST_F(FindSpecInFolderTest, RefusesNulBytes) {
  Write("binary", std::string("name: \"a\0b\"", 12));
  EXPECT_THAT(FindSpec("binary"), StatusIs(absl::StatusCode::kInvalidArgument,
                                           "spec binary: not a text file: byte 8 is NUL"));
}

TEST(FindSpecTest, UnknownNameListsTheKnownOnes) {
  EXPECT_THAT(FindSpec("quikstart"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "spec \"quikstart\": no file and no ready-made spec of that name; did you "
                       "mean \"quickstart\"? Known specs: algorithms, failures, placement, "
                       "quickstart, server-loss, staleness, worker-loss"));
}

TEST(FindSpecTest, RefusesWhatIsNoFile) {
  EXPECT_THAT(FindSpec(kSpecs),
              StatusIs(absl::StatusCode::kInvalidArgument, "can't be read: Is a directory"));
  EXPECT_THAT(FindSpec("/dev/zero"),
              StatusIs(absl::StatusCode::kInvalidArgument, "is larger than 1048576 bytes"));
}

}  // namespace
}  // namespace lockstep
