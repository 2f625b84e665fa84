// rank_main.cc: the program ps_rank: one worker or server of one contestant of `lockstep bench ps`.
// It sleeps until its turn, runs it and reports. It ends when its launcher does. Not for use by
// hand.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/exit_code.h"
#include "base/heap.h"
#include "base/member/program.h"
#include "base/status.h"
#include "experiments/bench/line_channel.h"
#include "experiments/bench/protocol.h"
#include "experiments/bench/ps/end.h"
#include "experiments/bench/sockets.h"

namespace lockstep {
namespace {

int64_t CpuNs() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

class PsRank {
 public:
  PsRank(const PsEndOptions& options, PsEnd* end, LineChannel* channel, const Clock& clock)
      : options_(options), end_(*end), channel_(*channel), clock_(clock) {}

  absl::Status Start() {
    const std::string address = end_.Address();
    RETURN_IF_ERROR(Say(absl::StrCat("hello ", options_.rank, " ",
                                     address.empty() ? "-" : absl::BytesToHexString(address))));
    ASSIGN_OR_RETURN(const std::string line, channel_.Read(LineChannel::kNoDeadline));
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    const auto ranks =
        static_cast<size_t>(options_.workers) + static_cast<size_t>(options_.servers);
    if (words[0] != "start" || words.size() != ranks + 1) {
      return absl::InvalidArgumentError(absl::StrCat("expected start, got '", line, "'"));
    }
    std::vector<std::string> addresses;
    for (size_t i = 1; i < words.size(); ++i) {
      addresses.push_back(words[i] == "-" ? "" : absl::HexStringToBytes(words[i]));
    }
    RETURN_IF_ERROR(end_.Connect(addresses));
    return Say("ready");
  }

  // Until the launcher closes the channel.
  absl::Status Serve() {
    while (true) {
      absl::StatusOr<std::string> line = channel_.Read(LineChannel::kNoDeadline);
      if (absl::IsUnavailable(line.status())) return absl::OkStatus();
      RETURN_IF_ERROR(line.status());
      ASSIGN_OR_RETURN(const Turn turn, ParseTurn(*line));
      ASSIGN_OR_RETURN(const TurnReport report, Run(turn));
      RETURN_IF_ERROR(Say(ToLine(report)));
    }
  }

  absl::Status Say(const std::string& line) {
    return channel_.Write(line, LineChannel::kNoDeadline);
  }

 private:
  absl::StatusOr<TurnReport> Run(const Turn& turn) {
    TurnReport report;
    report.times_ns.assign(static_cast<size_t>(turn.operations), 0);
    if (options_.serves()) {
      RETURN_IF_ERROR(end_.Serve(turn.warmup));
      const int64_t cpu_start_ns = CpuNs();
      RETURN_IF_ERROR(end_.Serve(turn.operations));
      report.cpu_ns = CpuNs() - cpu_start_ns;
    } else {
      for (int i = 0; i < turn.warmup; ++i) RETURN_IF_ERROR(end_.Step());
      const int64_t cpu_start_ns = CpuNs();
      int64_t last_ns = clock_.NowNs();
      for (int64_t& time_ns : report.times_ns) {
        RETURN_IF_ERROR(end_.Step());
        const int64_t now_ns = clock_.NowNs();
        time_ns = now_ns - last_ns;
        last_ns = now_ns;
      }
      report.cpu_ns = CpuNs() - cpu_start_ns;
      report.correct = !turn.check || end_.Correct();
    }
    report.congestion = LookAtTcpSockets().congestion;
    return report;
  }

  const PsEndOptions& options_;
  PsEnd& end_;
  LineChannel& channel_;
  const Clock& clock_;
};

int RunRank(const PsEndOptions& options, const std::string& control) {
  const MonotonicClock clock;
  const Abort abort;
  absl::StatusOr<UniqueFd> fd = ConnectTo(control);
  if (!fd.ok()) {
    std::fprintf(stderr, "ps_rank: %s\n", fd.status().ToString().c_str());
    return kExitInternal;
  }
  LineChannel channel(*std::move(fd), clock, abort);
  absl::StatusOr<std::unique_ptr<PsEnd>> end = MakePsEnd(options, clock, abort);
  absl::Status status = end.status();
  if (status.ok()) {
    PsRank rank(options, end->get(), &channel, clock);
    status = rank.Start();
    if (status.ok()) status = rank.Serve();
  }
  if (status.ok()) return kExitOk;
  std::fprintf(stderr, "ps_rank: rank %d: %s\n", options.rank, status.ToString().c_str());
  // The launcher may be gone; the exit code tells it then.
  channel.Write(ToLine(status), clock.NowNs() + kNsPerSecond).IgnoreError();
  return ExitCodeFor(status);
}

int Main(int argc, char** argv) {
  KeepFreedMemory();
  CLI::App app("One worker or server of one contestant of `lockstep bench ps`", "ps_rank");
  PsEndOptions options;
  std::string control;
  int world_size = 0;
  app.add_option("--control", control, "unix socket of the launcher")->required();
  app.add_option("--engine", options.engine, "ps, grpc or tcp")->required();
  app.add_option("--rank", options.rank, "workers first, then servers")->required();
  app.add_option("--world-size", world_size, "workers and servers")->required();
  app.add_option("--servers", options.servers, "of them")->required();
  app.add_option("--token", options.token, "secret of this run");
  app.add_option("--bytes-max", options.bytes, "of one worker's gradients")->required();
  app.add_option("--timeout-ms", options.limits.sync_timeout_ms, "of one step");
  if (const std::optional<int> code = ParseFlags(&app, argc, argv)) return *code;
  options.workers = world_size - options.servers;
  return RunRank(options, control);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::RunProgram("ps_rank", lockstep::Main, argc, argv);
}
