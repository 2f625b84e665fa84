#include "experiments/bench/roofs.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/numeric/fold.h"
#include "base/socket.h"
#include "base/status.h"
#include "experiments/analyse/statistics.h"

namespace lockstep {
namespace {

constexpr size_t kBytes = size_t{64} << 20;
constexpr int kRepeats = 5;

int64_t NowNs() { return MonotonicClock().NowNs(); }

// Median of `bytes` per nanosecond, which is GB/s, over the repeats; the first is a warm-up.
template <typename Body>
double GbPerS(double bytes, const Body& body) {
  std::vector<double> speeds;
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    const int64_t start_ns = NowNs();
    body();
    const auto elapsed_ns = static_cast<double>(std::max<int64_t>(1, NowNs() - start_ns));
    if (repeat > 0) speeds.push_back(bytes / elapsed_ns);
  }
  return Quantile(speeds, 0.5);
}

// One pass over own memory, in place.
void Update(std::vector<float>* values) {
  for (float& value : *values) value += 1.0F;
}

double UpdateGbPerS(int threads) {
  std::vector<std::vector<float>> memory(static_cast<size_t>(threads));
  for (std::vector<float>& values : memory) values.resize(kBytes / sizeof(float), 1.0F);
  const double bytes = 2.0 * static_cast<double>(kBytes) * threads;  // each read and written
  constexpr int kPasses = 4;  // so that starting the threads does not count
  return GbPerS(bytes * kPasses, [&] {
    std::vector<std::thread> workers;
    workers.reserve(memory.size());
    for (std::vector<float>& values : memory) {
      workers.emplace_back([&values] {
        for (int pass = 0; pass < kPasses; ++pass) Update(&values);
      });
    }
    for (std::thread& worker : workers) worker.join();
  });
}

struct Pair {
  UniqueFd near;
  UniqueFd far;
};

absl::StatusOr<Pair> ConnectPair() {
  ASSIGN_OR_RETURN(const Listener listener, Listen({"127.0.0.1", 0}));
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  Pair pair;
  pair.near = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!pair.near.valid() ||
      getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      connect(pair.near.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return ErrnoStatus(errno, "bench: loopback connection");
  }
  pair.far = UniqueFd(accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!pair.far.valid()) return ErrnoStatus(errno, "bench: loopback accept");
  const int on = 1;
  for (const int fd : {pair.near.get(), pair.far.get()}) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return pair;
}

bool SendAll(int fd, const std::vector<char>& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t sent = send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    done += static_cast<size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int fd, std::vector<char>* bytes) {
  size_t done = 0;
  while (done < bytes->size()) {
    const ssize_t got = recv(fd, bytes->data() + done, bytes->size() - done, 0);
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

// The far end takes `messages` of `bytes` and answers the last, or each, with one byte.
absl::StatusOr<double> ExchangeNs(size_t bytes, int messages, bool answer_each) {
  ASSIGN_OR_RETURN(Pair pair, ConnectPair());
  std::thread far([&] {
    std::vector<char> buffer(bytes);
    for (int i = 0; i < messages; ++i) {
      if (!ReceiveAll(pair.far.get(), &buffer)) return;
      if ((answer_each || i + 1 == messages) && !SendAll(pair.far.get(), {'a'})) return;
    }
  });
  const std::vector<char> message(bytes, 'm');
  std::vector<char> answer(1);
  bool ok = true;
  const int64_t start_ns = NowNs();
  for (int i = 0; ok && i < messages; ++i) {
    ok = SendAll(pair.near.get(), message);
    if (ok && (answer_each || i + 1 == messages)) ok = ReceiveAll(pair.near.get(), &answer);
  }
  const auto elapsed_ns = static_cast<double>(NowNs() - start_ns);
  shutdown(pair.near.get(), SHUT_RDWR);
  far.join();
  if (!ok) return absl::UnavailableError("bench: a loopback connection broke");
  return elapsed_ns;
}

absl::Status MeasureTcp(BenchRoofs* roofs) {
  constexpr size_t kPiece = size_t{1} << 20;
  constexpr int kPieces = 256;
  constexpr int kRoundTrips = 1000;
  std::vector<double> gb_per_s;
  std::vector<double> round_trip_us;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    ASSIGN_OR_RETURN(const double stream_ns, ExchangeNs(kPiece, kPieces, /*answer_each=*/false));
    gb_per_s.push_back(static_cast<double>(kPiece) * kPieces / stream_ns);
    ASSIGN_OR_RETURN(const double trips_ns, ExchangeNs(4, kRoundTrips, /*answer_each=*/true));
    round_trip_us.push_back(trips_ns / kRoundTrips / 1000);
  }
  roofs->set_tcp_gb_s(Quantile(gb_per_s, 0.5));
  roofs->set_tcp_round_trip_us(Quantile(round_trip_us, 0.5));
  ASSIGN_OR_RETURN(const Pair pair, ConnectPair());
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  socklen_t size = name.size();
  if (getsockopt(pair.near.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0) {
    roofs->set_congestion_control(std::string(name.data(), strnlen(name.data(), name.size())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BenchRoofs> MeasureRoofs() {
  BenchRoofs roofs;
  {
    std::vector<float> source(kBytes / sizeof(float), 1.0F);
    std::vector<float> target(source.size(), 2.0F);
    roofs.set_memcpy_gb_s(GbPerS(static_cast<double>(kBytes),
                                 [&] { std::memcpy(target.data(), source.data(), kBytes); }));
    roofs.set_fold_gb_s(GbPerS(static_cast<double>(kBytes), [&] {
      Fold(Dtype::kF32, ReduceOp::kSum, source.data(), target.data(),
           static_cast<int64_t>(source.size()));
    }));
  }
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const int threads =
      sched_getaffinity(0, sizeof(cores), &cores) == 0 ? std::max(1, CPU_COUNT(&cores)) : 1;
  roofs.set_update_threads(threads);
  roofs.set_update_gb_s(UpdateGbPerS(threads));
  RETURN_IF_ERROR(MeasureTcp(&roofs));
  return roofs;
}

}  // namespace lockstep
