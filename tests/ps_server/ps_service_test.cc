// Real servers and clients over loopback, in threads.
#include "ps_server/service/ps_service.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sync.h"
#include "ps_server/client/ps_client.h"
#include "ps_server/service/grpc_frame.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"
#include "worker/sync/ps_synchronizer.h"

namespace lockstep {
namespace {

using absl::StatusCode;

constexpr uint64_t kSeed = 11;

// What the servers' polling threads report.
class Reports {
 public:
  PsServerEvents Events() {
    return {.set_up =
                [this](const Traffic& traffic) {
                  MutexLock lock(&mu_);
                  set_up_ += traffic;
                },
            .step =
                [this](const StepServed& step) {
                  MutexLock lock(&mu_);
                  steps_.push_back(step);
                }};
  }
  std::vector<StepServed> steps() {
    MutexLock lock(&mu_);
    return steps_;
  }

 private:
  Mutex mu_;
  Traffic set_up_ ABSL_GUARDED_BY(mu_);
  std::vector<StepServed> steps_ ABSL_GUARDED_BY(mu_);
};

struct ClusterOptions {
  int workers = 1;
  int32_t servers = 1;
  std::vector<int64_t> tensors = {3'000, 50, 2'500, 9};
  Limits limits;
  bool configure = true;
  std::string token;
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options)
      : options_(options), sgd_{0.1F, 0.9F, static_cast<float>(options.workers)} {
    for (int32_t k = 0; k < options.servers; ++k) {
      PsServiceOptions service;
      service.token = options.token;
      service.events = reports_.Events();
      services_.push_back(*PsService::Start(service, clock_));
      if (options.configure) {
        EXPECT_THAT(services_.back()->Configure(Config(k)), IsOk());
      }
    }
  }

  PsServerConfig Config(int32_t server) const {
    return {.server = server,
            .servers = options_.servers,
            .world_size = options_.workers,
            .epoch = 1,
            .sgd = sgd_,
            .limits = options_.limits};
  }
  PsClientOptions Client(int rank) const {
    PsClientOptions client;
    for (const auto& service : services_) client.servers.push_back(service->endpoint());
    client.rank = rank;
    client.epoch = 1;
    client.token = options_.token;
    client.layout = {.tensor_counts = options_.tensors,
                     .shards = options_.servers,
                     .world_size = options_.workers,
                     .sgd = sgd_};
    client.limits = options_.limits;
    return client;
  }
  absl::StatusOr<std::unique_ptr<PsClient>> Connect(int rank) {
    return PsClient::Connect(Client(rank), clock_, abort_);
  }
  // One thread per worker.
  void RunWorkers(const std::function<void(int rank)>& body) const {
    std::vector<std::thread> threads;
    for (int w = 0; w < options_.workers; ++w) threads.emplace_back(body, w);
    for (std::thread& thread : threads) thread.join();
  }

  int64_t count() const { return *CountElements(options_.tensors); }
  std::vector<std::vector<float>> Reference(int64_t steps) const {
    return ReferenceRun(kSeed, options_.workers, steps, count(), sgd_);
  }
  PsService& service(size_t k) { return *services_[k]; }
  Reports& reports() { return reports_; }
  Abort& abort() { return abort_; }
  const Clock& clock() const { return clock_; }

