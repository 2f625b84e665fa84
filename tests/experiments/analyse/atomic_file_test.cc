#include "experiments/analyse/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class AtomicFile : public ::testing::Test {
 protected:
  AtomicFile() : folder_(::testing::TempDir() + "/atomic_file") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~AtomicFile() override { std::filesystem::remove_all(folder_); }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  const std::string folder_;
};

TEST_F(AtomicFile, ReplacesTheOldContentAndLeavesNothingElse) {
  const std::string path = folder_ + "/run.json";
  ASSERT_THAT(WriteFileAtomically(path, "a longer first version"), IsOk());
  ASSERT_THAT(WriteFileAtomically(path, std::string("new\0one", 7)), IsOk());
  EXPECT_EQ(Content(path), std::string("new\0one", 7));
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFile, AFailureNamesThePathAndKeepsTheOldContent) {
  EXPECT_THAT(WriteFileAtomically(folder_ + "/none/run.json", "x"),
              StatusIs(absl::StatusCode::kNotFound, "/none/run.json"));
  // The rename fails: a folder is in the way. Nothing may be left behind.
  std::filesystem::create_directories(folder_ + "/taken/inside");
  const absl::Status status = WriteFileAtomically(folder_ + "/taken", "x");
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("rename"));
  EXPECT_EQ(files(), 1U);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/taken/inside"));
}

// A reader holding the old file open keeps reading the old version: the new one is another file.
TEST_F(AtomicFile, ReadersSeeTheOldOrTheNewVersionNeverAMixture) {
  const std::string path = folder_ + "/run.json";
  ASSERT_THAT(WriteFileAtomically(path, "old old old"), IsOk());
  std::ifstream reader(path, std::ios::binary);
  ASSERT_THAT(WriteFileAtomically(path, "new"), IsOk());
  const std::string read{std::istreambuf_iterator<char>(reader), std::istreambuf_iterator<char>()};
  EXPECT_EQ(read, "old old old");
  EXPECT_EQ(Content(path), "new");
}

}  // namespace
}  // namespace lockstep
