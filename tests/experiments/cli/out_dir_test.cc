#include "experiments/cli/out_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

// A fresh current folder.
class OutDirTest : public testing::Test {
 protected:
  OutDirTest() : before_(fs::current_path()) {
    std::string path = (fs::temp_directory_path() / "lockstep-out-XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    here_ = path;
    fs::current_path(here_);
  }
  ~OutDirTest() override {
    fs::current_path(before_);
    fs::permissions(here_, fs::perms::owner_all);
    fs::remove_all(here_);
  }
  const fs::path& here() const { return here_; }

 private:
  const fs::path before_;
  fs::path here_;
};

constexpr char kTime[] = "2025-01-02T03:04:05Z";

// Two comparisons of the same second once shared a folder: both saw the name free.
TEST_F(OutDirTest, ComparisonsOfOneSecondGetFoldersOfTheirOwn) {
  const std::string base = "runs/2025-01-02T03-04-05Z-quickstart";
  for (const char* suffix : {"", "-2", "-3"}) {
    const auto dir = MakeOutDir("", "quickstart", kTime);
    ASSERT_THAT(dir, IsOk());
    EXPECT_EQ(*dir, base + suffix);
    EXPECT_TRUE(fs::is_directory(*dir)) << "it is ours from here on, even while it is empty";
  }
}

TEST_F(OutDirTest, ACheckCreatesNothing) {
  EXPECT_THAT(CheckOutDir(""), IsOk());
  EXPECT_THAT(CheckOutDir("a/b/c"), IsOk());
  EXPECT_TRUE(fs::is_empty(here()));
}

TEST_F(OutDirTest, AnEmptyFolderIsTaken) {
  fs::create_directory("mine");
  const auto dir = MakeOutDir("mine/", "x", kTime);
  ASSERT_THAT(dir, IsOk());
  EXPECT_EQ(*dir, "mine");
}

// CASES R54.
TEST_F(OutDirTest, NothingIsOverwritten) {
  fs::create_directory("full");
  std::ofstream("full/run.json") << "mine";
  EXPECT_THAT(MakeOutDir("full", "x", kTime),
              StatusIs(StatusCode::kAlreadyExists, "full is not empty; nothing is overwritten"));
  std::ofstream("file") << "mine";
  EXPECT_THAT(MakeOutDir("file", "x", kTime),
              StatusIs(StatusCode::kInvalidArgument, "file is a file"));
  EXPECT_THAT(MakeOutDir("file/below", "x", kTime),
              StatusIs(StatusCode::kInvalidArgument, "file is a file, no folder"));
  EXPECT_EQ(fs::file_size("full/run.json"), 4U);
}

TEST_F(OutDirTest, WhatIsNotWritableIsSaidFirst) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::permissions(here(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT(CheckOutDir("a/b"), StatusIs(StatusCode::kPermissionDenied, "is not writable"));
  EXPECT_THAT(CheckOutDir(""), StatusIs(StatusCode::kPermissionDenied, "runs"));
}

}  // namespace
}  // namespace lockstep
