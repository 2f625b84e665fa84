// Any bytes where a copy of a shard expects another's: states (also from disk) and the heads of
// replicated messages. The first byte says which. What is decoded is given to a copy, which must
// refuse it or go on.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ps_server/core/replication.h"

namespace lockstep {
namespace {

constexpr int64_t kCount = 3;
constexpr int32_t kWorkers = 2;

ShardOptions Options() {
  ShardOptions options;
  options.rules.mode = PsMode::kKOfN;
  options.rules.k = 1;
  options.rules.optimizer.divisor = static_cast<float>(kWorkers);
  options.rules.optimizer.momentum = 0.9F;  // so that a state has optimizer values
  options.range = {.offset = 0, .count = kCount, .parts = {{.count = kCount}}};
  options.world_size = kWorkers;
  options.staged_bytes_max = 1 << 20;
  options.sync_timeout_ms = 1'000;
  return options;
}

ShardState GoodState() {
  ShardState state;
  state.parameters = std::make_shared<const std::vector<float>>(kCount, 1.0F);
  state.optimizer_state.assign(kCount, 0.5F);
  state.version = 4;
  state.workers = {{.incarnation = 1, .last_step = 4}, {.incarnation = 1, .last_step = 3}};
  return state;
}

// A copy behind a head, with that state, whose link has begun.
ShardCopy Copy() {
  ChainPlace place;
  place.epoch = 1;
  place.head = false;
  place.predecessor = 0;
  auto copy = ShardCopy::Restore(Options(), place, GoodState());
  CHECK(copy.ok()) << copy.status();
  Replicate begin = {.kind = Replicate::Kind::kBegin, .version = 4, .sequence = 1};
  CHECK(copy->Handle(ReplicateEvent{1, begin}, 0).fault.ok());
  return *std::move(copy);
}

void AState(std::string_view bytes) {
  const auto state = DecodeState(std::as_bytes(std::span(bytes)));
  if (!state.ok()) {
    CHECK(!state.status().message().empty());
    return;
  }
  const EncodedState encoded = EncodeState(*state);
  CHECK_EQ(static_cast<size_t>(encoded.bytes), bytes.size()) << "one state, two encodings";
  (void)Recut({&*state, 1}, 0, 0, kCount);
  ShardCopy copy = Copy();
  const bool taken = copy.Handle(StateEvent{1, *state}, 0).fault.ok();
  CHECK_EQ(copy.version(), taken ? state->version : 4);
}

// A good state with some bytes replaced, from a place on that the first two bytes say.
void AnotherState(std::string_view bytes) {
  std::string good;
  const ShardState state = GoodState();
  const EncodedState encoded = EncodeState(state);
  for (const auto part : encoded.parts) {
    good.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  if (bytes.size() > 2) {
    const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(bytes[i])); };
    const size_t at = (byte(0) << 8 | byte(1)) % good.size();
    const std::string_view rest = bytes.substr(2);
    for (size_t i = 0; i < rest.size() && at + i < good.size(); ++i) good[at + i] = rest[i];
  }
  AState(good);
}

void AMessage(std::string_view bytes) {
  auto message = DecodeReplicate(std::string(bytes));
  if (!message.ok()) return;
  CHECK(EncodeReplicate(*message) == bytes) << "one message, two encodings";
  message->payload = std::make_shared<const std::vector<float>>(kCount, 2.0F);
  ShardCopy copy = Copy();
  const CopyOutput output = copy.Handle(ReplicateEvent{1, *message}, 0);
  CHECK(output.fault.ok() || copy.version() == 4) << "refused and done";
  CHECK_LE(copy.version(), 5);
}

// A good message with some bytes replaced.
void AnotherMessage(std::string_view bytes) {
  const Replicate message = {.kind = Replicate::Kind::kUpdate,
                             .version = 5,
                             .sequence = 2,
                             .pushes = {{0, 1, 5, 0}, {1, 1, 4, 0}}};
  std::string good = EncodeReplicate(message);
  if (bytes.size() > 1) {
    const size_t at = static_cast<uint8_t>(bytes[0]) % good.size();
    const std::string_view rest = bytes.substr(1);
    for (size_t i = 0; i < rest.size() && at + i < good.size(); ++i) good[at + i] = rest[i];
  }
  AMessage(good);
}

void OneInput(std::string_view bytes) {
  constexpr void (*kReaders[])(std::string_view) = {AState, AnotherState, AMessage, AnotherMessage};
  if (bytes.empty()) return;
  kReaders[static_cast<uint8_t>(bytes[0]) % std::size(kReaders)](bytes.substr(1));
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::OneInput({reinterpret_cast<const char*>(data), size});
  return 0;
}
