// 1 GiB of parameters and 8 workers, one of which stops reading while the others push their next
// step: the memory of this process, which is the server's and the streams', stays under the bound
// of ps_server/service/exchange.h. Needs 12 GiB.
#include <gtest/gtest.h>

#include <barrier>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "ps_server/service/ps_service.h"
#include "ps_server/wire/frame.h"
#include "tests/ps_server/raw_stream.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kElements = kGiB / 4;
constexpr int64_t kChunkElements = (int64_t{1} << 20) / 4;
constexpr int kWorkers = 8;
constexpr int kSteps = 3;
constexpr int kDeadlineS = 900;

PsServerConfig Config() {
  PsServerConfig config;
  config.world_size = kWorkers;
  config.epoch = 1;
  config.rules.optimizer = {0.1F, 0.9F, kWorkers};
  config.limits.staged_bytes_max = kWorkers * kGiB;
  config.limits.sync_timeout_ms = kDeadlineS * 1'000;
  return config;
}

PsFrame Header(PsKind kind, int worker, int64_t step) {
  PsFrame frame;
  frame.set_kind(kind);
  frame.set_worker(worker);
  frame.set_incarnation(1);
  frame.set_epoch(1);
  frame.set_step(step);
  return frame;
}

// The whole shard, in chunks of the same values.
bool SendAll(RawStream* stream, PsKind kind, int worker, int64_t step) {
  PsFrame frame = Header(kind, worker, step);
  frame.set_total(kElements);
  frame.set_payload(std::string(static_cast<size_t>(kChunkElements) * 4, '\0'));
  for (int64_t offset = 0; offset < kElements; offset += kChunkElements) {
    frame.set_offset(offset);
    if (!stream->Write(frame.SerializeAsString())) return false;
  }
  return true;
}

bool ReadAll(RawStream* stream) {
  for (int64_t elements = 0; elements < kElements;) {
    PsFrame frame;
    if (!frame.ParseFromString(stream->Read()) || frame.kind() != PARAMETERS) return false;
    elements += static_cast<int64_t>(frame.payload().size()) / 4;
  }
  return true;
}

// One that does not read is given the version of the last step but one and takes none of it; the
// others have pushed the last step then, which nobody can be answered.
void Train(RawStream* stream, int worker, bool reads) {
  const PsLayout layout = {
      .rules = Config().rules, .tensor_counts = {kElements}, .shards = 1, .world_size = kWorkers};
  PsFrame hello = Header(HELLO, worker, 0);
  hello.set_layout(FingerprintOf(layout));
  hello.add_tensor_counts(kElements);
  ASSERT_TRUE(stream->Write(hello.SerializeAsString()));
  PsFrame welcome;
  ASSERT_TRUE(welcome.ParseFromString(stream->Read()));
  ASSERT_EQ(welcome.kind(), WELCOME) << welcome.reason();
  if (worker == 0) {
    ASSERT_TRUE(SendAll(stream, INIT, worker, 0));
  }
  ASSERT_TRUE(stream->Write(Header(PULL, worker, 0).SerializeAsString()));
  ASSERT_TRUE(ReadAll(stream));
  for (int64_t step = 1; step <= kSteps; ++step) {
    ASSERT_TRUE(SendAll(stream, PUSH, worker, step));
    if (step == kSteps) return;
    ASSERT_TRUE(stream->Write(Header(PULL, worker, step).SerializeAsString()));
    if (!reads && step == kSteps - 1) return;
    ASSERT_TRUE(ReadAll(stream));
  }
}

void Work(const Endpoint& endpoint, int worker, bool reads, std::barrier<>* all) {
  RawStream stream(endpoint, kExchangeMethod, kDeadlineS);
  Train(&stream, worker, reads);
  all->arrive_and_wait();  // nobody hangs up before
}

int64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1'024;
  }
  return 0;
}

TEST(PsMemoryLongTest, AGibibyteForEightWorkersOfWhomOneStopsReading) {
  const MonotonicClock clock;
  const auto service = PsService::Start({}, clock);
  ASSERT_THAT(service, IsOk());
  ASSERT_THAT((*service)->Configure(Config()), IsOk());
  std::barrier<> all(kWorkers);
  std::vector<std::thread> workers;
  workers.reserve(kWorkers);
  for (int worker = 0; worker < kWorkers; ++worker) {
    workers.emplace_back(Work, (*service)->endpoint(), worker, worker != kWorkers - 1, &all);
  }
  for (std::thread& worker : workers) worker.join();
  // A push of each worker, as the limit allows; parameters, the previous ones and the next; the
  // optimizer's values, now and next; the version that the unread reply is of; and an eighth for
  // the streams.
  const int64_t bound_bytes = (kWorkers + 6) * kGiB + kGiB / 8;
  const int64_t peak_bytes = PeakBytes();
  absl::PrintF("peak %.2f GiB, bound %.2f GiB\n", static_cast<double>(peak_bytes) / kGiB,
               static_cast<double>(bound_bytes) / kGiB);
  EXPECT_LE(peak_bytes, bound_bytes);
}

}  // namespace
}  // namespace lockstep
