// CASES R34: a server that is there but says "unavailable": a few tries with growing pauses, then
// an error that names it; the pauses cost no CPU, and an abort ends them.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <time.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/sync.h"
#include "ps_server/client/ps_client.h"
#include "ps_server/client/stream_set.h"
#include "ps_server/wire/grpc_frame.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

// Ends its first `refusals` streams as unavailable, and welcomes whoever comes later.
class BusyServer final : public grpc::CallbackGenericService {
 public:
  explicit BusyServer(int refusals) : refusals_(refusals) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    endpoint_ = {"127.0.0.1", static_cast<uint16_t>(port)};
  }
  ~BusyServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  const Endpoint& endpoint() const { return endpoint_; }
  std::vector<int64_t> calls_ns() {
    MutexLock lock(&mu_);
    return calls_ns_;
  }
  bool AwaitCall() {
    MutexLock lock(&mu_);
    return mu_.AwaitFor([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !calls_ns_.empty(); },
                        10'000);
  }

 private:
  class Stream final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Stream(bool refuse) {
      if (refuse) {
        Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "busy"));
      } else {
        StartRead(&incoming_);
      }
    }
    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::OK);
      ReceivedBytes received;
      EXPECT_TRUE(Unpack(incoming_, &received));
      const absl::StatusOr<Frame> hello = DecodeFrame(received.pieces);
      ASSERT_THAT(hello, IsOk());
      EXPECT_EQ(hello->header.kind(), HELLO);
      PsFrame welcome;
      welcome.set_kind(WELCOME);
      welcome.set_worker(hello->header.worker());
      welcome.set_epoch(hello->header.epoch());
      welcome.set_shard(hello->header.shard());
      outgoing_ = MakeBuffer(welcome, grpc::Slice());
      StartWrite(&outgoing_);
    }
    void OnWriteDone(bool ok) override {
      if (ok) StartRead(&incoming_);
    }
    void OnDone() override { delete this; }

   private:
    grpc::ByteBuffer incoming_;
    grpc::ByteBuffer outgoing_;
  };

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    MutexLock lock(&mu_);
    calls_ns_.push_back(clock_.NowNs());
    return new Stream(static_cast<int>(calls_ns_.size()) <= refusals_);
  }

  const int refusals_;
  MonotonicClock clock_;
  Endpoint endpoint_;
  Mutex mu_;
  std::vector<int64_t> calls_ns_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<grpc::Server> server_;
};

PsClientOptions ClientOf(const BusyServer& server, int32_t shards) {
  PsClientOptions options;
  options.servers = {server.endpoint()};
  options.server_of_shard.assign(static_cast<size_t>(shards), 0);
  options.epoch = 2;
  options.layout.tensor_counts.assign(static_cast<size_t>(shards), 1'024);
  options.layout.shards = shards;
  return options;
}

int64_t ProcessCpuNs() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

TEST(PsConnectTest, GivesUpAfterAFewTriesWithGrowingPauses) {
  BusyServer server(1'000);
  const MonotonicClock clock;
  const Abort abort;
  const int64_t start_ns = clock.NowNs();
  const int64_t start_cpu_ns = ProcessCpuNs();
  const auto client = PsClient::Connect(ClientOf(server, 1), clock, abort);
  const int64_t elapsed_ns = clock.NowNs() - start_ns;
  const int64_t cpu_ns = ProcessCpuNs() - start_cpu_ns;
  EXPECT_THAT(client,
              StatusIs(StatusCode::kUnavailable,
                       absl::StrCat("worker 0, connect: server 0 (", server.endpoint().ToString(),
                                    ") is gone: busy (gRPC status 14), tried 5 times")));
  EXPECT_EQ(BlamedBy(client.status()), std::vector<std::string>{"server 0"});
  const std::vector<int64_t> calls = server.calls_ns();
  ASSERT_EQ(calls.size(), static_cast<size_t>(kConnectTriesMax));
  for (size_t i = 1; i < calls.size(); ++i) {
    EXPECT_GE(calls[i] - calls[i - 1], (kFirstPauseMs << (i - 1)) * kNsPerMs) << "try " << i;
  }
  EXPECT_LT(cpu_ns, elapsed_ns / 2);
}

TEST(PsConnectTest, IsWelcomedBySomeoneWhoWasBusyAtFirst) {
  BusyServer server(2);
  const MonotonicClock clock;
  const Abort abort;
  const auto client = PsClient::Connect(ClientOf(server, 3), clock, abort);
  ASSERT_THAT(client, IsOk());
  EXPECT_EQ(server.calls_ns().size(), 3U);
  EXPECT_FALSE((*client)->initialized());
  EXPECT_EQ((*client)->resume_step(), 0);
}

TEST(PsConnectTest, TheConnectTimeoutEndsThePauses) {
  BusyServer server(1'000);
  const MonotonicClock clock;
  const Abort abort;
  PsClientOptions options = ClientOf(server, 1);
  options.limits.connect_timeout_ms = 500;  // the fifth try would come after 750
  const auto client = PsClient::Connect(options, clock, abort);
  EXPECT_THAT(client,
              StatusIs(StatusCode::kDeadlineExceeded, "ms for the welcome of shard 0 from"));
  EXPECT_LT(server.calls_ns().size(), static_cast<size_t>(kConnectTriesMax));
}

TEST(PsConnectTest, AnAbortEndsThePauses) {
  BusyServer server(1'000);
  const MonotonicClock clock;
  Abort abort;
  std::thread stopper([&] {
    EXPECT_TRUE(server.AwaitCall());
    abort.Request(absl::AbortedError("worker 2 was lost"));
  });
  const auto client = PsClient::Connect(ClientOf(server, 1), clock, abort);
  stopper.join();
  EXPECT_THAT(client, StatusIs(StatusCode::kAborted, "worker 0, connect: worker 2 was lost"));
  EXPECT_LT(server.calls_ns().size(), static_cast<size_t>(kConnectTriesMax));
}

}  // namespace
}  // namespace lockstep