 private:
  const ClusterOptions options_;
  const SgdOptions sgd_;
  MonotonicClock clock_;
  Abort abort_;
  Reports reports_;
  std::vector<std::unique_ptr<PsService>> services_;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Trains `steps` steps as a worker does, through the synchronizer, in buckets from the end of the
// arena; every version must have the bits of the reference.
void Train(Cluster* cluster, int rank, int64_t steps,
           const std::vector<std::vector<float>>& reference, Traffic* traffic) {
  auto client = cluster->Connect(rank);
  ASSERT_THAT(client, IsOk());
  const int64_t count = cluster->count();
  std::vector<float> parameters =
      rank == 0 ? reference[0] : std::vector<float>(static_cast<size_t>(count));
  std::vector<float> gradients;
  PsSynchronizer synchronizer(*std::move(client), rank);
  ASSERT_THAT(synchronizer.Begin(parameters), IsOk());
  EXPECT_TRUE(SameBits(parameters, reference[0]));
  const Traffic set_up = synchronizer.traffic();
  for (int64_t step = 1; step <= steps; ++step) {
    gradients = Gradients(kSeed, rank, step, count);
    for (int64_t end = count; end > 0; end -= std::min(end, count / 3 + 1)) {
      const int64_t bucket = std::min(end, count / 3 + 1);
      ASSERT_THAT(synchronizer.GradientReady(step, {0, end - bucket, bucket, 0}, gradients),
                  IsOk());
    }
    ASSERT_THAT(synchronizer.Finish(step, gradients, parameters), IsOk());
    EXPECT_TRUE(SameBits(parameters, reference[static_cast<size_t>(step)]))
        << "rank " << rank << ", step " << step;
  }
  *traffic = synchronizer.traffic() - set_up;
}

struct Size {
  int workers;
  int32_t servers;
  int64_t chunk_bytes;
  int64_t window_chunks;
};
void PrintTo(const Size& row, std::ostream* out) { *out << row.workers << "x" << row.servers; }

class Training : public testing::TestWithParam<Size> {};

TEST_P(Training, EveryWorkerHasTheReferencesBits) {
  ClusterOptions options;
  options.workers = GetParam().workers;
  options.servers = GetParam().servers;
  options.limits.chunk_bytes = GetParam().chunk_bytes;
  options.limits.window_chunks = GetParam().window_chunks;
  Cluster cluster(options);
  const auto reference = cluster.Reference(5);
  std::vector<Traffic> traffic(static_cast<size_t>(options.workers));
  cluster.RunWorkers(
      [&](int rank) { Train(&cluster, rank, 5, reference, &traffic[static_cast<size_t>(rank)]); });
  EXPECT_EQ(cluster.reports().steps().size(), 5U * static_cast<size_t>(options.servers));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Training,
                         testing::Values(Size{1, 1, 1 << 20, 8}, Size{1, 2, 1 << 20, 8},
                                         Size{3, 1, 1 << 20, 8}, Size{3, 2, 1 << 20, 8},
                                         Size{3, 2, 64, 1}, Size{2, 3, 1'000, 2}),
                         [](const auto& row) {
                           return absl::StrCat("n", row.param.workers, "s", row.param.servers,
                                               "chunk", row.param.chunk_bytes);
                         });

TEST(PsService, CountedBytesFollowTheFormula) {
  constexpr int kWorkers = 3;
  constexpr int32_t kServers = 2;
  constexpr int64_t kSteps = 2;
  ClusterOptions options;
  options.workers = kWorkers;
  options.servers = kServers;
  options.tensors = {int64_t{1} << 20};
  Cluster cluster(options);
  const auto reference = cluster.Reference(kSteps);
  std::vector<Traffic> traffic(kWorkers);
  cluster.RunWorkers([&](int rank) {
    Train(&cluster, rank, kSteps, reference, &traffic[static_cast<size_t>(rank)]);
  });
  const double s_bytes = 4.0 * (1 << 20);
  for (const Traffic& worker : traffic) {
    EXPECT_NEAR(static_cast<double>(worker.sent_bytes) / kSteps / s_bytes, 1.0, 0.01);
    EXPECT_NEAR(static_cast<double>(worker.received_bytes) / kSteps / s_bytes, 1.0, 0.01);
  }
  const double formula = kWorkers * s_bytes / kServers;
  std::vector<Traffic> servers(kServers);
  for (const StepServed& step : cluster.reports().steps()) {
    servers[static_cast<size_t>(step.shard)] += step.traffic;
  }
  for (size_t k = 0; k < servers.size(); ++k) {
    EXPECT_NEAR(static_cast<double>(servers[k].received_bytes) / kSteps / formula, 1.0, 0.01);
    EXPECT_NEAR(static_cast<double>(servers[k].sent_bytes) / kSteps / formula, 1.0, 0.01);
    EXPECT_EQ(cluster.service(k).unreported().sent_bytes, 0);
  }
  // What the workers sent is what the servers received.
  int64_t sent = 0;
  int64_t received = 0;
  for (const Traffic& worker : traffic) sent += worker.sent_bytes;
  for (const Traffic& server : servers) received += server.received_bytes;
  EXPECT_EQ(sent, received);
}

TEST(PsService, ARepeatedPushIsCountedNotAppliedTwice) {
  ClusterOptions options;
  options.workers = 2;
  Cluster cluster(options);
  const auto reference = cluster.Reference(2);
  cluster.RunWorkers([&](int rank) {
    std::vector<float> gradients[2];
    std::vector<float> parameters(static_cast<size_t>(cluster.count()));
    auto client = cluster.Connect(rank);
    ASSERT_THAT(client, IsOk());
    if (rank == 0) {
      ASSERT_THAT((*client)->Init(reference[0]), IsOk());
    }
    ASSERT_THAT((*client)->Pull(0, parameters), IsOk());
    for (int64_t step = 1; step <= 2; ++step) {
      gradients[step - 1] = Gradients(kSeed, rank, step, cluster.count());
      // The whole push again, and the step before that.
      if (step == 2) {
        ASSERT_THAT((*client)->Push(1, 0, gradients[0]), IsOk());
      }
      ASSERT_THAT((*client)->Push(step, 0, gradients[step - 1]), IsOk());
      ASSERT_THAT((*client)->Push(step, 0, gradients[step - 1]), IsOk());
      ASSERT_THAT((*client)->Pull(step, parameters), IsOk());
      EXPECT_TRUE(SameBits(parameters, reference[static_cast<size_t>(step)]));
    }
  });
  EXPECT_EQ(cluster.service(0).counters().duplicates, 6);
}

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
      EXPECT_THAT(status, StatusIs(StatusCode::kDeadlineExceeded,
                                   absl::StrCat("worker ", w,
                                                ", pull of version 1: server 0 (127.0.0.1:")));
      EXPECT_THAT(status,
                  StatusIs(StatusCode::kDeadlineExceeded,
                           "for the push of step 1 of worker 1 (0 of 5559 elements are here)"));
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
  EXPECT_THAT(late, StatusIs(StatusCode::kDeadlineExceeded, "worker 0, connect: waited 3"));
  EXPECT_THAT(late, StatusIs(StatusCode::kDeadlineExceeded,
                             absl::StrCat(" ms for the welcome of shard 0 from server 0 (",
                                          deaf->endpoint.ToString())));
}

TEST(PsService, AServerThatDiesIsNamedAtOnce) {
  ClusterOptions options;
  options.workers = 2;
  options.servers = 2;
  Cluster cluster(options);
  const auto reference = cluster.Reference(1);
  std::vector<std::unique_ptr<PsClient>> clients;
  for (int w = 0; w < 2; ++w) clients.push_back(*cluster.Connect(w));
  ASSERT_THAT(clients[0]->Init(reference[0]), IsOk());
  std::vector<float> parameters(static_cast<size_t>(cluster.count()));
  const std::vector<float> gradients = Gradients(kSeed, 0, 1, cluster.count());
  ASSERT_THAT(clients[0]->Pull(0, parameters), IsOk());
  ASSERT_THAT(clients[0]->Push(1, 0, gradients), IsOk());
  const int64_t start_ns = cluster.clock().NowNs();
  std::thread killer([&] { cluster.service(1).Shutdown(); });
  EXPECT_THAT(
      clients[0]->Pull(1, parameters),
      StatusIs(StatusCode::kUnavailable, "worker 0, pull of version 1: server 1 (127.0.0.1:"));
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
  client.layout.sgd.learning_rate = 0.5F;
  const auto refused = PsClient::Connect(client, cluster.clock(), cluster.abort());
  EXPECT_THAT(refused,
              StatusIs(StatusCode::kInvalidArgument, "refused: worker 0 and server 0 disagree"));
  EXPECT_THAT(refused, StatusIs(StatusCode::kInvalidArgument, "learning_rate 0.5 "));
}

TEST(PsService, AHelloWaitsForConfigure) {
  ClusterOptions options;
  options.configure = false;
  Cluster cluster(options);
  std::thread worker([&] { EXPECT_THAT(cluster.Connect(0), IsOk()); });
  while (cluster.service(0).traffic().received_messages == 0) std::this_thread::yield();
  EXPECT_THAT(cluster.service(0).Configure(cluster.Config(0)), IsOk());
  worker.join();
}

TEST(PsService, TheTokenIsAsked) {
  ClusterOptions options;
  options.token = "secret";
  Cluster cluster(options);
  EXPECT_THAT(cluster.Connect(0), IsOk());
  PsClientOptions stranger = cluster.Client(0);
  stranger.token.clear();
  EXPECT_THAT(PsClient::Connect(stranger, cluster.clock(), cluster.abort()),
              StatusIs(StatusCode::kPermissionDenied, "wrong token"));
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
              StatusIs(StatusCode::kCancelled, "worker 1, pull of version 0: SIGTERM"));
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

// A stream that speaks whatever bytes it likes.
class RawStream {
 public:
  explicit RawStream(const Endpoint& endpoint, const std::string& method = kExchangeMethod)
      : stub_(grpc::CreateChannel(endpoint.ToString(), grpc::InsecureChannelCredentials())) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    io_ = stub_.PrepareCall(&context_, method, &queue_);
    io_->StartCall(this);
    Next();
  }
  ~RawStream() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }
  bool Write(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    io_->Write(grpc::ByteBuffer(&slice, 1), this);
    return Next();
  }
  // Empty at the stream's end.
  std::string Read() {
    grpc::ByteBuffer buffer;
    io_->Read(&buffer, this);
    if (!Next()) return "";
    grpc::Slice slice;
    EXPECT_TRUE(buffer.DumpToSingleSlice(&slice).ok());
    return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
  }
  grpc::Status Finish() {
    grpc::Status status;
    io_->Finish(&status, this);
    Next();
    return status;
  }

