// main.cc: one parameter server: binds, joins, learns what the run is, serves until it is told to
// stop.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/member/limits_proto.h"
#include "base/member/member.h"
#include "base/member/process.h"
#include "base/member/program.h"
#include "base/member/record_writer.h"
#include "base/member/signals.h"
#include "base/status.h"
#include "ps_server/service/ps_service.h"

namespace lockstep {
namespace {

struct Arguments {
  std::string coordinator;
  int index = 0;
  std::string listen = "127.0.0.1";
  std::string token;
};

// The server's record file, written by the thread that serves.
class ServerRecord {
 public:
  explicit ServerRecord(const Clock& clock) : clock_(clock) {}

  // Before the service is configured: nothing happens earlier.
  absl::Status Open(const Arguments& arguments, const RunConfig& run) {
    ASSIGN_OR_RETURN(writer_, RecordWriter::Create(
                                  RecordPath(run.record_dir(), "server", arguments.index), clock_));
    Record record;
    *record.mutable_started() = DescribeProcess("server", arguments.index, run);
    writer_->Write(record);
    return writer_->status();
  }

  PsServerEvents Events() {
    return {.set_up =
                [this](const Traffic& traffic) {
                  Record record;
                  *record.mutable_set_up()->mutable_traffic() = CountOf(traffic);
                  writer_->Write(record);
                },
            .update = [this](const UpdateServed& served) { Write(served); }};
  }

  void End(const absl::Status& status, const Traffic& traffic) {
    if (writer_ == nullptr) return;
    Record record;
    Ended* ended = record.mutable_ended();
    ended->set_code(static_cast<int32_t>(status.code()));
    ended->set_message(status.message().data(), status.message().size());
    ended->set_step(step_);
    *ended->mutable_traffic() = CountOf(traffic);
    writer_->Write(record);
  }

  int64_t step() const { return step_; }
  absl::Status status() const { return writer_ == nullptr ? absl::OkStatus() : writer_->status(); }

 private:
  void Write(const UpdateServed& served) {
    const ShardUpdate& update = served.update;
    if (update.non_finite.has_value()) Warn(served.shard, update.step, *update.non_finite);
    Record record;
    Applied* applied = record.mutable_applied();
    applied->set_step(update.step);
    applied->set_shard(served.shard);
    applied->set_version(update.version);
    applied->set_wait_ns(update.wait_ns);
    applied->set_apply_start_ns(served.apply_start_ns);
    applied->set_apply_ns(served.apply_ns);
    *applied->mutable_traffic() = CountOf(served.traffic);
    applied->set_duplicates(served.duplicates);
    for (const WorkerSpan& push : update.pushes) *applied->add_push() = SpanOf(push);
    for (const WorkerSpan& reply : served.replies) *applied->add_reply() = SpanOf(reply);
    if (update.worker.has_value()) applied->set_worker(*update.worker);
    if (update.staleness.has_value()) Put(*update.staleness, applied);
    writer_->Write(record);
    step_ = std::max<int64_t>(step_, update.step);
  }

  static PeerSpan SpanOf(const WorkerSpan& span) {
    PeerSpan peer;
    peer.set_worker(span.worker);
    peer.set_start_ns(span.start_ns);
    peer.set_end_ns(span.end_ns);
    return peer;
  }
  static void Put(const Staleness& staleness, Applied* applied) {
    applied->set_update_staleness(staleness.update);
    applied->set_clock_staleness(staleness.clock);
    if (staleness.gap_ns.has_value()) applied->set_gap_ns(*staleness.gap_ns);
    if (staleness.cycle_ns.has_value()) applied->set_cycle_ns(*staleness.cycle_ns);
  }
  // Workers look at their gradients before they push, so this is a second line of defence. Said
  // once: later steps are made of what this one spoilt.
  void Warn(int32_t server, int64_t step, const NonFiniteValue& value) {
    if (std::exchange(warned_, true)) return;
    absl::FPrintF(
        stderr,
        "server %d, step %d: the push of worker %d is not finite in tensor %d, element %d; "
        "the sums of its block are NaN\n",
        server, step, value.worker, value.tensor, value.element);
  }

