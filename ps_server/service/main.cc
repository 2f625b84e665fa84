// main.cc: one parameter server: binds, joins, learns what the run is, serves until it is told to
// stop.
#include <CLI/CLI.hpp>
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
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
            .step = [this](const StepServed& step) { Write(step); }};
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
  void Write(const StepServed& step) {
    Record record;
    Applied* applied = record.mutable_applied();
    applied->set_step(step.step);
    applied->set_shard(step.shard);
    applied->set_version(step.version);
    applied->set_wait_ns(step.wait_ns);
    applied->set_apply_ns(step.apply_ns);
    *applied->mutable_traffic() = CountOf(step.traffic);
    applied->set_duplicates(step.duplicates);
    writer_->Write(record);
    step_ = step.step;
  }

  const Clock& clock_;
  std::unique_ptr<RecordWriter> writer_;
  std::atomic<int64_t> step_ = 0;  // last one served
};

PsServerConfig ConfigFrom(const Start& start, int index) {
  const RunConfig& run = start.run();
  const Experiment& experiment = run.experiment();
  PsServerConfig config;
  config.server = index;
  config.servers = run.servers();
  config.world_size = run.world_size();
  config.epoch = start.epoch();
  config.sgd = SgdFrom(experiment, run.world_size());
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
