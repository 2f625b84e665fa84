// Real servers and clients over loopback: everything that goes wrong is named, and in time.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/socket.h"
#include "base/status.h"
#include "ps_server/wire/grpc_frame.h"
#include "tests/ps_server/cluster.h"
#include "tests/ps_server/raw_stream.h"

namespace lockstep {
namespace {

using absl::StatusCode;

TEST(PsService, AWorkerThatNeverPushesIsNamed) {
  ClusterOptions options;
  options.workers = 3;
  options.limits.sync_timeout_ms = 400;
  Cluster cluster(options);
  const auto reference = cluster.Reference(1);
  std::vector<std::unique_ptr<PsClient>> clients;
  for (int w = 0; w < 3; ++w) {
    auto client = cluster.Connect(w);
    ASSERT_THAT(client, IsOk());
    clients.push_back(*std::move(client));
  }
  ASSERT_THAT(clients[0]->Init(reference[0]), IsOk());
  const int64_t start_ns = cluster.clock().NowNs();
  std::vector<std::thread> threads;
  for (const int w : {0, 2}) {
    threads.emplace_back([&, w] {
      const std::vector<float> gradients = Gradients(kSeed, w, 1, cluster.count());
      std::vector<float> parameters(gradients.size());
      ASSERT_THAT(clients[static_cast<size_t>(w)]->Pull(0, parameters), IsOk());
      ASSERT_THAT(clients[static_cast<size_t>(w)]->Push(1, 0, gradients), IsOk());
      const absl::Status status = clients[static_cast<size_t>(w)]->Pull(1, parameters);
      EXPECT_THAT(status,
                  StatusIs(StatusCode::kDeadlineExceeded,
                           absl::StrCat("worker ", w, ", pull of step 1: server 0 (127.0.0.1:")));
      EXPECT_THAT(status,
                  StatusIs(StatusCode::kDeadlineExceeded,
                           "for the push of step 1 of worker 1 (0 of 5559 elements are here)"));
      EXPECT_EQ(BlamedBy(status), std::vector<std::string>{"worker 1"});
      // Dead from now on, with the same reason.
      EXPECT_EQ(clients[static_cast<size_t>(w)]->Push(1, 0, gradients), status);
      clients[static_cast<size_t>(w)].reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(cluster.clock().NowNs() - start_ns, 400 * kNsPerMs);
}

TEST(PsService, AServerThatIsSilentIsNamedByTheClientsOwnDeadline) {
  // It listens, but nobody answers: the welcome never comes.
  const absl::StatusOr<Listener> deaf = Listen({"127.0.0.1", 0});
  ASSERT_THAT(deaf, IsOk());
  ClusterOptions options;
  options.limits.connect_timeout_ms = 300;
  Cluster cluster(options);
  PsClientOptions client = cluster.Client(0);
  client.servers[0] = deaf->endpoint;
  const auto late = PsClient::Connect(client, cluster.clock(), cluster.abort());
  EXPECT_THAT(late, StatusIs(StatusCode::kDeadlineExceeded, "worker 0, connect: waited "));
  EXPECT_THAT(late, StatusIs(StatusCode::kDeadlineExceeded,
                             absl::StrCat(" ms for the welcome of shard 0 from server 0 (",
                                          deaf->endpoint.ToString())));
  EXPECT_EQ(BlamedBy(late.status()), std::vector<std::string>{"server 0"});
}

TEST(PsService, AServerThatDiesIsNamedAtOnce) {
  ClusterOptions options;
  options.workers = 2;
  options.servers = 2;
  Cluster cluster(options);
  const auto reference = cluster.Reference(1);
  std::vector<std::unique_ptr<PsClient>> clients;
  clients.push_back(*cluster.Connect(0));
  clients.push_back(*cluster.Connect(1));
  ASSERT_THAT(clients[0]->Init(reference[0]), IsOk());
  std::vector<float> parameters(static_cast<size_t>(cluster.count()));
  const std::vector<float> gradients = Gradients(kSeed, 0, 1, cluster.count());
  ASSERT_THAT(clients[0]->Pull(0, parameters), IsOk());
  ASSERT_THAT(clients[0]->Push(1, 0, gradients), IsOk());
  const int64_t start_ns = cluster.clock().NowNs();
  std::thread killer([&] { cluster.service(1).Shutdown(); });
  EXPECT_THAT(clients[0]->Pull(1, parameters),
              StatusIs(StatusCode::kUnavailable, "worker 0, pull of step 1: server 1 (127.0.0.1:"));
  EXPECT_LT(cluster.clock().NowNs() - start_ns, 5 * kNsPerSecond);
  killer.join();
  clients.clear();
}

TEST(PsService, AServerThatIsNotThereIsNamedAtOnce) {
  Cluster cluster({});
  PsClientOptions client = cluster.Client(0);
  cluster.service(0).Shutdown();
  EXPECT_THAT(PsClient::Connect(client, cluster.clock(), cluster.abort()),
              StatusIs(StatusCode::kUnavailable, "worker 0, connect: server 0 (127.0.0.1:"));
}

TEST(PsService, AnOldIncarnationIsRefused) {
  Cluster cluster({});
  PsClientOptions newer = cluster.Client(0);
  newer.incarnation = 2;
  auto old = cluster.Connect(0);
  ASSERT_THAT(old, IsOk());
  auto replacement = PsClient::Connect(newer, cluster.clock(), cluster.abort());
  ASSERT_THAT(replacement, IsOk());
  // The frozen worker wakes up.
  const std::vector<float> values(static_cast<size_t>(cluster.count()));
  std::vector<float> parameters(values.size());
  absl::Status status = (*old)->Init(values);
  if (status.ok()) status = (*old)->Pull(0, parameters);
  EXPECT_THAT(status, StatusIs(StatusCode::kFailedPrecondition, "newer stream, incarnation 2"));
  EXPECT_THAT(cluster.Connect(0),
              StatusIs(StatusCode::kFailedPrecondition, "incarnation 0 is older than 2"));
}

TEST(PsService, AWorkerWithOtherRulesIsRefusedWithBothSides) {
  Cluster cluster({});
  PsClientOptions client = cluster.Client(0);
  client.layout.rules.optimizer.learning_rate = 0.5F;
  const auto refused = PsClient::Connect(client, cluster.clock(), cluster.abort());
  EXPECT_THAT(refused,
              StatusIs(StatusCode::kInvalidArgument, "refused: worker 0 and server 0 disagree"));
  EXPECT_THAT(refused, StatusIs(StatusCode::kInvalidArgument, "learning_rate 0.5 "));
}

TEST(PsService, AbortEndsWaitsAtOnce) {
  ClusterOptions options;
  options.workers = 2;
  Cluster cluster(options);
  auto client = cluster.Connect(1);
  ASSERT_THAT(client, IsOk());
  std::vector<float> parameters(static_cast<size_t>(cluster.count()));
  const int64_t received = cluster.service(0).traffic().received_messages;
  int64_t requested_ns = 0;
  std::thread stopper([&] {
    while (cluster.service(0).traffic().received_messages == received) std::this_thread::yield();
    requested_ns = cluster.clock().NowNs();
    cluster.abort().Request(absl::CancelledError("SIGTERM"));
  });
  EXPECT_THAT((*client)->Pull(0, parameters),
              StatusIs(StatusCode::kCancelled, "worker 1, pull of step 0: SIGTERM"));
  const int64_t ended_ns = cluster.clock().NowNs();
  stopper.join();
  // 20 ms by design; the bound leaves room for a busy machine.
  EXPECT_LT(ended_ns - requested_ns, 500 * kNsPerMs);
}

struct LimitCase {
  const char* name;
  int64_t Limits::*field;
  int64_t value;
  StatusCode code;
  const char* part;
};
void PrintTo(const LimitCase& row, std::ostream* out) { *out << row.name; }
class MinimalLimit : public testing::TestWithParam<LimitCase> {};

// The second worker never comes, so every wait expires.
TEST_P(MinimalLimit, GivesItsNamedError) {
  ClusterOptions options;
  options.workers = 2;
  options.limits.*GetParam().field = GetParam().value;
  options.configure = std::string(GetParam().name) != "ConnectTimeout";
  Cluster cluster(options);
  std::vector<float> values(static_cast<size_t>(cluster.count()));
  absl::Status status;
  auto client = cluster.Connect(0);
  status = client.status();
  if (status.ok()) status = (*client)->Init(values);
  std::vector<float> parameters(values.size());
  if (status.ok()) status = (*client)->Pull(0, parameters);
  if (status.ok()) status = (*client)->Push(1, 0, values);
  if (status.ok()) status = (*client)->Pull(1, parameters);
  EXPECT_THAT(status, StatusIs(GetParam().code, GetParam().part));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, MinimalLimit,
    testing::Values(LimitCase{"ConnectTimeout", &Limits::connect_timeout_ms, 1,
                              StatusCode::kDeadlineExceeded, "limits.connect_timeout_ms 1"},
                    LimitCase{"SyncTimeout", &Limits::sync_timeout_ms, 1,
                              StatusCode::kDeadlineExceeded, "limits.sync_timeout_ms 1"},
                    LimitCase{"MessageBytes", &Limits::message_bytes_max, 1'024,
                              StatusCode::kInvalidArgument,
                              "limits.message_bytes_max 1024 does not hold a chunk"},
                    LimitCase{"StagedBytes", &Limits::staged_bytes_max, 1,
                              StatusCode::kResourceExhausted, "limits.staged_bytes_max 1"}),
    [](const auto& row) { return row.param.name; });

// A server that welcomes a worker and then takes nothing from its stream.
class DeafServer {
 public:
  explicit DeafServer(int32_t shard) : shard_(shard) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // the stream's window stays small
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    thread_ = std::thread([this] { Welcome(); });
  }
  ~DeafServer() {
    thread_.join();
    server_->Shutdown(std::chrono::system_clock::now());
    queue_->Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
    }
  }
  Endpoint endpoint() const { return {"127.0.0.1", static_cast<uint16_t>(port_)}; }

 private:
  void Welcome() {
    service_.RequestCall(&context_, &io_, queue_.get(), queue_.get(), this);
    Next();
    grpc::ByteBuffer hello;
    io_.Read(&hello, this);
    Next();
    PsFrame welcome;
    welcome.set_kind(WELCOME);
    welcome.set_epoch(1);
    welcome.set_shard(shard_);
    io_.Write(MakeBuffer(welcome, grpc::Slice()), this);
    Next();
  }
  void Next() {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue_->Next(&tag, &ok) && ok);
  }
  const int32_t shard_;
  int port_ = 0;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter io_{&context_};
  std::thread thread_;
};

TEST(PsClient, WaitsForRoomInTheWindowAndNotForever) {
  ClusterOptions options;
  options.tensors = {int64_t{1} << 20};
  options.limits.chunk_bytes = 64 << 10;
  options.limits.window_chunks = 3;
  options.limits.sync_timeout_ms = 300;
  Cluster cluster(options);
  DeafServer deaf(/*shard=*/0);
  PsClientOptions client_options = cluster.Client(0);
  client_options.servers[0] = deaf.endpoint();
  const std::vector<float> gradients(static_cast<size_t>(cluster.count()));
  auto client = PsClient::Connect(client_options, cluster.clock(), cluster.abort());
  ASSERT_THAT(client, IsOk());
  const Traffic before = (*client)->traffic();
  const absl::Status late = (*client)->Push(1, 0, gradients);
  EXPECT_THAT(
      late, StatusIs(StatusCode::kDeadlineExceeded,
                     absl::StrCat("ms for server 0 (", deaf.endpoint().ToString(), ") to take ")));
  EXPECT_EQ(BlamedBy(late), std::vector<std::string>{"server 0"});
  // gRPC takes what HTTP/2's flow control allows, and no more than the window waits behind it.
  EXPECT_LT(((*client)->traffic() - before).sent_bytes, 1 << 20);
}

// A frozen server cannot say for whom it waits: the worker's own deadline names it.
TEST(PsClient, AFrozenServerIsBlamedForAPullThatIsNotAnswered) {
  ClusterOptions options;
  options.servers = 2;
  options.limits.sync_timeout_ms = 200;
  options.limits.answer_grace_ms = 100;
  Cluster cluster(options);
  DeafServer deaf(/*shard=*/1);
  PsClientOptions client_options = cluster.Client(0);
  client_options.servers[1] = deaf.endpoint();
  auto client = PsClient::Connect(client_options, cluster.clock(), cluster.abort());
  ASSERT_THAT(client, IsOk());
  std::vector<float> parameters(static_cast<size_t>(cluster.count()));
  const std::vector<float> start = parameters;
  ASSERT_THAT((*client)->Init(start), IsOk());
  const absl::Status late = (*client)->Pull(0, parameters);
  EXPECT_THAT(late, StatusIs(StatusCode::kDeadlineExceeded,
                             absl::StrCat("ms for parameters of shard 1 from server 1 (",
                                          deaf.endpoint().ToString())));
  EXPECT_EQ(BlamedBy(late), std::vector<std::string>{"server 1"});
}

struct Lengths {
  const char* name;
  int64_t first;
  int64_t second;
};
void PrintTo(const Lengths& row, std::ostream* out) { *out << row.name; }
class OtherLength : public testing::TestWithParam<Lengths> {};

// A worker whose model has another length is told so before it can push; the one that waits for it
// ends within the timeout, and nobody gets a result.
TEST_P(OtherLength, IsRefusedNamingBoth) {
  const Lengths& row = GetParam();
  ClusterOptions options;
  options.workers = 2;
  options.tensors = {row.first};
  options.limits.sync_timeout_ms = 300;
  Cluster cluster(options);
  auto client = cluster.Connect(0);
  ASSERT_THAT(client, IsOk());
  const std::vector<float> values(static_cast<size_t>(row.first), 3.0F);
  std::vector<float> parameters(values.size());
  ASSERT_THAT((*client)->Init(values), IsOk());
  ASSERT_THAT((*client)->Pull(0, parameters), IsOk());

  PsClientOptions other = cluster.Client(1);
  other.layout.tensor_counts = {row.second};
  EXPECT_THAT(PsClient::Connect(other, cluster.clock(), cluster.abort()),
              StatusIs(StatusCode::kInvalidArgument,
                       absl::StrCat("worker 1 and worker 0 disagree about the model: tensor 0 has ",
                                    row.second, " elements against ", row.first)));
  const std::vector<float> longer(values.size() + 1);
  EXPECT_THAT(
      (*client)->Push(1, 0, longer),
      StatusIs(StatusCode::kInvalidArgument,
               absl::StrCat("push of step 1: elements [0, ", row.first + 1, ") of ", row.first)));
  ASSERT_THAT((*client)->Push(1, 0, values), IsOk());
  EXPECT_THAT((*client)->Pull(1, parameters),
              StatusIs(StatusCode::kDeadlineExceeded, "step 1 of worker 1 (not connected)"));
  EXPECT_EQ(parameters, values);
}

INSTANTIATE_TEST_SUITE_P(Rows, OtherLength,
                         testing::Values(Lengths{"Tiny", 1, 2}, Lengths{"Large", 256'000, 512'000}),
                         [](const auto& row) { return row.param.name; });

TEST(PsService, OutlivesMalformedAndOversizedFrames) {
  Cluster cluster({});
  {
    RawStream stream(cluster.service(0).endpoint());
    EXPECT_TRUE(stream.Write("\xff\xff\xff\xff"));
    PsFrame refused;
    ASSERT_TRUE(refused.ParseFromString(stream.Read()));
    EXPECT_EQ(refused.kind(), REFUSED);
    EXPECT_NE(refused.reason().find("malformed frame of 4 bytes"), std::string::npos);
    EXPECT_EQ(stream.Read(), "");
    EXPECT_TRUE(stream.Finish().ok());
  }
  {
    // Above the run's limit, below gRPC's.
    RawStream stream(cluster.service(0).endpoint());
    EXPECT_TRUE(stream.Write(std::string((int64_t{64} << 20) + 1, 'x')));
    PsFrame refused;
    ASSERT_TRUE(refused.ParseFromString(stream.Read()));
    EXPECT_EQ(refused.kind(), REFUSED);
  }
  {
    RawStream stream(cluster.service(0).endpoint());
    stream.Write(std::string((int64_t{65} << 20) + 1, 'x'));
    EXPECT_EQ(stream.Read(), "");
    EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  EXPECT_EQ(cluster.service(0).counters().malformed_frames, 2);
  Traffic traffic;
  Train(&cluster, 0, 2, cluster.Reference(2), &traffic);
}

TEST(PsService, AnAddressOfAnotherHostIsRefused) {
  PsServiceOptions options;
  options.host = "192.0.2.1";
  const MonotonicClock clock;
  EXPECT_THAT(PsService::Start(options, clock),
              StatusIs(StatusCode::kFailedPrecondition, "192.0.2.1"));
}

TEST(PsClient, RefusesWhatItCannotSend) {
  Cluster cluster({});
  PsClientOptions options = cluster.Client(0);
  options.layout.shards = 2;
  EXPECT_THAT(PsClient::Connect(options, cluster.clock(), cluster.abort()),
              StatusIs(StatusCode::kInvalidArgument, "1 servers for 2 shards"));
  auto client = cluster.Connect(0);
  ASSERT_THAT(client, IsOk());
  const std::vector<float> values(10);
  EXPECT_THAT((*client)->Push(1, cluster.count() - 9, values),
              StatusIs(StatusCode::kInvalidArgument, "elements [5550, 5560) of 5559"));
}

}  // namespace
}  // namespace lockstep
