#include "experiments/analyse/trace.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "experiments/analyse/anatomy.h"
#include "experiments/analyse/atomic_file.h"
#include "experiments/analyse/trace_tracks.h"

namespace lockstep {
namespace {

// Tracks of one member by name; in the order in which a reader wants them.
using Tracks = std::map<std::pair<int, std::string>, std::vector<TraceSlice>>;
enum TrackOrder { kSteps, kExchange, kOut, kIn, kApply };

TraceSlice StepSlice(const StepDone& step, const LastGradient& last, size_t rank) {
  TraceSlice slice = {.name = absl::StrCat("step ", step.step()),
                      .start_ns = step.start_ns(),
                      .end_ns = EndNs(step),
                      .args = {{"samples", step.samples()}}};
  slice.parts.push_back({"forward and backward", step.start_ns(), step.backward_end_ns()});
  if (last.rank != rank) {
    slice.parts.push_back(
        {absl::StrCat("wait for worker ", last.rank), step.backward_end_ns(), last.end_ns});
  }
  slice.parts.push_back({"exchange and update", step.backward_end_ns(), EndNs(step)});
  return slice;
}

std::string NameOfRank(const RunRecord& run, int rank) {
  const int workers = run.config.world_size();
  return rank < workers ? absl::StrCat("worker ", rank) : absl::StrCat("server ", rank - workers);
}

TraceSlice MessageSlice(const StepDone& step, const MessageSpan& message, int rank) {
  const MessageKey key =
      message.sent() ? MessageKey{rank, message.peer(), message.channel(), message.sequence()}
                     : MessageKey{message.peer(), rank, message.channel(), message.sequence()};
  return {.name = absl::StrCat(message.sent() ? "send" : "receive", " #", message.sequence()),
          .start_ns = message.start_ns(),
          .end_ns = message.end_ns(),
          .args = {{"step", step.step()},
                   {"sender", std::get<0>(key)},
                   {"receiver", std::get<1>(key)},
                   {"channel", message.channel()},
                   {"sequence", message.sequence()},
                   {"bytes", message.bytes()}},
          .end = message.sent() ? TraceSlice::End::kSend : TraceSlice::End::kReceive,
          .message = key};
}

// A worker, or a server that only sums: `rank` counts both.
void AddStep(const RunRecord& run, size_t rank, const StepDone& step, const LastGradient& last,
             Tracks* tracks) {
  (*tracks)[{kSteps, "steps"}].push_back(StepSlice(step, last, rank));
  for (const ExchangeSpan& span : step.exchange()) {
    (*tracks)[{kExchange, "exchange"}].push_back(
        {.name = span.bucket() < 0 ? "finish" : absl::StrCat("bucket ", span.bucket()),
         .start_ns = span.start_ns(),
         .end_ns = span.end_ns(),
         .args = {{"step", step.step()}}});
  }
  for (const MessageSpan& message : step.message()) {
    const std::string peer = NameOfRank(run, message.peer());
    const auto track = message.sent()
                           ? std::pair<int, std::string>(kOut, absl::StrCat("out to ", peer))
                           : std::pair<int, std::string>(kIn, absl::StrCat("in from ", peer));
    (*tracks)[track].push_back(MessageSlice(step, message, static_cast<int>(rank)));
  }
}

void AddApplied(const Applied& applied, Tracks* tracks) {
  const std::string step = absl::StrCat("step ", applied.step());
  for (const PeerSpan& push : applied.push()) {
    (*tracks)[{kIn, absl::StrCat("in from worker ", push.worker())}].push_back(
        {.name = absl::StrCat("push of ", step),
         .start_ns = push.start_ns(),
         .end_ns = push.end_ns(),
         .args = {{"shard", applied.shard()}}});
  }
  for (const PeerSpan& reply : applied.reply()) {
    (*tracks)[{kOut, absl::StrCat("out to worker ", reply.worker())}].push_back(
        {.name = absl::StrCat("reply of ", step),
         .start_ns = reply.start_ns(),
         .end_ns = reply.end_ns(),
         .args = {{"shard", applied.shard()}, {"version", applied.version()}}});
  }
  (*tracks)[{kApply, "fold and apply"}].push_back(
      {.name = absl::StrCat(
           "apply ", step,
           applied.has_worker() ? absl::StrCat(" of worker ", applied.worker()) : std::string()),
       .start_ns = applied.apply_start_ns(),
       .end_ns = applied.apply_start_ns() + applied.apply_ns(),
       .args = {{"shard", applied.shard()},
                {"version", applied.version()},
                {"early_ns", applied.early_ns()}}});
}

size_t SlicesOf(const StepDone& step) {
  constexpr size_t kStepAndParts = 4;
  return kStepAndParts + static_cast<size_t>(step.exchange_size() + step.message_size());
}

size_t SlicesOf(const Applied& applied) {
  return 1 + static_cast<size_t>(applied.push_size() + applied.reply_size());
}

// Of all members.
size_t SlicesOfStep(const RunRecord& run, int64_t step) {
  size_t slices = 0;
  for (const auto* members : {&run.workers, &run.servers}) {
    for (const MemberRecord& member : *members) {
      const auto index = static_cast<size_t>(step - 1);
      if (index < member.steps.size()) slices += SlicesOf(member.steps[index]);
      for (const Applied& applied : member.applied) {
        if (applied.step() == step) slices += SlicesOf(applied);
      }
    }
  }
  return slices;
}

struct StepRange {
  int64_t first = 1;
  int64_t last = 0;  // included
};

// As many of the traced steps as fit the bound.
StepRange FittingSteps(const RunRecord& run, const StepRange& traced) {
  size_t slices = 0;
  StepRange fitting = {traced.first, traced.first - 1};
  for (int64_t step = traced.first; step <= traced.last; ++step) {
    slices += SlicesOfStep(run, step);
    if (slices > kTraceSlicesMax) break;
    fitting.last = step;
  }
  return fitting;
}

// A server that only sums has no gradients to wait with.
LastGradient LastOf(const RunRecord& run, size_t rank, const StepDone& step) {
  if (rank >= run.workers.size()) return {rank, 0};
  return LastGradientOf(run, static_cast<size_t>(step.step() - 1), rank);
}

TraceProcess ProcessOf(const RunRecord& run, const MemberRecord& member, size_t rank,
                       const StepRange& steps) {
  Tracks tracks;
  for (const StepDone& step : member.steps) {
    if (step.step() < steps.first || step.step() > steps.last) continue;
    AddStep(run, rank, step, LastOf(run, rank, step), &tracks);
  }
  for (const Applied& applied : member.applied) {
    if (applied.step() >= steps.first && applied.step() <= steps.last) {
      AddApplied(applied, &tracks);
    }
  }
  TraceProcess process;
  for (auto& [key, slices] : tracks) process.tracks.push_back({key.second, std::move(slices)});
  return process;
}

TraceRun TraceOf(const RunRecord& run) {
  const std::string name =
      absl::StrCat(run.config.variant().name(), ", ", run.config.world_size(), " workers");
  const int64_t warmup = WarmupSteps(run.steps());
  const int64_t traced = run.config.experiment().trace().steps();
  const StepRange wanted = {warmup + 1, std::min<int64_t>(warmup + traced, run.steps())};
  const StepRange steps = FittingSteps(run, wanted);
  TraceRun trace;
  if (steps.last < wanted.last) {
    trace.left_out = absl::StrCat(name, ": steps ", steps.last + 1, " to ", wanted.last);
  }
  for (const auto* members : {&run.workers, &run.servers}) {
    for (const MemberRecord& member : *members) {
      // A server that takes part in a collective has the ranks after the workers'.
      const size_t rank = static_cast<size_t>(&member - members->data()) +
                          (members == &run.servers ? run.workers.size() : 0);
      TraceProcess process = ProcessOf(run, member, rank, steps);
      process.name = absl::StrCat(name, ": ", member.name);
      trace.processes.push_back(std::move(process));
    }
  }
  return trace;
}

// Of each variant and number of workers, in the order of the runs.
std::vector<const RunRecord*> FirstRuns(const std::vector<RunRecord>& runs) {
  std::vector<const RunRecord*> first;
  for (const RunRecord& run : runs) {
    if (run.config.seed() != FirstSeed(run)) continue;
    const auto same = std::find_if(first.begin(), first.end(), [&](const RunRecord* other) {
      return other->config.variant().name() == run.config.variant().name() &&
             other->config.world_size() == run.config.world_size();
    });
    if (same == first.end()) {
      first.push_back(&run);
    } else if (run.config.block() < (*same)->config.block()) {
      *same = &run;
    }
  }
  return first;
}

}  // namespace

std::string TraceToJson(const std::vector<RunRecord>& runs) {
  std::vector<TraceRun> traces;
  for (const RunRecord* run : FirstRuns(runs)) traces.push_back(TraceOf(*run));
  return TracksToJson(std::move(traces));
}

absl::Status WriteTrace(const std::string& path, const std::vector<RunRecord>& runs) {
  return WriteFileAtomically(path, TraceToJson(runs));
}

}  // namespace lockstep
