// Real servers and clients over loopback: what must work.
#include "ps_server/service/ps_service.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/health.pb.h"
#include "proto/reflection.pb.h"
#include "ps_server/service/onlooker_answers.h"
#include "ps_server/service/onlookers.h"
#include "tests/ps_server/cluster.h"
#include "tests/ps_server/raw_stream.h"

namespace lockstep {
namespace {

using absl::StatusCode;

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
  const size_t updates = 5U * static_cast<size_t>(options.servers);
  EXPECT_EQ(cluster.reports().Await(updates).size(), updates);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Training,
                         testing::Values(Size{1, 1, 1 << 20, 8}, Size{1, 2, 1 << 20, 8},
                                         Size{3, 1, 1 << 20, 8}, Size{3, 2, 1 << 20, 8},
                                         Size{3, 2, 64, 1}, Size{2, 3, 1'000, 2}),
                         [](const auto& row) {
                           return absl::StrCat("n", row.param.workers, "s", row.param.servers,
                                               "chunk", row.param.chunk_bytes);
                         });

struct Reduction {
  const char* name;
  float divisor;
  float change;
};
void PrintTo(const Reduction& row, std::ostream* out) { *out << row.name; }
class SumAndMean : public testing::TestWithParam<Reduction> {};

TEST_P(SumAndMean, GradientsOneToFourMoveTheParameters) {
  ClusterOptions options;
  options.workers = 4;
  options.servers = 2;
  options.sgd = OptimizerOptions{.learning_rate = 1, .momentum = 0, .divisor = GetParam().divisor};
  Cluster cluster(options);
  const auto count = static_cast<size_t>(cluster.count());
  cluster.RunWorkers([&](int rank) {
    const std::vector<float> start(count, 0.0F);
    std::vector<float> parameters(count);
    const std::vector<float> gradients(count, static_cast<float>(rank + 1));
    auto client = cluster.Connect(rank);
    ASSERT_THAT(client, IsOk());
    if (rank == 0) {
      ASSERT_THAT((*client)->Init(start), IsOk());
    }
    ASSERT_THAT((*client)->Pull(0, parameters), IsOk());
    for (int64_t step = 1; step <= 2; ++step) {
      ASSERT_THAT((*client)->Push(step, 0, gradients), IsOk());
      ASSERT_THAT((*client)->Pull(step, parameters), IsOk());
      EXPECT_EQ(parameters,
                std::vector<float>(count, static_cast<float>(step) * GetParam().change));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Rows, SumAndMean,
                         testing::Values(Reduction{"Sum", 1, -10}, Reduction{"Mean", 4, -2.5F}),
                         [](const auto& row) { return row.param.name; });

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
  for (const UpdateServed& served : cluster.reports().Await(kServers * kSteps)) {
    servers[static_cast<size_t>(served.shard)] += served.traffic;
    // Each event by itself, not only their sum.
    EXPECT_NEAR(static_cast<double>(served.traffic.received_bytes) / formula, 1.0, 0.01);
    EXPECT_NEAR(static_cast<double>(served.traffic.sent_bytes) / formula, 1.0, 0.01);
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
  const auto reference = cluster.Reference(3);
  cluster.RunWorkers([&](int rank) {
    std::vector<float> gradients[3];
    std::vector<float> parameters(static_cast<size_t>(cluster.count()));
    auto client = cluster.Connect(rank);
    ASSERT_THAT(client, IsOk());
    if (rank == 0) {
      ASSERT_THAT((*client)->Init(reference[0]), IsOk());
    }
    ASSERT_THAT((*client)->Pull(0, parameters), IsOk());
    for (int64_t step = 1; step <= 3; ++step) {
      gradients[step - 1] = Gradients(kSeed, rank, step, cluster.count());
      // The whole push again, and the step before that.
      if (step == 2) {
        ASSERT_THAT((*client)->Push(1, 0, gradients[0]), IsOk());
      }
      ASSERT_THAT((*client)->Push(step, 0, gradients[step - 1]), IsOk());
      // Of the third step the answer would come before the repetition has arrived.
      if (step < 3) {
        ASSERT_THAT((*client)->Push(step, 0, gradients[step - 1]), IsOk());
      }
      ASSERT_THAT((*client)->Pull(step, parameters), IsOk());
      EXPECT_TRUE(SameBits(parameters, reference[static_cast<size_t>(step)]));
    }
  });
  EXPECT_EQ(cluster.service(0).counters().duplicates, 6);
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

TEST(PsService, SaysThatItIsHealthy) {
  Cluster cluster({});
  const Endpoint& endpoint = cluster.service(0).endpoint();
  RawStream health(endpoint, kHealthMethod);
  EXPECT_TRUE(health.Write(""));
  EXPECT_EQ(health.Read(), "\x08\x01");  // status: SERVING
  RawStream unknown(endpoint, kHealthMethod);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("lockstep.Other");
  EXPECT_TRUE(unknown.Write(request.SerializeAsString()));
  EXPECT_EQ(unknown.Read(), "");
  EXPECT_EQ(unknown.Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

// gRPC's own services would: such threads take the exchange's events and hand them over.
TEST(PsService, OnlookersBringNoThreads) {
  Cluster cluster({});
  RawStream health(cluster.service(0).endpoint(), kHealthMethod);
  EXPECT_TRUE(health.Write(""));
  EXPECT_EQ(health.Read(), "\x08\x01");
  std::vector<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::getline(file, names.emplace_back());
  }
  EXPECT_THAT(names, testing::Not(testing::Contains(testing::AnyOf(
                         testing::StartsWith("grpcpp_sync"), testing::StartsWith("nexting")))));
}

// More than can be served at a time, and ones that say nothing: nobody is shut out for good.
TEST(PsService, ManyOnlookersAreServedInTurn) {
  Cluster cluster({});
  const Endpoint& endpoint = cluster.service(0).endpoint();
  for (size_t i = 0; i < 2 * kOnlookersMax; ++i) {
    RawStream health(endpoint, kHealthMethod);
    EXPECT_TRUE(health.Write(""));
    EXPECT_EQ(health.Read(), "\x08\x01") << i;
  }
}

TEST(PsService, ShowsWhatItServes) {
  using grpc::reflection::v1alpha::ServerReflectionRequest;
  using grpc::reflection::v1alpha::ServerReflectionResponse;
  Cluster cluster({});
  RawStream stream(cluster.service(0).endpoint(), kReflectionMethod);
  const auto ask = [&stream](const ServerReflectionRequest& request) {
    EXPECT_TRUE(stream.Write(request.SerializeAsString()));
    ServerReflectionResponse response;
    EXPECT_TRUE(response.ParseFromString(stream.Read()));
    return response;
  };
  ServerReflectionRequest request;
  request.set_list_services("");
  EXPECT_EQ(ask(request).list_services_response().service(0).name(), "lockstep.ParameterServer");
  request.set_file_containing_symbol("lockstep.ParameterServer.Exchange");
  ServerReflectionResponse file = ask(request);
  ASSERT_EQ(file.file_descriptor_response().file_descriptor_proto_size(), 1);
  google::protobuf::FileDescriptorProto proto;
  ASSERT_TRUE(proto.ParseFromString(file.file_descriptor_response().file_descriptor_proto(0)));
  EXPECT_EQ(proto.name(), "proto/parameter_server.proto");
  request.set_file_by_filename("proto/parameter_server.proto");
  EXPECT_EQ(ask(request).file_descriptor_response().file_descriptor_proto_size(), 1);
  request.set_file_containing_symbol("lockstep.Nothing");
  EXPECT_EQ(ask(request).error_response().error_message(), "'lockstep.Nothing' is not known here");
}

}  // namespace
}  // namespace lockstep
