// The roof of plain sockets: as many bytes to each server as ours would get, then as many back.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/socket.h"
#include "base/status.h"
#include "experiments/bench/ps/end.h"

namespace lockstep {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;
constexpr int kLookMs = 100;  // at the abort

void SendAtOnce(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// One connection's part of a step: `send` bytes out, `receive` bytes in, in whatever order asked.
struct Flow {
  UniqueFd fd;
  int64_t bytes = 0;    // of a step, one way
  int64_t to_send = 0;  // left
  int64_t to_receive = 0;
};

class Flows {
 public:
  Flows(std::string name, const PsEndOptions& options, const Clock& clock, const Abort& abort)
      : name_(std::move(name)),
        timeout_ms_(options.limits.sync_timeout_ms),
        clock_(clock),
        abort_(abort),
        piece_(static_cast<size_t>(kPieceBytes)) {}

  std::vector<Flow>& all() { return flows_; }

  // Until `done`; `on_received` when a flow has received all it was to.
  template <typename Done, typename OnReceived>
  absl::Status Move(const Done& done, const OnReceived& on_received) {
    const int64_t deadline_ns = clock_.NowNs() + timeout_ms_ * kNsPerMs;
    while (!done()) {
      RETURN_IF_ERROR(abort_.status());
      if (clock_.NowNs() > deadline_ns) {
        return absl::DeadlineExceededError(
            absl::StrCat(name_, ": a step did not end within ", timeout_ms_, " ms"));
      }
      RETURN_IF_ERROR(MoveOnce(on_received));
    }
    return absl::OkStatus();
  }

 private:
  template <typename OnReceived>
  absl::Status MoveOnce(const OnReceived& on_received) {
    std::vector<pollfd> wait;
    for (const Flow& flow : flows_) {
      const auto events = static_cast<int16_t>((flow.to_send > 0 ? POLLOUT : 0) |
                                               (flow.to_receive > 0 ? POLLIN : 0));
      wait.push_back({flow.fd.get(), events, 0});
    }
    if (poll(wait.data(), wait.size(), kLookMs) < 0 && errno != EINTR) {
      return ErrnoStatus(errno, absl::StrCat(name_, ": poll"));
    }
    for (size_t i = 0; i < flows_.size(); ++i) {
      if ((wait[i].revents & POLLOUT) != 0) RETURN_IF_ERROR(Send(&flows_[i]));
      if ((wait[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      RETURN_IF_ERROR(Receive(&flows_[i]));
      if (flows_[i].to_receive == 0) on_received(&flows_[i]);
    }
    return absl::OkStatus();
  }
  absl::Status Send(Flow* flow) {
    const auto size = static_cast<size_t>(std::min(kPieceBytes, flow->to_send));
    const ssize_t sent = send(flow->fd.get(), piece_.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) return ErrnoStatus(errno, absl::StrCat(name_, ": send"));
    flow->to_send -= std::max<ssize_t>(0, sent);
    return absl::OkStatus();
  }
  absl::Status Receive(Flow* flow) {
    const auto size = static_cast<size_t>(std::clamp<int64_t>(flow->to_receive, 1, kPieceBytes));
    const ssize_t got = recv(flow->fd.get(), piece_.data(), size, MSG_DONTWAIT);
    if (got == 0) return absl::UnavailableError(absl::StrCat(name_, ": the other end is gone"));
    if (got < 0 && errno != EAGAIN) return ErrnoStatus(errno, absl::StrCat(name_, ": receive"));
    flow->to_receive -= std::max<ssize_t>(0, got);
    return absl::OkStatus();
  }

  const std::string name_;
  const int64_t timeout_ms_;
  const Clock& clock_;
  const Abort& abort_;
  std::vector<char> piece_;
  std::vector<Flow> flows_;
};

class TcpWorker final : public PsEnd {
 public:
  TcpWorker(const PsEndOptions& options, const Clock& clock, const Abort& abort)
      : options_(options), flows_(absl::StrCat("worker ", options.rank), options, clock, abort) {}

  absl::Status Connect(const std::vector<std::string>& addresses) override {
    for (int k = 0; k < options_.servers; ++k) {
      ASSIGN_OR_RETURN(
          const Endpoint endpoint,
          ParseEndpoint(addresses[static_cast<size_t>(options_.workers) + static_cast<size_t>(k)]));
      ASSIGN_OR_RETURN(UniqueFd fd, StartConnect(endpoint));
      SendAtOnce(fd.get());
      flows_.all().push_back({.fd = std::move(fd), .bytes = options_.BytesOf(k)});
    }
    return absl::OkStatus();
  }
  absl::Status Step() override {
    for (Flow& flow : flows_.all()) flow.to_send = flow.to_receive = flow.bytes;
    const auto done = [this] {
      return std::all_of(flows_.all().begin(), flows_.all().end(), [](const Flow& flow) {
        return flow.to_send == 0 && flow.to_receive == 0;
      });
    };
    return flows_.Move(done, [](Flow* /*flow*/) {});
  }
  absl::Status Serve(int64_t /*steps*/) override {
    return absl::InternalError("a worker serves nobody");
  }

 private:
  const PsEndOptions options_;
  Flows flows_;
};

class TcpServer final : public PsEnd {
 public:
  TcpServer(const PsEndOptions& options, Listener listener, const Clock& clock, const Abort& abort)
      : options_(options),
        listener_(std::move(listener)),
        clock_(clock),
        abort_(abort),
        flows_(absl::StrCat("server ", options.rank - options.workers), options, clock, abort) {}

  std::string Address() const override { return listener_.endpoint.ToString(); }
  absl::Status Connect(const std::vector<std::string>& /*addresses*/) override {
    const int64_t deadline_ns = clock_.NowNs() + options_.limits.connect_timeout_ms * kNsPerMs;
    while (flows_.all().size() < static_cast<size_t>(options_.workers)) {
      RETURN_IF_ERROR(abort_.status());
      if (clock_.NowNs() > deadline_ns) {
        return absl::DeadlineExceededError(
            absl::StrCat(flows_.all().size(), " of ", options_.workers, " workers connected"));
      }
      pollfd wait = {listener_.fd.get(), POLLIN, 0};
      if (poll(&wait, 1, kLookMs) <= 0) continue;
      UniqueFd fd(accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd.valid()) continue;
      SendAtOnce(fd.get());
      const int64_t bytes = options_.BytesOf(options_.rank - options_.workers);
      flows_.all().push_back({.fd = std::move(fd), .bytes = bytes, .to_receive = bytes});
    }
    return absl::OkStatus();
  }
  absl::Status Step() override { return absl::InternalError("a server makes no steps"); }
  absl::Status Serve(int64_t steps) override {
    // A fast worker's next step may come in before a slow one's, and counts for the next call.
    wanted_ += steps * options_.workers;
    const auto done = [this] {
      return served_ >= wanted_ && std::all_of(flows_.all().begin(), flows_.all().end(),
                                               [](const Flow& flow) { return flow.to_send == 0; });
    };
    return flows_.Move(done, [this](Flow* flow) {
      flow->to_send += flow->bytes;
      flow->to_receive = flow->bytes;
      ++served_;
    });
  }

 private:
  const PsEndOptions options_;
  const Listener listener_;
  const Clock& clock_;
  const Abort& abort_;
  Flows flows_;
  int64_t served_ = 0;  // steps of all workers
  int64_t wanted_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PsEnd>> MakeTcpEnd(const PsEndOptions& options, const Clock& clock,
                                                  const Abort& abort) {
  if (!options.serves()) return std::make_unique<TcpWorker>(options, clock, abort);
  ASSIGN_OR_RETURN(Listener listener, Listen({"127.0.0.1", 0}));
  return std::make_unique<TcpServer>(options, std::move(listener), clock, abort);
}

}  // namespace lockstep
