// One rank of engine_mpi_test, started by mpirun: MPI_RANK DIR SCENARIO. Ranks find each other
// through files in DIR, and leave there what their call returned.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/engine.h"
#include "allreduce/transport/tcp.h"
#include "base/check.h"
#include "base/status.h"
#include "tests/allreduce/engine_checks.h"

namespace lockstep {
namespace {

int Variable(const char* name) {
  const char* const value = std::getenv(name);
  CHECK(value != nullptr) << name << " is not set: not under mpirun";
  return std::atoi(value);
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  std::filesystem::rename(path + ".new", path);
}

std::string AwaitFile(const std::string& path, const Clock& clock) {
  const int64_t deadline_ns = clock.NowNs() + 10 * kNsPerSecond;
  while (!std::filesystem::exists(path)) {
    CHECK(clock.NowNs() < deadline_ns) << path << " did not come";
    sched_yield();
  }
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

absl::Status Play(const std::string& scenario, Communicator* c) {
  float value = 1;
  std::vector<float> data(3000, 1.0F);
  const auto sum = [&](int64_t count) {
    return c->AllReduce(data.data(), count, Dtype::kF32, ReduceOp::kSum);
  };
  if (scenario == "right") {
    RETURN_IF_ERROR(CheckCollectives(c));
    RETURN_IF_ERROR(CheckNanAndZero(c));
    RETURN_IF_ERROR(CheckWrap(c));
    return CheckGroup(c);
  }
  if (scenario == "mismatch") return sum(c->rank() == 1 ? 2000 : 1000);
  if (scenario == "leaves_late") return c->Barrier();
  if (scenario == "late") {
    // Rank 1 stays away; its process lives on until all have their error.
    RETURN_IF_ERROR(c->Barrier());
    return c->rank() == 1 ? absl::OkStatus() : c->AllReduce(&value, 1, Dtype::kF32, ReduceOp::kSum);
  }
  return absl::InvalidArgumentError(absl::StrCat("no scenario ", scenario));
}

int Main(const std::string& dir, const std::string& scenario) {
  const MonotonicClock clock;
  const Abort abort;
  TcpGroup group;
  group.rank = Variable("OMPI_COMM_WORLD_RANK");
  group.epoch = 1;
  group.token = "token";
  const int n = Variable("OMPI_COMM_WORLD_SIZE");
  absl::StatusOr<Listener> listener = Listen({"127.0.0.1", 0});
  CHECK(listener.ok()) << listener.status();
  WriteFile(absl::StrCat(dir, "/endpoint.", group.rank), listener->endpoint.ToString());
  for (int rank = 0; rank < n; ++rank) {
    const auto endpoint = ParseEndpoint(AwaitFile(absl::StrCat(dir, "/endpoint.", rank), clock));
    CHECK(endpoint.ok()) << endpoint.status();
    group.endpoints.push_back(*endpoint);
  }
  EngineOptions options;
  options.engine = Engine::kMpi;
  options.library_dir = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  options.mpi_world_size = scenario == "size" ? n + 1 : n;
  options.limits.sync_timeout_ms = scenario == "late" || scenario == "leaves_late" ? 500 : 10'000;
  absl::StatusOr<std::unique_ptr<Link>> link =
      ConnectTcpMesh(*std::move(listener), group, options.limits, clock, abort);
  CHECK(link.ok()) << link.status();
  absl::StatusOr<std::unique_ptr<Communicator>> made =
      MakeEngineCommunicator(options, *std::move(link), clock, abort);
  absl::Status status = made.status();
  if (status.ok()) status = Play(scenario, made->get());
  // In "leaves_late" rank 1 keeps its communicator until the others are rid of theirs.
  if (scenario == "leaves_late" && group.rank != 1) made->reset();
  if (scenario == "leaves_late" && group.rank == 1) {
    for (int rank = 0; rank < n; ++rank) {
      if (rank != 1) AwaitFile(absl::StrCat(dir, "/status.", rank), clock);
    }
  }
  WriteFile(absl::StrCat(dir, "/status.", group.rank),
            absl::StrCat(static_cast<int>(status.code()), " ", std::string(status.message())));
  // Stays until all have written: mpirun ends the others when one leaves early.
  for (int rank = 0; rank < n; ++rank) AwaitFile(absl::StrCat(dir, "/status.", rank), clock);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return lockstep::Main(argv[1], argv[2]);
}