 private:
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> io_;
};

// A server that welcomes a worker and then takes nothing from its stream.
class DeafServer {
 public:
  DeafServer() {
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
    io_.Write(MakeBuffer(welcome, grpc::Slice()), this);
    Next();
  }
  void Next() {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue_->Next(&tag, &ok) && ok);
  }
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
  DeafServer deaf;
  PsClientOptions client_options = cluster.Client(0);
  client_options.servers[0] = deaf.endpoint();
  const std::vector<float> gradients(static_cast<size_t>(cluster.count()));
  auto client = PsClient::Connect(client_options, cluster.clock(), cluster.abort());
  ASSERT_THAT(client, IsOk());
  const Traffic before = (*client)->traffic();
  EXPECT_THAT(
      (*client)->Push(1, 0, gradients),
      StatusIs(StatusCode::kDeadlineExceeded,
               absl::StrCat("ms for server 0 (", deaf.endpoint().ToString(), ") to take ")));
  // gRPC takes what HTTP/2's flow control allows, and no more than the window waits behind it.
  EXPECT_LT(((*client)->traffic() - before).sent_bytes, 1 << 20);
}

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

TEST(PsService, SaysThatItIsHealthy) {
  Cluster cluster({});
  RawStream health(cluster.service(0).endpoint(), "/grpc.health.v1.Health/Check");
  EXPECT_TRUE(health.Write(""));
  EXPECT_EQ(health.Read(), "\x08\x01");  // status: SERVING
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
