// worker.h: a simulated worker: the real client core (ps_server/client/client_core.h) over
// simulated streams, a model whose gradients are real, and the way through epochs that
// worker/main.cc has: connect, greet, take up the state, Connected, Go, steps, leave a dead group.
// Only the time that a gradient takes is made up: fixed, or exponential.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/numeric/random.h"
#include "experiments/simulate/member.h"
#include "experiments/simulate/model.h"
#include "ps_server/client/client_core.h"

namespace lockstep {

struct StepTimes {
  double mean_ns = 20e6;
  bool exponential = false;  // else each takes the mean
};

// What an onlooker sees of workers.
struct SimWorkerEvents {
  // It begins to compute a gradient.
  std::function<void()> begins;
  // A gradient of `step` is about to be pushed.
  std::function<void(int32_t worker, int64_t step, std::span<const float> gradient)> gradient;
  // A shard's whole parameters have come, in answer to a push or to go on from.
  std::function<void(int32_t worker, int64_t server_process, const PsFrame& header, bool answer)>
      told;
  // It finished `step` and has these parameters.
  std::function<void(int32_t worker, int64_t step, std::span<const float> parameters)> finished;
  std::function<void(int32_t worker, const absl::Status& status)> failed;
};

struct SimWorkerOptions {
  SimMemberOptions member;
  PsLayout layout;
  std::vector<ShardRange> ranges;
  int64_t steps = 0;
  StepTimes step_times;
  uint64_t seed = 0;
};

class SimWorker : public SimMember {
 public:
  // `model` must outlive it.
  SimWorker(const SimContext& self, SimWorkerOptions options, const SimModel& model,
            SimWorkerEvents events);

  // The next `frames` pushes' frames go out twice.
  void DuplicatePushes(int64_t frames) { duplicates_ = frames; }
  int64_t step() const override { return step_; }
  int64_t rejected() const { return rejected_; }

 protected:
  void OnGroup() override;
  void OnGo() override;
  void LeaveGroup(const absl::Status& cause) override;
  void OnFrame(int64_t stream, const std::string& bytes) override;
  void OnRoom(int64_t stream) override;
  void OnStreamClosed(int64_t stream) override;
  void OnOwnTimer(int64_t timer) override;
  absl::Status CheckDeadlines() override;

 private:
  enum class Phase : uint8_t {
    kJoining,
    kGreeting,
    kInit,
    kTakingUp,  // pulls what it goes on from
    kReady,     // until Go
    kComputing,
    kPushing,
    kPulling,
    kDone,
    kLeft,
  };

  void Enter(Phase phase);
  void Pump();
  void Take(int64_t stream, const std::string& bytes);
  // The operation of this phase is through.
  absl::Status Next();
  absl::Status TakeUp();
  void BeReady();
  void NextStep();
  absl::Status PushNext();
  absl::Status FinishStep();

  const SimWorkerOptions worker_;
  const SimModel& model_;
  const SimWorkerEvents events_;
  Random random_;
  Phase phase_ = Phase::kJoining;
  int64_t since_ns_ = 0;  // in this phase
  std::vector<float> parameters_;
  int64_t step_ = -1;  // whose parameters it has; -1: none
  bool has_state_ = false;
  std::vector<float> gradient_;
  size_t bucket_ = 0;
  std::unique_ptr<ClientCore> core_;
  std::map<int32_t, int64_t> stream_of_;                // server index
  std::map<int64_t, int32_t> server_of_;                // stream
  std::vector<std::pair<int64_t, std::string>> early_;  // frames, by stream: for the next pull
  std::vector<int64_t> versions_;                       // given in earlier epochs
  int64_t resume_ = 0;
  int64_t duplicates_ = 0;
  int64_t rejected_ = 0;
};

}  // namespace lockstep
