// main.cc: one worker: binds, joins, trains its share of every global batch, stays in step,
// reports.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allreduce/transport/tcp.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/member/limits_proto.h"
#include "base/member/member.h"
#include "base/member/process.h"
#include "base/member/program.h"
#include "base/member/signals.h"
#include "base/socket.h"
#include "base/status.h"
#include "worker/trainer.h"

namespace lockstep {
namespace {

struct Arguments {
  std::string coordinator;
  int rank = 0;
  int world_size = 0;
  std::string listen = "127.0.0.1";
  std::string token;
};

// From joining to the coordinator's stop. `member` is set once the worker has joined.
absl::Status Work(const Arguments& arguments, Abort* abort, std::unique_ptr<Member>* member,
                  std::unique_ptr<Trainer>* trainer) {
  static const MonotonicClock clock;
  ASSIGN_OR_RETURN(Listener listener, Listen({arguments.listen, 0}));
  ASSIGN_OR_RETURN(*member, Member::Join({.coordinator = arguments.coordinator,
                                          .role = WORKER,
                                          .index = arguments.rank,
                                          .endpoint = listener.endpoint.ToString(),
                                          .token = arguments.token,
                                          .world_size = arguments.world_size,
                                          .limits = {}},
                                         abort));
  const Start& start = (*member)->start();
  TrainerContext context{.rank = arguments.rank,
                         .token = arguments.token,
                         .listener = std::move(listener),
                         .limits = LimitsFrom(start.run().experiment().limits()),
                         .clock = &clock,
                         .abort = abort};
  context.started = DescribeProcess("worker", arguments.rank, start.run());
  context.started.set_congestion_control(TcpCongestionControl());
  ASSIGN_OR_RETURN(*trainer, Trainer::Create(start, std::move(context)));
  RETURN_IF_ERROR((*member)->Connected());
  RETURN_IF_ERROR((*trainer)->Train(member->get()));
  return (*member)->Done((*trainer)->step());
}

int Run(const Arguments& arguments) {
  Abort abort;
  const SignalWatch signals(&abort);
  std::unique_ptr<Member> member;
  std::unique_ptr<Trainer> trainer;
  absl::Status status = Work(arguments, &abort, &member, &trainer);
  const int64_t step = trainer == nullptr ? -1 : trainer->step();
  if (trainer != nullptr) status = trainer->RecordEnd(status);
  return Leave({.name = absl::StrCat("worker ", arguments.rank),
                .status = status,
                .step = step,
                .member = member.get()},
               abort, signals);
}

int Main(int argc, char** argv) {
  KeepFreedMemory();
  Arguments arguments;
  CLI::App app("One worker of a Lockstep run. `lockstep compare` starts them; by hand:", "worker");
  app.footer("Example:\n  worker --coordinator 10.0.0.1:7000 --rank 2 --listen 10.0.0.3");
  app.add_option("--coordinator", arguments.coordinator, "host:port of the coordinator")
      ->required();
  app.add_option("--rank", arguments.rank, "this worker's rank, from 0")->required();
  app.add_option("--world-size", arguments.world_size, "checked against the run when given");
  app.add_option("--listen", arguments.listen,
                 "address that the other members reach this worker at");
  app.add_option("--token", arguments.token, "the run's shared secret")->envname("LOCKSTEP_TOKEN");
  if (const std::optional<int> code = ParseFlags(&app, argc, argv)) return *code;
  return Run(arguments);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::RunProgram("worker", lockstep::Main, argc, argv);
}
