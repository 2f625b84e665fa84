#include "base/member/fault_plan.h"

#include <algorithm>
#include <csignal>
#include <ctime>

#include "absl/time/time.h"
#include "base/check.h"
#include "base/clock.h"

namespace lockstep {
namespace {

// Stops this process for `ms`. The timer runs in the kernel, where a stopped process's timers go
// on, and SIGCONT continues it whatever it does with the signal.
void Freeze(int64_t ms) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGCONT;
  timer_t timer{};
  CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  itimerspec when{};
  when.it_value.tv_sec = ms * kNsPerMs / kNsPerSecond;
  when.it_value.tv_nsec = ms * kNsPerMs % kNsPerSecond;
  CHECK_EQ(timer_settime(timer, 0, &when, nullptr), 0);
  raise(SIGSTOP);
  timer_delete(timer);
}

}  // namespace

std::optional<int64_t> DurationMs(const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration == absl::InfiniteDuration()) {
    return std::nullopt;
  }
  const int64_t ms = absl::ToInt64Milliseconds(duration);
  if (ms < 1) return std::nullopt;
  return ms;
}

bool StrikesProcess(Fault::Kind kind) {
  return kind == Fault::KILL || kind == Fault::FREEZE || kind == Fault::RESTART;
}

bool StrikesMessage(Fault::Kind kind) {
  return kind == Fault::DROP || kind == Fault::DUPLICATE || kind == Fault::CORRUPT ||
         kind == Fault::DELAY;
}

bool StrikesPoint(Fault::Kind kind) { return kind == Fault::CRASH_POINT; }

bool IsLeave(Fault::Kind kind) { return kind == Fault::LEAVE; }

bool IsJoin(Fault::Kind kind) { return kind == Fault::JOIN; }

bool RestartsAllServers(const Fault& fault) {
  return fault.kind() == Fault::RESTART && fault.target() == "servers";
}

FaultPlan::FaultPlan(const Experiment& experiment, const std::string& target, RecordWriter* records)
    : records_(records) {
  for (int i = 0; i < experiment.fault_size(); ++i) {
    if (experiment.fault(i).target() == target) faults_.push_back({i, experiment.fault(i)});
  }
  over_.assign(faults_.size(), 0);
}

void FaultPlan::BeginAfter(int64_t step) {
  for (size_t i = 0; i < faults_.size(); ++i) {
    if (faults_[i].fault.at().step() <= step + 1) over_[i] = 1;
  }
}

void FaultPlan::SkipStruck(const std::vector<lockstep::Record>& records) {
  for (const lockstep::Record& record : records) {
    if (!record.has_injected()) continue;
    for (size_t i = 0; i < faults_.size(); ++i) {
      if (faults_[i].index == record.injected().fault()) over_[i] = 1;
    }
  }
}

std::vector<PlannedFault> FaultPlan::DueAt(std::string_view point, int64_t step) {
  std::vector<PlannedFault> due;
  for (size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i].fault;
    const bool here = StrikesPoint(fault.kind()) && fault.point() == point;
    if (over_[i] != 0 || !here || fault.at().step() > step) continue;
    over_[i] = 1;
    due.push_back(faults_[i]);
  }
  return due;
}

std::vector<PlannedFault> FaultPlan::Due(int64_t step, bool (*kinds)(Fault::Kind),
                                         std::optional<int> bucket) {
  std::vector<PlannedFault> due;
  for (size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i].fault;
    if (over_[i] != 0 || !kinds(fault.kind()) || fault.at().step() > step) continue;
    const bool late = fault.at().step() < step;
    const bool here = bucket.has_value()
                          ? fault.has_after_bucket() && fault.after_bucket() == *bucket
                          : !fault.has_after_bucket() || late;
    if (!here) continue;
    over_[i] = 1;
    due.push_back(faults_[i]);
  }
  return due;
}

std::optional<PlannedFault> FaultPlan::TakeNext(bool (*kinds)(Fault::Kind)) {
  std::optional<size_t> next;
  for (size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i].fault;
    if (over_[i] != 0 || !kinds(fault.kind())) continue;
    if (!next || fault.at().step() < faults_[*next].fault.at().step()) next = i;
  }
  if (!next) return std::nullopt;
  over_[*next] = 1;
  return faults_[*next];
}

bool FaultPlan::Has(bool (*kinds)(Fault::Kind)) const {
  return std::any_of(faults_.begin(), faults_.end(),
                     [&](const PlannedFault& planned) { return kinds(planned.fault.kind()); });
}

void FaultPlan::Record(const PlannedFault& planned, int64_t step) const {
  lockstep::Record record;
  Injected* injected = record.mutable_injected();
  injected->set_fault(planned.index);
  injected->set_kind(Fault::Kind_Name(planned.fault.kind()));
  injected->set_step(step);
  injected->set_planned_step(planned.fault.at().step());
  records_->Write(record);
}

void FaultPlan::Inject(const PlannedFault& planned, int64_t step) const {
  CHECK(StrikesProcess(planned.fault.kind()) || StrikesPoint(planned.fault.kind()));
  Record(planned, step);
  if (planned.fault.kind() == Fault::FREEZE) {
    Freeze(DurationMs(planned.fault.for_()).value_or(1));
  } else {
    raise(SIGKILL);
  }
}

}  // namespace lockstep
