// main.cc: one rank: binds, joins, trains its share of every global batch (a server of PS_EXCHANGE:
// only sums), stays in step, reports.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "allreduce/transport/tcp.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/heap.h"
#include "base/launcher.h"
#include "base/member/limits_proto.h"
#include "base/member/member.h"
#include "base/member/process.h"
#include "base/member/program.h"
#include "base/member/signals.h"
#include "base/socket.h"
#include "base/status.h"
#include "worker/step_loop.h"
#include "worker/summing_rank.h"
#include "worker/trainer.h"

namespace lockstep {
namespace {

constexpr char kWorker[] = "worker";
constexpr char kServer[] = "server";

struct Arguments {
  std::string coordinator;
  std::string role = kWorker;
  int rank = 0;        // as the flags or a launcher's variables say
  int world_size = 0;  // 0: nothing says it
  std::string listen = "127.0.0.1";
  std::string token;
  EnginePlace engine_place;
  ComputePlace compute_place;

  bool trains() const { return role == kWorker; }
};

// One group: from its links to the end of the run, or to the death of the group.
absl::Status WorkInGroup(const Arguments& arguments, Listener listener, Member* member,
                         StepLoop* loop) {
  RETURN_IF_ERROR(loop->Connect(member->start(), std::move(listener), member->group_abort()));
  RETURN_IF_ERROR(member->Connected());
  RETURN_IF_ERROR(loop->Run(member));
  if (loop->leaves()) return member->Leave(loop->step());
  return arguments.trains() ? member->Done(loop->step()) : member->AwaitStop();
}

// From joining to the coordinator's stop, through as many groups as it takes. `member` is set once
// the member has joined.
absl::Status Work(const Arguments& arguments, Abort* abort, std::unique_ptr<Member>* member,
                  std::unique_ptr<StepLoop>* loop) {
  static const MonotonicClock clock;
  ASSIGN_OR_RETURN(Listener listener, Listen({arguments.listen, 0}));
  ASSIGN_OR_RETURN(*member, Member::Join({.coordinator = arguments.coordinator,
                                          .role = arguments.trains() ? WORKER : SERVER,
                                          .index = arguments.rank,
                                          .endpoint = listener.endpoint.ToString(),
                                          .token = arguments.token,
                                          .world_size = arguments.world_size,
                                          .device = arguments.compute_place.words,
                                          .limits = {}},
                                         abort));
  const Start& start = (*member)->start();
  LoopContext context{.index = arguments.rank,
                      .token = arguments.token,
                      .limits = LimitsFrom(start.run().experiment().limits()),
                      .clock = &clock,
                      .engine_place = arguments.engine_place,
                      .compute_place = arguments.compute_place};
  context.compute_place.abort = abort;
  context.started = DescribeProcess(arguments.role, arguments.rank, start.run());
  context.started.set_congestion_control(TcpCongestionControl());
  ASSIGN_OR_RETURN(*loop, arguments.trains() ? MakeTrainer(start, std::move(context))
                                             : MakeSummingRank(start, std::move(context)));
  while (true) {
    absl::Status status = WorkInGroup(arguments, std::move(listener), member->get(), loop->get());
    if (status.ok() || !(*member)->MayRebuild(status)) return status;
    (*loop)->LeaveGroup(status);
    ASSIGN_OR_RETURN(listener, Listen({arguments.listen, 0}));
    RETURN_IF_ERROR((*member)->Rebuild(status, (*loop)->step(), listener.endpoint.ToString(), {}));
  }
}

int Run(const Arguments& arguments) {
  Abort abort;
  const SignalWatch signals(&abort);
  std::unique_ptr<Member> member;
  std::unique_ptr<StepLoop> loop;
  absl::Status status = Work(arguments, &abort, &member, &loop);
  const int64_t step = loop == nullptr ? kNoState : loop->step();
  if (loop != nullptr) status = loop->RecordEnd(status);
  return Leave({.name = absl::StrCat(arguments.role, " ", arguments.rank),
                .status = status,
                .step = step,
                .member = member.get()},
               abort, signals);
}

std::optional<std::string> Variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread so far
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// Which rank this is, and what the engines of other libraries need to know.
absl::Status TakePlace(const RankFlags& flags, Arguments* arguments) {
  ASSIGN_OR_RETURN(const RankSource source, FindRank(flags, Variable));
  arguments->rank = source.rank;
  arguments->world_size = source.world_size;
  if (!flags.rank) std::fprintf(stderr, "%s: %s\n", arguments->role.c_str(), source.text.c_str());
  arguments->engine_place.library_dir = ProgramDir();
  arguments->compute_place.gpu.library_dir = ProgramDir();
  arguments->engine_place.nccl.variables = VariablesOf("NCCL_");
  const std::optional<std::string> mpi_size = Variable("OMPI_COMM_WORLD_SIZE");
  if (mpi_size && !absl::SimpleAtoi(*mpi_size, &arguments->engine_place.mpi_world_size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("OMPI_COMM_WORLD_SIZE=", *mpi_size, " is not a number"));
  }
  return absl::OkStatus();
}

void AddLibraryFlags(CLI::App* app, Arguments* arguments) {
  app->add_option("--nccl-lib", arguments->engine_place.nccl.library,
                  "NCCL's file (default libnccl.so.2, where the loader finds it)")
      ->envname("LOCKSTEP_NCCL_LIB");
  app->add_option(
         "--cublas-lib", arguments->compute_place.gpu.cublas,
         "cuBLAS's file, for device GPU (default libcublas.so.13, or .12, where the loader "
         "finds it)")
      ->envname("LOCKSTEP_CUBLAS_LIB");
}

void AddDeviceFlags(CLI::App* app, DeviceWords* words) {
  app->add_option("--device", words->device,
                  "CPU or GPU, in place of the spec's, which must let workers differ "
                  "(mixed_devices: true)")
      ->check(CLI::IsMember({"CPU", "GPU"}));
  app->add_option("--math", words->math, "STRICT or TF32, likewise")
      ->check(CLI::IsMember({"STRICT", "TF32"}));
}

int Main(int argc, char** argv) {
  KeepFreedMemory();
  Arguments arguments;
  RankFlags flags;
  CLI::App app("One worker of a Lockstep run. `lockstep compare` starts them; by hand:", "worker");
  app.footer("Example:\n  worker --coordinator 10.0.0.1:7000 --rank 2 --listen 10.0.0.3");
  app.add_option("--coordinator", arguments.coordinator, "host:port of the coordinator")
      ->required();
  app.add_option("--rank", flags.rank,
                 "this worker's rank, or this server's number, from 0; or a launcher's variable "
                 "says it (mpirun, torchrun, Slurm)");
  app.add_option("--role", arguments.role,
                 "worker, or server: a rank after the workers that only sums (PS_EXCHANGE)")
      ->check(CLI::IsMember({kWorker, kServer}))
      ->capture_default_str();
  app.add_option("--world-size", flags.world_size, "checked against the run when given");
  app.add_option("--listen", arguments.listen,
                 "address that the other members reach this worker at");
  app.add_option("--token", arguments.token, "the run's shared secret")->envname("LOCKSTEP_TOKEN");
  AddDeviceFlags(&app, &arguments.compute_place.words);
  AddLibraryFlags(&app, &arguments);
  if (const std::optional<int> code = ParseFlags(&app, argc, argv)) return *code;
  if (const absl::Status status = TakePlace(flags, &arguments); !status.ok()) {
    std::fprintf(stderr, "worker: %s\n", absl::StrCat(status.message()).c_str());
    return ExitCodeFor(status);
  }
  return Run(arguments);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::RunProgram("worker", lockstep::Main, argc, argv);
}
