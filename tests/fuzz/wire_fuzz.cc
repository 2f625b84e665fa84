// Any bytes where another process's messages are expected: hellos, message headers, control
// messages and failure reports. The first byte says which; what is believed must be in range.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allreduce/host/failure.h"
#include "allreduce/transport/link.h"
#include "allreduce/transport/tcp_control.h"
#include "allreduce/transport/tcp_hello.h"
#include "base/check.h"
#include "base/socket.h"

namespace lockstep {
namespace {

constexpr int kWorldSize = 4;
constexpr int64_t kEpoch = 7;

// The first sizeof(Value) bytes as a Value; what is missing stays as in `value`.
template <typename Value>
std::string_view Overlay(std::string_view bytes, Value* value) {
  const size_t used = std::min(bytes.size(), sizeof(Value));
  std::memcpy(value, bytes.data(), used);
  return bytes.substr(used);
}

void AHello(std::string_view bytes) {
  TcpGroup group;
  group.rank = 1;
  group.endpoints.resize(kWorldSize);
  group.epoch = kEpoch;
  group.token = "secret";
  group.channels = 2;
  Hello hello;
  const std::string own = EncodeHello(group, kControlChannel);
  std::memcpy(&hello, own.data(), sizeof(hello));
  const std::string_view rest = Overlay(bytes, &hello);
  if (!HelloFits(group, hello)) return;
  CHECK(hello.rank >= 0 && hello.rank < kWorldSize && hello.rank != group.rank) << hello.rank;
  CHECK(hello.channel >= kControlChannel && hello.channel < group.channels) << hello.channel;
  CHECK_EQ(hello.token_bytes, group.token.size());
  const std::string token(rest.substr(0, hello.token_bytes));
  CHECK_EQ(TokensEqual(token, group.token), token == group.token);
}

void AHeader(std::string_view bytes) {
  constexpr int64_t kBytesMax = 1 << 20;
  const MessageHeader expected{.epoch = kEpoch, .fingerprint = 1, .payload_bytes = 64};
  MessageHeader actual = expected;
  Overlay(bytes, &actual);
  const absl::Status status = CheckHeader(1, 2, expected, actual, kBytesMax);
  CHECK_EQ(status.ok(),
           actual.magic == expected.magic && actual.kind == expected.kind &&
               actual.channel == expected.channel && actual.epoch == expected.epoch &&
               actual.fingerprint == expected.fingerprint && actual.sequence == expected.sequence &&
               actual.payload_bytes == expected.payload_bytes && actual.tile == expected.tile);
  CHECK(status.ok() || !status.message().empty());
}

// Comes in two pieces, as a stream may, and then the peer is gone.
void ControlMessages(std::string_view bytes) {
  constexpr size_t kBytesMax = 32768;  // a socket pair takes so much without a reader
  bytes = bytes.substr(0, kBytesMax);
  std::array<int, 2> ends{};
  CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  TcpControl control(UniqueFd(ends[0]), kEpoch);
  PeerState state;
  {
    const UniqueFd peer(ends[1]);
    const size_t half = bytes.size() / 2;
    for (const std::string_view piece : {bytes.substr(0, half), bytes.substr(half)}) {
      // Fails where the first piece was malformed: then the connection is closed.
      (void)send(peer.get(), piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      control.Move(&state);
      CHECK_LE(state.report.size(), kReportBytesMax);
    }
  }
  control.Move(&state);
  CHECK(!control.open()) << "a peer that is gone must be noticed";
  CHECK(state.lost != state.left) << "lost " << state.lost << ", left " << state.left;
}

// A good report with some bytes replaced, from a place on that the first two bytes say, cut or
// lengthened by the third.
void AReport(std::string_view bytes) {
  FailureReport own;
  own.elapsed_ms = 5;
  own.waiting_for = {1, 2};
  own.lost = {3};
  own.cause = absl::UnavailableError("its connection broke");
  std::string wire = EncodeReport(own);
  CHECK_LE(wire.size(), kReportBytesMax);
  if (bytes.size() > 3) {
    const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(bytes[i])); };
    const size_t at = (byte(0) << 8 | byte(1)) % wire.size();
    if (byte(2) % 8 == 1) wire.resize(wire.size() + byte(2) - 128);
    const std::string_view rest = bytes.substr(3);
    for (size_t i = 0; i < rest.size() && at + i < wire.size(); ++i) wire[at + i] = rest[i];
  }
  const std::optional<FailureReport> report = DecodeReport(wire, kWorldSize);
  if (!report.has_value()) return;
  for (const auto& ranks : {report->waiting_for, report->lost}) {
    for (const int rank : ranks) CHECK(rank >= 0 && rank < kWorldSize) << rank;
  }
  FailureView view;
  view.reports = {own, report, std::nullopt, std::nullopt};
  view.lost = {0, 0, 1, 0};
  CHECK(!Explain(view).ok());
}

void OneInput(std::string_view bytes) {
  constexpr std::array kReaders = {AHello, AHeader, ControlMessages, AReport};
  if (bytes.empty()) return;
  kReaders[static_cast<uint8_t>(bytes[0]) % kReaders.size()](bytes.substr(1));
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::OneInput({reinterpret_cast<const char*>(data), size});
  return 0;
}
