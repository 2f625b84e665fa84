// Our parameter server and client, as training uses them.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/socket.h"
#include "base/status.h"
#include "base/sync.h"
#include "experiments/bench/ps/end.h"
#include "ps_server/client/ps_client.h"
#include "ps_server/service/ps_service.h"

namespace lockstep {
namespace {

constexpr int64_t kEpoch = 1;
constexpr float kGradient = 1;  // of every worker and element: a step moves a parameter by its mean

// w = w - mean: after t steps every parameter is -t, exactly, until t = 2^24.
PsLayout LayoutOf(const PsEndOptions& options) {
  PsLayout layout;
  layout.rules.optimizer = {
      .learning_rate = 1, .momentum = 0, .divisor = static_cast<float>(options.workers)};
  layout.tensor_counts = {options.bytes / 4};
  if (options.rows > 0) layout.row_elements = {options.row_floats};
  layout.shards = options.servers;
  layout.world_size = options.workers;
  return layout;
}

// Spread evenly over the table; none where it is no table.
std::vector<int64_t> RowsOf(const PsEndOptions& options) {
  const int64_t all = options.bytes / 4 / options.row_floats;
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < options.rows; ++i) rows.push_back(i * all / options.rows);
  return rows;
}

class OurServer final : public PsEnd {
 public:
  OurServer(const PsEndOptions& options, const Clock& clock) : options_(options), clock_(clock) {}
  ~OurServer() override {
    if (service_ != nullptr) service_->Shutdown();
  }

  absl::Status Open() {
    PsServiceOptions service;
    service.token = options_.token;
    service.events.set_up = [](const Traffic& /*traffic*/) {};
    service.events.update = [this](const UpdateServed& /*served*/) {
      MutexLock lock(&mu_);
      ++applied_;
    };
    ASSIGN_OR_RETURN(service_, PsService::Start(service, clock_));
    return absl::OkStatus();
  }
  std::string Address() const override { return service_->endpoint().ToString(); }

  absl::Status Connect(const std::vector<std::string>& /*addresses*/) override {
    return service_->Configure({.server = options_.rank - options_.workers,
                                .servers = options_.servers,
                                .world_size = options_.workers,
                                .epoch = kEpoch,
                                .rules = LayoutOf(options_).rules,
                                .limits = options_.limits});
  }
  absl::Status Step() override { return absl::InternalError("a server makes no steps"); }
  int64_t Rows() const override { return service_->counters().rows_pushed; }

  absl::Status Serve(int64_t steps) override {
    MutexLock lock(&mu_);
    wanted_ += steps;
    const bool there =
        mu_.AwaitFor([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return applied_ >= wanted_; },
                     options_.limits.sync_timeout_ms);
    if (there) return absl::OkStatus();
    return absl::DeadlineExceededError(
        absl::StrCat("server ", options_.rank - options_.workers, ": ", applied_, " of ", wanted_,
                     " updates within ", options_.limits.sync_timeout_ms, " ms"));
  }

 private:
  const PsEndOptions options_;
  const Clock& clock_;
  Mutex mu_;
  int64_t applied_ ABSL_GUARDED_BY(mu_) = 0;  // and every worker has it
  int64_t wanted_ ABSL_GUARDED_BY(mu_) = 0;
  std::unique_ptr<PsService> service_;
};

class OurWorker final : public PsEnd {
 public:
  OurWorker(const PsEndOptions& options, const Clock& clock, const Abort& abort)
      : options_(options),
        clock_(clock),
        abort_(abort),
        rows_(RowsOf(options)),
        gradients_(rows_.empty() ? static_cast<size_t>(options.bytes / 4)
                                 : rows_.size() * static_cast<size_t>(options.row_floats),
                   kGradient),
        parameters_(gradients_.size(), 0.0F) {}

  absl::Status Connect(const std::vector<std::string>& addresses) override {
    PsClientOptions client;
    for (int k = 0; k < options_.servers; ++k) {
      ASSIGN_OR_RETURN(
          const Endpoint endpoint,
          ParseEndpoint(addresses[static_cast<size_t>(options_.workers) + static_cast<size_t>(k)]));
      client.servers.push_back(endpoint);
    }
    client.rank = options_.rank;
    client.epoch = kEpoch;
    client.token = options_.token;
    client.layout = LayoutOf(options_);
    client.limits = options_.limits;
    ASSIGN_OR_RETURN(client_, PsClient::Connect(client, clock_, abort_));
    // Of all of the table. They stay until Pull has returned.
    const std::vector<float> start(options_.rank == 0 ? static_cast<size_t>(options_.bytes / 4) : 0,
                                   kGradient);
    if (options_.rank == 0) RETURN_IF_ERROR(client_->Init(start));
    return Pull();
  }

  absl::Status Step() override {
    ++step_;
    RETURN_IF_ERROR(rows_.empty() ? client_->Push(step_, 0, gradients_)
                                  : client_->PushRows(step_, 0, rows_, gradients_));
    return Pull();
  }
  absl::Status Serve(int64_t /*steps*/) override {
    return absl::InternalError("a worker serves nobody");
  }
  bool Correct() const override {
    const float expected = kGradient - static_cast<float>(step_);
    return std::all_of(parameters_.begin(), parameters_.end(),
                       [expected](float value) { return value == expected; });
  }

 private:
  absl::Status Pull() {
    return rows_.empty() ? client_->Pull(step_, parameters_)
                         : client_->PullRows(step_, 0, rows_, parameters_);
  }

  const PsEndOptions options_;
  const Clock& clock_;
  const Abort& abort_;
  const std::vector<int64_t> rows_;
  std::vector<float> gradients_;
  std::vector<float> parameters_;
  std::unique_ptr<PsClient> client_;  // reads from the above
  int64_t step_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PsEnd>> MakeOurEnd(const PsEndOptions& options, const Clock& clock,
                                                  const Abort& abort) {
  if (!options.serves()) return std::make_unique<OurWorker>(options, clock, abort);
  auto server = std::make_unique<OurServer>(options, clock);
  RETURN_IF_ERROR(server->Open());
  return server;
}

}  // namespace lockstep
