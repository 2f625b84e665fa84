// main.cc: one parameter server: binds, joins, learns what the run is, serves through as many
// groups as it takes, until it is told to stop. Its port and its shards stay through all of them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/member/group_state.h"
#include "base/member/member.h"
#include "base/member/process.h"
#include "base/member/program.h"
#include "base/member/signals.h"
#include "base/status.h"
#include "ps_server/service/disk_faults.h"
#include "ps_server/service/ps_service.h"
#include "ps_server/service/server_config.h"
#include "ps_server/service/server_faults.h"
#include "ps_server/service/server_record.h"
#include "ps_server/service/storage.h"

namespace lockstep {
namespace {

struct Arguments {
  std::string coordinator;
  int index = 0;
  std::string listen = "127.0.0.1";
  std::string token;
};

class Server {
 public:
  Server(const Arguments& arguments, Abort* abort)
      : arguments_(arguments), abort_(abort), record_(clock_) {}

  absl::Status Run() {
    PsServiceOptions options;
    options.host = arguments_.listen;
    options.token = arguments_.token;
    options.events = Events();
    options.crash = Crash();
    ASSIGN_OR_RETURN(service_, PsService::Start(options, clock_));
    absl::Status status = Serve();
    service_->Shutdown();
    storage_.reset();
    record_.End(status, member_ != nullptr && member_->left(), service_->unreported());
    return status.ok() ? record_.status() : status;
  }

  int64_t step() const { return record_.step(); }
  Member* member() { return member_.get(); }

 private:
  PsServerEvents Events();
  StorageEvents SnapshotEvents();
  CrashHook Crash() {
    return [this](CrashPoint point, int64_t step) { faults_.At(point, step); };
  }
  absl::Status Join();
  absl::Status Serve();
  absl::Status ServeGroup();

  const Arguments arguments_;
  Abort* const abort_;
  const MonotonicClock clock_;
  DiskFaults files_{MakeFiles(), clock_};
  ServerRecord record_;
  ServerFaults faults_{&files_};
  // In this order: events of the service and of the storage go to the member.
  std::unique_ptr<Member> member_;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<PsService> service_;
};

PsServerEvents Server::Events() {
  PsServerEvents events;
  events.set_up = [this](const Traffic& traffic) { record_.SetUp(traffic); };
  events.update = [this](const UpdateServed& served) {
    record_.Update(served);
    member_->FinishedStep(record_.step());
  };
  events.cut = [this](int64_t step, std::shared_ptr<const ShardState> state) {
    storage_->Save(step, std::move(state));
  };
  events.caught_up = [this](int64_t epoch, const CopyJoined& joined) {
    member_->Tell(CaughtUpEvent(epoch, joined));
  };
  events.recovered = [this](const ServerRecovery& recovery) { record_.Recover(recovery); };
  events.broken = [this](int64_t epoch, const absl::Status& cause) {
    member_->GiveUpGroup(epoch, cause);
  };
  return events;
}

StorageEvents Server::SnapshotEvents() {
  return {.saved =
              [this](const SavedSnapshot& saved) {
                MemberEvent event;
                Saved* told = event.mutable_saved();
                told->set_shard(saved.place.shard);
                told->set_version(saved.version);
                told->set_step(saved.place.step);
                told->set_bytes(saved.bytes);
                told->set_checksum(saved.checksum);
                told->set_path(saved.place.path());
                member_->Tell(event);
              },
          .failed =
              [this](const SnapshotPlace& place, const absl::Status& why) {
                absl::FPrintF(
                    stderr,
                    "server %d: no snapshot of shard %d at step %d: %s; training goes on, "
                    "and can go back to the cuts before it\n",
                    arguments_.index, place.shard, place.step, why.ToString());
              }};
}

absl::Status Server::Join() {
  ASSIGN_OR_RETURN(member_, Member::Join({.coordinator = arguments_.coordinator,
                                          .role = SERVER,
                                          .index = arguments_.index,
                                          .endpoint = service_->endpoint().ToString(),
                                          .token = arguments_.token,
                                          .world_size = 0,
                                          .limits = {}},
                                         abort_));
  const Start& start = member_->start();
  const RunConfig& run = start.run();
  RETURN_IF_ERROR(record_.Open(arguments_.index, start));
  auto plan = std::make_unique<FaultPlan>(
      run.experiment(), absl::StrCat("server:", arguments_.index), record_.writer());
  if (start.epoch() > kFirstEpoch) {
    ASSIGN_OR_RETURN(const std::vector<Record> before,
                     ReadMember(run.record_dir(), "server", arguments_.index));
    plan->SkipStruck(before);
  }
  faults_.Plan(std::move(plan));
  ASSIGN_OR_RETURN(const PsServerConfig config, ServerConfigFrom(start, arguments_.index));
  if (config.snapshot_every > 0) {
    storage_ = std::make_unique<Storage>(
        StorageOptions{.folder = absl::StrCat(run.record_dir(), "/snapshots"),
                       .shards = config.servers,
                       .timeout_ms = config.limits.sync_timeout_ms},
        &files_, clock_, SnapshotEvents(), Crash());
  }
  return absl::OkStatus();
}

// One group: from its streams to the end of the run, or to the death of the group.
absl::Status Server::ServeGroup() {
  const Start& start = member_->start();
  ASSIGN_OR_RETURN(PsServerConfig config, ServerConfigFrom(start, arguments_.index));
  if (start.restore()) {
    faults_.At(CrashPoint::kRestoring, start.step());
    if (storage_ == nullptr) {
      return absl::InternalError("the group begins with snapshots, and the run has none");
    }
    for (const int32_t shard : RestoredShards(start, arguments_.index)) {
      ASSIGN_OR_RETURN(config.restored[shard], storage_->Restore(shard, start.step()));
    }
  }
  RETURN_IF_ERROR(service_->Configure(std::move(config)));
  RETURN_IF_ERROR(member_->Connected());
  return member_->AwaitStop();
}

absl::Status Server::Serve() {
  RETURN_IF_ERROR(Join());
  for (;;) {
    absl::Status status = ServeGroup();
    if (status.ok() || !member_->MayRebuild(status)) return status;
    int64_t newest = -1;  // nothing is here
    std::vector<ShardHeld> held;
    for (const HeldShard& shard : service_->Leave(status)) {
      held.emplace_back();
      held.back().set_shard(shard.shard);
      held.back().set_version(shard.version);
      newest = std::max(newest, shard.version);
    }
    RETURN_IF_ERROR(member_->Rebuild(status, newest, service_->endpoint().ToString(), held));
  }
}

int Run(const Arguments& arguments) {
  Abort abort;
  const SignalWatch signals(&abort);
  Server server(arguments, &abort);
  const absl::Status status = server.Run();
  return Leave({.name = absl::StrCat("server ", arguments.index),
                .status = status,
                .step = server.step(),
                .member = server.member()},
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
