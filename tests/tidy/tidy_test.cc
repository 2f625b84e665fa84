// What clang-format and clang-tidy cannot see: arrows between rooms, file length, line length,
// header comments, unfinished work. The rules are the tables below.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/places.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Which rooms a room may include from. The longest matching prefix of a file's folder decides.
struct Arrow {
  std::string room;
  std::vector<std::string> allowed;
};
const std::vector<Arrow>& Arrows() {
  static const std::vector<Arrow> arrows = {
      {"base", {"base"}},
      {"base/numeric", {"base", "base/numeric"}},
      {"base/member", {"base", "base/member", "base/numeric", "proto"}},
      {"allreduce",
       {"base", "base/numeric", "allreduce", "allreduce/schedule", "allreduce/transport",
        "allreduce/host"}},
      {"allreduce/schedule", {"base", "allreduce/schedule"}},
      {"allreduce/cuda", {"base/numeric", "allreduce/schedule", "allreduce/cuda"}},
      {"allreduce/gpu",
       {"base", "base/numeric", "allreduce/cuda", "allreduce/engine", "allreduce/gpu"}},
      {"allreduce/nccl",
       {"base", "base/numeric", "allreduce/cuda", "allreduce/engine", "allreduce/nccl"}},
      {"allreduce/transport", {"base", "allreduce/transport"}},
      {"allreduce/host",
       {"base", "base/numeric", "allreduce/schedule", "allreduce/transport", "allreduce/host"}},
      {"ps_server", {"base", "base/numeric", "proto", "ps_server"}},
      {"ps_server/core", {"base", "base/numeric", "proto", "ps_server/core"}},
      {"ps_server/wire",
       {"base", "base/numeric", "base/member", "proto", "ps_server/core", "ps_server/wire"}},
      {"ps_server/service",
       {"base", "base/numeric", "base/member", "proto", "ps_server/core", "ps_server/wire",
        "ps_server/service"}},
      {"ps_server/client",
       {"base", "base/numeric", "proto", "ps_server/core", "ps_server/wire", "ps_server/client"}},
      {"worker",
       {"base", "base/numeric", "base/member", "proto", "allreduce", "allreduce/transport",
        "ps_server/client", "ps_server/wire", "worker"}},
      {"experiments",
       {"base", "base/numeric", "base/member", "proto", "allreduce", "ps_server", "worker",
        "experiments"}},
      {"tests",
       {"base", "base/numeric", "base/member", "proto", "allreduce", "ps_server", "worker",
        "experiments", "tests"}},
  };
  return arrows;
}

bool Within(const std::string& folder, const std::string& room) {
  return folder == room || folder.rfind(room + "/", 0) == 0;
}

const Arrow* ArrowOf(const std::string& folder) {
  const Arrow* best = nullptr;
  for (const Arrow& arrow : Arrows()) {
    if (Within(folder, arrow.room) && (best == nullptr || arrow.room.size() > best->room.size()))
      best = &arrow;
  }
  return best;
}

// "base/numeric" is a room of its own: "base" alone does not allow it; below other rooms, folders
// are.
bool Allowed(const Arrow& from, const std::string& folder) {
  return std::any_of(from.allowed.begin(), from.allowed.end(), [&](const std::string& room) {
    return room == "base" ? folder == "base" : Within(folder, room);
  });
}

struct SourceFile {
  std::string path;  // from the repository's root
  std::vector<std::string> lines;
  std::string folder() const { return fs::path(path).parent_path().string(); }
};

SourceFile ReadSource(const fs::path& path) {
  SourceFile file;
  file.path = fs::relative(path, SourceDir()).string();
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) file.lines.push_back(line);
  return file;
}

std::vector<SourceFile> Sources() {
  std::vector<SourceFile> files;
  for (const char* room :
       {"base", "proto", "allreduce", "ps_server", "worker", "experiments", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(SourceDir()) / room)) {
      const std::string path = entry.path().string();
      const std::string extension = entry.path().extension().string();
      if (path.find("node_modules") != std::string::npos) continue;
      if (extension == ".h" || extension == ".cc" || extension == ".cu" || extension == ".proto")
        files.push_back(ReadSource(entry.path()));
    }
  }
  return files;
}

