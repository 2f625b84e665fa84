#include "worker/step_record.h"

#include <algorithm>
#include <limits>

#include "base/member/process.h"
#include "base/numeric/fold.h"

namespace lockstep {
namespace {

constexpr int64_t kFoldBytes = int64_t{1} << 20;
constexpr int kFoldSamples = 5;
constexpr int64_t kWarmUpStepsMax = 5;
constexpr int64_t kWarmUpShare = 10;  // at most one step in so many

}  // namespace

double FoldNsPerByte(const Clock& clock) {
  constexpr auto kCount = kFoldBytes / static_cast<int64_t>(sizeof(float));
  const std::vector<float> source(static_cast<size_t>(kCount), 1.0F);
  std::vector<float> target(static_cast<size_t>(kCount), 0.0F);
  int64_t best_ns = std::numeric_limits<int64_t>::max();
  for (int sample = 0; sample < kFoldSamples; ++sample) {
    const int64_t start_ns = clock.NowNs();
    Fold(Dtype::kF32, ReduceOp::kSum, source.data(), target.data(), kCount);
    best_ns = std::min(best_ns, clock.NowNs() - start_ns);
  }
  return static_cast<double>(best_ns) / static_cast<double>(kFoldBytes);
}

SetUp SetUpRecord(const Synchronizer::SetUpFacts& facts, const Traffic& traffic,
                  const Clock& clock) {
  SetUp set_up;
  *set_up.mutable_traffic() = CountOf(traffic);
  set_up.set_addition_order(facts.addition_order);
  if (!facts.link.has_value()) return set_up;
  auto* link = set_up.mutable_link();
  link->set_alpha_ns(facts.link->alpha_ns);
  link->set_beta_ns_per_byte(facts.link->beta_ns_per_byte);
  link->set_gamma_ns_per_byte(FoldNsPerByte(clock));
  link->set_link(facts.link->link);
  link->set_large_bytes(facts.link->large_bytes);
  link->set_samples(facts.link->samples);
  return set_up;
}

void AddSpans(const std::vector<CallSpan>& spans, StepDone* done) {
  for (const CallSpan& span : spans) {
    ExchangeSpan* exchange = done->add_exchange();
    exchange->set_bucket(span.bucket);
    exchange->set_start_ns(span.start_ns);
    exchange->set_end_ns(span.end_ns);
  }
}

void AddMessages(const std::vector<LoggedMessage>& messages, StepDone* done) {
  for (const LoggedMessage& logged : messages) {
    MessageSpan* message = done->add_message();
    message->set_peer(logged.peer);
    message->set_channel(logged.channel);
    message->set_sequence(static_cast<int64_t>(logged.sequence));
    message->set_sent(logged.sent);
    message->set_start_ns(logged.start_ns);
    message->set_end_ns(logged.end_ns);
    message->set_bytes(logged.bytes);
  }
}

TracedSteps TracedStepsOf(const RunConfig& run) {
  if (run.block() != 0) return {};
  const int64_t steps = run.experiment().train().steps();
  const int64_t first = std::min(kWarmUpStepsMax, steps / kWarmUpShare) + 1;
  return {first, first + run.experiment().trace().steps()};
}

}  // namespace lockstep
