// CASES R34 on a real worker: a server that joins the run and then answers every stream with
// "unavailable". The worker tries a few times with growing pauses, costs next to no processor time
// while it waits, and ends with a code that says that a member was lost.
#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/abort.h"
#include "base/clock.h"
#include "base/member/limits_proto.h"
#include "base/member/member.h"
#include "base/sync.h"
#include "experiments/coordinator/server.h"
#include "experiments/spec/spec.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"
#include "tests/system/command.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

class Unavailable final : public grpc::CallbackGenericService {
 public:
  Unavailable() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    endpoint_ = "127.0.0.1:" + std::to_string(port);
  }
  ~Unavailable() override { server_->Shutdown(std::chrono::system_clock::now()); }
  const std::string& endpoint() const { return endpoint_; }
  std::vector<int64_t> calls_ns() {
    MutexLock lock(&mu_);
    return calls_ns_;
  }

 private:
  class Stream final : public grpc::ServerGenericBidiReactor {
   public:
    Stream() { Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "busy")); }
    void OnDone() override { delete this; }
  };
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* /*context*/) override {
    MutexLock lock(&mu_);
    calls_ns_.push_back(clock_.NowNs());
    return new Stream;
  }

  MonotonicClock clock_;
  std::string endpoint_;
  Mutex mu_;
  std::vector<int64_t> calls_ns_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<grpc::Server> server_;
};

MembershipConfig OneWorkerOneServer(const std::string& record_dir) {
  SpecOptions options{.only = {"ps_sync"}};
  options.set = {"workers=1", "train.global_batch=8", "variant[ps_sync].ps.servers=1"};
  const LoadedSpec loaded = LoadSpec(*FindSpec("quickstart"), options);
  EXPECT_THAT(loaded.status(), IsOk());
  MembershipConfig config;
  config.run = PlanRuns(loaded.experiment).front();
  config.run.set_record_dir(record_dir);
  config.limits = LimitsFrom(config.run.experiment().limits());
  config.build = BuildId();
  return config;
}

double ChildrenCpuS() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(UnavailableTest, AWorkerGivesUpAfterBoundedTries) {
  const TemporaryDir dir;
  const MonotonicClock clock;
  auto coordinator =
      CoordinatorServer::Listen({"127.0.0.1", 0}, OneWorkerOneServer(dir.path()), clock);
  ASSERT_THAT(coordinator, IsOk());
  Unavailable busy;
  Abort abort;
  std::thread server([&] {
    const auto member = Member::Join({.coordinator = (*coordinator)->endpoint(),
                                      .role = SERVER,
                                      .index = 0,
                                      .endpoint = busy.endpoint(),
                                      .token = "",
                                      .world_size = 0,
                                      .limits = {}},
                                     &abort);
    ASSERT_THAT(member, IsOk());
    (void)(*member)->Connected();
    (void)(*member)->AwaitStop();
  });
  const double cpu_before_s = ChildrenCpuS();
  Subprocess worker(
      {BinDir() + "/worker", "--coordinator", (*coordinator)->endpoint(), "--rank", "0"});
  EXPECT_TRUE(Eventually(
      [&] {
        (*coordinator)->Tick();
        return (*coordinator)->stopping();
      },
      20));
  const CommandResult result = worker.Wait(10);
  server.join();
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("busy (gRPC status 14), tried 5 times"));
  const std::vector<int64_t> calls = busy.calls_ns();
  ASSERT_EQ(calls.size(), 5U);
  for (size_t i = 2; i < calls.size(); ++i) {
    EXPECT_GT(calls[i] - calls[i - 1], calls[i - 1] - calls[i - 2]) << "pause " << i;
  }
  const double pauses_s = static_cast<double>(calls.back() - calls.front()) / kNsPerSecond;
  // Its start (libraries, data) included.
  EXPECT_LT(ChildrenCpuS() - cpu_before_s, 0.5 + 0.25 * pauses_s);
}

}  // namespace
}  // namespace lockstep