  const Clock& clock_;
  std::unique_ptr<RecordWriter> writer_;
  std::atomic<int64_t> step_ = 0;  // last one served
  bool warned_ = false;
};

PsServerConfig ConfigFrom(const Start& start, int index) {
  const RunConfig& run = start.run();
  const Experiment& experiment = run.experiment();
  PsServerConfig config;
  config.server = index;
  config.servers = run.servers();
  config.world_size = run.world_size();
  config.epoch = start.epoch();
  config.mode = run.variant().ps().mode() == Ps::ASYNC ? PsMode::kAsync : PsMode::kSync;
  // An asynchronous update is one push alone: there is no sum whose order could matter.
  const bool exact = experiment.reduction_order() == EXACT && config.mode == PsMode::kSync;
  config.order = exact ? PsOrder::kExact : PsOrder::kRank;
  config.sgd = SgdFrom(experiment, run.variant(), run.world_size());
  config.limits = LimitsFrom(experiment.limits());
  return config;
}

// From joining to the coordinator's stop. `member` is set once the server has joined.
absl::Status Serve(const Arguments& arguments, PsService* service, ServerRecord* record,
                   Abort* abort, std::unique_ptr<Member>* member) {
  ASSIGN_OR_RETURN(*member, Member::Join({.coordinator = arguments.coordinator,
                                          .role = SERVER,
                                          .index = arguments.index,
                                          .endpoint = service->endpoint().ToString(),
                                          .token = arguments.token,
                                          .world_size = 0,
                                          .limits = {}},
                                         abort));
  const Start& start = (*member)->start();
  RETURN_IF_ERROR(record->Open(arguments, start.run()));
  RETURN_IF_ERROR(service->Configure(ConfigFrom(start, arguments.index)));
  RETURN_IF_ERROR((*member)->Connected());
  return (*member)->AwaitStop();
}

int Run(const Arguments& arguments) {
  Abort abort;
  const SignalWatch signals(&abort);
  const MonotonicClock clock;
  ServerRecord record(clock);
  PsServiceOptions options;
  options.host = arguments.listen;
  options.token = arguments.token;
  options.events = record.Events();
  std::unique_ptr<Member> member;
  absl::StatusOr<std::unique_ptr<PsService>> service = PsService::Start(options, clock);
  absl::Status status = service.status();
  if (status.ok()) {
    status = Serve(arguments, service->get(), &record, &abort, &member);
    (*service)->Shutdown();
    record.End(status, (*service)->unreported());
    if (status.ok()) status = record.status();
  }
  return Leave({.name = absl::StrCat("server ", arguments.index),
                .status = status,
                .step = record.step(),
                .member = member.get()},
               abort, signals);
}

int Main(int argc, char** argv) {
  KeepFreedMemory();
  Arguments arguments;
  CLI::App app("One parameter server of a Lockstep run. `lockstep compare` starts them; by hand:",
               "ps_server");
  app.footer("Example:\n  ps_server --coordinator 10.0.0.1:7000 --index 0 --listen 10.0.0.2");
  app.add_option("--coordinator", arguments.coordinator, "host:port of the coordinator")
      ->required();
  app.add_option("--index", arguments.index, "which server this is, from 0; it owns that shard")
      ->required();
  app.add_option("--listen", arguments.listen, "address that the workers reach this server at");
  app.add_option("--token", arguments.token, "the run's shared secret")->envname("LOCKSTEP_TOKEN");
  if (const std::optional<int> code = ParseFlags(&app, argc, argv)) return *code;
  return Run(arguments);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::RunProgram("ps_server", lockstep::Main, argc, argv);
}
