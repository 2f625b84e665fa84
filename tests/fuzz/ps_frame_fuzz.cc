// Any bytes where a parameter server expects a frame, a Replicate message or a shard's state. The
// first byte says which. A server is refused the frame or takes it, and lives; what is decoded is
// the same when it is encoded again.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "ps_server/core/shard_state.h"
#include "ps_server/service/exchange.h"
#include "ps_server/wire/frame.h"

namespace lockstep {
namespace {

constexpr int64_t kEpoch = 3;
constexpr int32_t kWorkers = 2;

std::vector<Bytes> InTwo(const std::string& bytes) {
  const Bytes all = std::as_bytes(std::span(bytes));
  return {all.first(all.size() / 3), all.subspan(all.size() / 3)};
}

PsLayout Layout() {
  PsLayout layout;
  layout.shards = 2;
  layout.world_size = kWorkers;
  layout.tensor_counts = {3'000, 2'000};
  layout.row_elements = {8, 0};  // the first is a table
  return layout;
}

PsFrame Hello(int32_t sender, int32_t shard, bool from_server) {
  const PsLayout layout = Layout();
  PsFrame hello;
  hello.set_kind(HELLO);
  hello.set_worker(sender);
  hello.set_shard(shard);
  hello.set_epoch(kEpoch);
  hello.set_from_server(from_server);
  hello.set_layout(FingerprintOf(layout));
  for (const int64_t count : layout.tensor_counts) hello.add_tensor_counts(count);
  for (const int64_t row : layout.row_elements) hello.add_row_elements(row);
  return hello;
}

PsFrame StartValues() {
  const auto ranges = Partition(Layout().tensor_counts, Layout().shards);
  CHECK(ranges.ok());
  const std::string zeros(static_cast<size_t>((*ranges)[0].count) * sizeof(float), '\0');
  PsFrame init;
  init.set_kind(INIT);
  init.set_epoch(kEpoch);
  init.set_total((*ranges)[0].count);
  init.set_payload(zeros);
  return init;
}

// A server that heads shard 0, follows server 1 in shard 1, and has a successor for shard 0.
void ToServer(const std::string& bytes) {
  const ManualClock clock;
  Exchange exchange("", {}, clock);
  PsServerConfig config;
  config.servers = 2;
  config.world_size = kWorkers;
  config.epoch = kEpoch;
  config.limits.message_bytes_max = 1 << 16;
  config.places[0] = {.epoch = kEpoch,
                      .head = true,
                      .predecessor = {},
                      .successor = 1,
                      .successor_joins = false,
                      .aggregated = true};
  config.places[1] = {.epoch = kEpoch,
                      .head = false,
                      .predecessor = 1,
                      .successor = {},
                      .successor_joins = false,
                      .aggregated = true};
  config.successors[1] = {};
  CHECK(exchange.Configure(std::move(config)).ok());
  const auto send = [&](int64_t stream, const std::string& frame) {
    exchange.Received(stream, InTwo(frame));
  };
  for (const int64_t stream : {1, 2, 3}) exchange.Opened(stream, "");
  send(1, Hello(0, 0, false).SerializeAsString());
  send(2, Hello(1, 1, true).SerializeAsString());
  for (const Dial& dial : exchange.TakeDials()) send(dial.stream, bytes);
  for (const int64_t stream : {1, 2, 3}) send(stream, bytes);
  exchange.Tick();
  // The same once the shard can be pushed to.
  exchange.Opened(5, "");
  send(5, Hello(0, 0, false).SerializeAsString());
  send(5, StartValues().SerializeAsString());
  send(5, bytes);
  // Whoever behaves is still served.
  exchange.Opened(4, "");
  send(4, Hello(1, 0, false).SerializeAsString());
  bool welcomed = false;
  for (const auto& [stream, message] : exchange.TakeOutgoing()) {
    welcomed = welcomed || (stream == 4 && message.header.kind() == WELCOME);
  }
  CHECK(welcomed) << "the server serves nobody any more";
}

void AFrame(const std::string& bytes) {
  const auto frame = DecodeFrame(InTwo(bytes));
  if (!frame.ok()) {
    CHECK(!frame.status().message().empty());
    return;
  }
  int64_t payload_bytes = 0;
  for (const Bytes piece : frame->payload) payload_bytes += static_cast<int64_t>(piece.size());
  CHECK_EQ(payload_bytes, frame->payload_bytes);
  PsFrame whole;
  CHECK(whole.ParseFromString(bytes)) << "Protobuf reads another message";
  CHECK_EQ(static_cast<int64_t>(whole.payload().size()), payload_bytes);
}

void AReplicate(const std::string& bytes) {
  const auto message = DecodeReplicate(bytes);
  if (!message.ok()) return;
  const std::string again = EncodeReplicate(*message);
  const auto same = DecodeReplicate(again);
  CHECK(same.ok()) << same.status().message();
  CHECK(EncodeReplicate(*same) == again);
}

void AState(const std::string& bytes) {
  const auto state = DecodeState(std::as_bytes(std::span(bytes)));
  if (!state.ok()) return;
  const EncodedState encoded = EncodeState(*state);
  std::string again;
  for (const auto part : encoded.parts) {
    again.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  CHECK(again == bytes) << "a state has one encoding";
}

void OneInput(const std::string& bytes) {
  constexpr std::array kReaders = {ToServer, AFrame, AReplicate, AState};
  if (bytes.empty()) return;
  kReaders[static_cast<uint8_t>(bytes[0]) % kReaders.size()](bytes.substr(1));
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::OneInput({reinterpret_cast<const char*>(data), size});
  return 0;
}
