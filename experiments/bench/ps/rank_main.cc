// rank_main.cc: the program ps_rank: one worker or server of one contestant of `lockstep bench ps`.
// It sleeps until its turn, runs it and reports. It ends when its launcher does. Not for use by
// hand.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu_time.h"
#include "base/heap.h"
#include "base/member/program.h"
#include "base/status.h"
#include "experiments/bench/protocol.h"
#include "experiments/bench/ps/end.h"
#include "experiments/bench/rank_program.h"
#include "experiments/bench/sockets.h"

namespace lockstep {
namespace {

class PsRank final : public TurnTaker {
 public:
  PsRank(const PsEndOptions& options, std::unique_ptr<PsEnd> end, const Clock& clock)
      : options_(options), end_(std::move(end)), clock_(clock) {}

  absl::StatusOr<std::string> Address() override { return end_->Address(); }
  absl::StatusOr<std::string> Connect(const std::vector<std::string>& addresses) override {
    RETURN_IF_ERROR(end_->Connect(addresses));
    return options_.engine;
  }

  absl::StatusOr<TurnReport> Run(const Turn& turn) override {
    TurnReport report;
    RETURN_IF_ERROR(Work(turn.warmup).status());
    const int64_t cpu_start_ns = ProcessCpuNs();
    ASSIGN_OR_RETURN(report.times_ns, Work(turn.operations));
    report.cpu_ns = ProcessCpuNs() - cpu_start_ns;
    // From the end of one turn to that of the next: within one, workers are ahead of servers.
    const int64_t rows_before = std::exchange(rows_, end_->Rows());
    report.rows = static_cast<double>(rows_ - rows_before) / (turn.warmup + turn.operations);
    report.correct = !turn.check || end_->Correct();
    report.congestion = LookAtTcpSockets().congestion;
    return report;
  }

 private:
  // A server has no times of its own: zeros.
  absl::StatusOr<std::vector<int64_t>> Work(int steps) {
    if (!options_.serves()) return TimeEach(clock_, steps, [this] { return end_->Step(); });
    RETURN_IF_ERROR(end_->Serve(steps));
    return std::vector<int64_t>(static_cast<size_t>(steps), 0);
  }

  const PsEndOptions& options_;
  const std::unique_ptr<PsEnd> end_;
  const Clock& clock_;
  int64_t rows_ = 0;
};

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
  app.add_option("--rows", options.rows, "of a table, in a step");
  app.add_option("--row-floats", options.row_floats, "of a row");
  app.add_option("--timeout-ms", options.limits.sync_timeout_ms, "of one step");
  if (const std::optional<int> code = ParseFlags(&app, argc, argv)) return *code;
  options.workers = world_size - options.servers;
  if (options.rows > 0 && options.engine != "ps") {
    options.bytes = int64_t{4} * options.rows * options.row_floats;
  }
  const RankPlace place = {"ps_rank", control, options.rank, world_size};
  return RunRank(
      place,
      [&](const Clock& clock, const Abort& abort) -> absl::StatusOr<std::unique_ptr<TurnTaker>> {
        ASSIGN_OR_RETURN(std::unique_ptr<PsEnd> end, MakePsEnd(options, clock, abort));
        return std::make_unique<PsRank>(options, std::move(end), clock);
      });
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::RunProgram("ps_rank", lockstep::Main, argc, argv);
}