std::vector<std::string> ForbiddenIncludes(const SourceFile& file) {
  static const std::regex include("^#include \"([^\"]+)\"");
  std::vector<std::string> forbidden;
  const Arrow* arrow = ArrowOf(file.folder());
  for (const std::string& line : file.lines) {
    std::smatch match;
    if (arrow == nullptr || !std::regex_search(line, match, include)) continue;
    const std::string folder = fs::path(match[1].str()).parent_path().string();
    if (ArrowOf(folder) == nullptr && !Within(folder, "proto")) continue;  // not ours: absl/...
    if (!Allowed(*arrow, folder)) forbidden.push_back(file.path + " includes " + match[1].str());
  }
  return forbidden;
}

TEST(TidyTest, ArrowsBetweenRoomsPointOneWay) {
  std::vector<std::string> forbidden;
  for (const SourceFile& file : Sources()) {
    for (const std::string& line : ForbiddenIncludes(file)) forbidden.push_back(line);
  }
  EXPECT_THAT(forbidden, testing::IsEmpty());
}

TEST(TidyTest, ArrowRulesRefuseWhatTheyShould) {
  const auto forbidden = [](const std::string& path, const std::string& include) {
    return !ForbiddenIncludes({path, {"#include \"" + include + "\""}}).empty();
  };
  EXPECT_TRUE(forbidden("base/clock.cc", "base/member/member.h"));
  EXPECT_TRUE(forbidden("base/clock.cc", "allreduce/communicator.h"));
  EXPECT_TRUE(forbidden("allreduce/schedule/ring.cc", "allreduce/transport/link.h"));
  EXPECT_TRUE(forbidden("allreduce/host/executor.cc", "proto/record.pb.h"));
  EXPECT_TRUE(forbidden("ps_server/client/client.cc", "ps_server/service/service.h"));
  EXPECT_TRUE(forbidden("allreduce/cuda/ring.h", "allreduce/host/executor.h"));
  EXPECT_TRUE(forbidden("allreduce/nccl/library.cc", "allreduce/transport/link.h"));
  EXPECT_TRUE(forbidden("worker/main.cc", "experiments/spec/spec.h"));
  EXPECT_TRUE(forbidden("worker/sync/ps.cc", "ps_server/core/shard.h"));
  EXPECT_TRUE(forbidden("experiments/cli/main.cc", "tests/support/status_matchers.h"));
  EXPECT_FALSE(forbidden("worker/main.cc", "base/member/member.h"));
  EXPECT_FALSE(forbidden("allreduce/host/executor.cc", "absl/status/status.h"));
}

TEST(TidyTest, FilesAreShortLinesFitAndHeadersExplainThemselves) {
  constexpr size_t kLinesMax = 400;  // one idea a file
  constexpr size_t kColumnsMax = 100;
  std::vector<std::string> complaints;
  for (const SourceFile& file : Sources()) {
    if (file.lines.size() > kLinesMax)
      complaints.push_back(file.path + ": " + std::to_string(file.lines.size()) + " lines");
    for (size_t line = 0; line < file.lines.size(); ++line) {
      if (file.lines[line].size() > kColumnsMax && file.path.find(".proto") == std::string::npos &&
          file.path != "tests/tidy/tidy_test.cc") {
        complaints.push_back(file.path + ":" + std::to_string(line + 1) +
                             ": longer than 100 columns");
      }
    }
    const std::string name = fs::path(file.path).filename().string();
    const bool explained = !file.lines.empty() && file.lines[0].rfind("// " + name + ": ", 0) == 0;
    const bool has_own_header = name.find(".c") != std::string::npos;  // .cc, .cu
    if (!has_own_header && !explained) complaints.push_back(file.path + ": no header comment");
  }
  EXPECT_THAT(complaints, testing::IsEmpty());
}

// They build where there is no Abseil.
TEST(TidyTest, KernelsAndTheirCheckStandAlone) {
  std::vector<std::string> found;
  for (const SourceFile& file : Sources()) {
    const std::string folder = file.folder();
    if (folder != "allreduce/cuda" && folder != "experiments/gpu_check") continue;
    for (const std::string& line : file.lines) {
      if (line.rfind("#include \"absl/", 0) == 0) found.push_back(file.path + ": " + line);
    }
  }
  EXPECT_THAT(found, testing::IsEmpty());
}

TEST(TidyTest, NothingIsLeftUnfinished) {
  static const std::regex unfinished(
      "\\b(TO"
      "DO|FIX"
      "ME|HA"
      "CK)\\b");
  std::vector<std::string> found;
  for (const SourceFile& file : Sources()) {
    for (const std::string& line : file.lines) {
      if (std::regex_search(line, unfinished)) found.push_back(file.path + ": " + line);
    }
  }
  EXPECT_THAT(found, testing::IsEmpty());
}

}  // namespace
}  // namespace lockstep
