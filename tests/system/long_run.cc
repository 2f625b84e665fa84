#include "tests/system/long_run.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/strip.h"
#include "base/member/record_writer.h"
#include "base/socket.h"
#include "experiments/analyse/run_json.h"
#include "tests/support/status_matchers.h"
#include "tests/system/comparison.h"

namespace lockstep {
namespace {

constexpr double kTrainsWithinS = 30;

// "12345" of socket:[12345], of every socket of the process.
std::set<std::string> SocketsOf(pid_t pid) {
  std::set<std::string> sockets;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    absl::string_view inode = target;
    if (absl::ConsumePrefix(&inode, "socket:[") && absl::ConsumeSuffix(&inode, "]")) {
      sockets.insert(std::string(inode));
    }
  }
  return sockets;
}

}  // namespace

LongRun::LongRun(const std::string& spec, const std::string& variant, std::vector<std::string> more)
    : variant_(variant),
      records_(dir_.path() + "/out/blocks/1-" + variant + "-seed-1/records"),
      command_(CompareCommand(Arguments(spec, variant, more))) {}

std::vector<std::string> LongRun::Arguments(const std::string& spec, const std::string& variant,
                                            const std::vector<std::string>& more) const {
  std::vector<std::string> arguments;
  if (!spec.empty()) arguments.push_back(SpecFile(dir_, spec));
  arguments.insert(arguments.end(), {"--plain", "--only", variant, "--blocks", "1", "--set",
                                     "train.steps=1000000", "--out", dir_.path() + "/out"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

bool LongRun::Trains() const {
  return Eventually([&] { return Steps("worker", 0) >= 5; }, kTrainsWithinS);
}

pid_t LongRun::Pid(const std::string& role, int index) const {
  const auto records = ReadRecords(RecordPath(records_, role, index));
  if (!records.ok() || records->empty()) return -1;
  return static_cast<pid_t>(records->front().started().pid());
}

int LongRun::Steps(const std::string& role, int index) const {
  const auto records = ReadRecords(RecordPath(records_, role, index));
  if (!records.ok()) return 0;
  return static_cast<int>(std::count_if(records->begin(), records->end(),
                                        [](const Record& record) { return record.has_step(); }));
}

int64_t LongRun::LastStep(const std::string& role, int index) const {
  int64_t last = 0;
  const auto records = ReadRecords(RecordPath(records_, role, index));
  if (!records.ok()) return 0;
  for (const Record& record : *records) {
    if (record.has_step()) last = record.step().step();
    if (record.has_applied()) last = record.applied().step();
  }
  return last;
}

std::vector<pid_t> LongRun::Pids(int servers) const {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < 4; ++rank) pids.push_back(Pid("worker", rank));
  for (int index = 0; index < servers; ++index) pids.push_back(Pid("server", index));
  return pids;
}

std::vector<uint16_t> LongRun::Ports(int servers) const {
  std::vector<pid_t> pids = Pids(servers);
  pids.push_back(command_.pid());
  std::vector<uint16_t> ports = ListeningPorts(pids);
  // A schedule's ranks stop listening once they are connected.
  EXPECT_GE(ports.size(), variant_ == "ps_schedule" ? 1U : 1U + static_cast<size_t>(servers));
  return ports;
}

RunFile LongRun::ReadRun() const {
  const auto run = ReadRunJson(dir_.path() + "/out/run.json");
  EXPECT_THAT(run, IsOk());
  return run.ok() ? *run : RunFile();
}

bool Alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text[name_end + 2] != 'Z';
}

void ExpectGone(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    ASSERT_GT(pid, 1);
    EXPECT_NE(kill(pid, 0), 0) << "process " << pid << " is still there";
  }
}

// /proc/net/tcp: sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode.
std::vector<uint16_t> ListeningPorts(const std::vector<pid_t>& pids) {
  std::set<std::string> sockets;
  for (const pid_t pid : pids) sockets.merge(SocketsOf(pid));
  std::vector<uint16_t> ports;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::array<std::string, 10> word;
      for (std::string& one : word) words >> one;
      constexpr const char* kListens = "0A";
      if (word[3] != kListens || !sockets.contains(word[9])) continue;
      const std::string port = word[1].substr(word[1].rfind(':') + 1);
      ports.push_back(static_cast<uint16_t>(std::stoi(port, nullptr, 16)));
    }
  }
  return ports;
}

void ExpectFree(const std::vector<uint16_t>& ports) {
  for (const uint16_t port : ports) {
    EXPECT_THAT(Listen({"127.0.0.1", port}).status(), IsOk()) << "port " << port;
  }
}

}  // namespace lockstep
