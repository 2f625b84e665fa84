#include "tests/experiments/analyse/trace_check.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::testing_trace {
namespace {

using Fields = google::protobuf::Map<std::string, google::protobuf::Value>;
using Track = std::pair<int, int>;               // (pid, tid)
using Message = std::tuple<int, int, int, int>;  // (sender, receiver, channel, sequence)

constexpr double kSlackUs = 1e-6;  // doubles of nanoseconds

struct Span {
  double start_us = 0;
  double end_us = 0;
  std::string name;
};

double Number(const Fields& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found == fields.end() ? 0 : found->second.number_value();
}
std::string Text(const Fields& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second.string_value();
}

class Checker {
 public:
  void Take(const Fields& event) {
    const std::string phase = Text(event, "ph");
    const Track track = {static_cast<int>(Number(event, "pid")),
                         static_cast<int>(Number(event, "tid"))};
    if (phase == "M") {
      TakeName(track, event);
    } else if (phase == "X") {
      TakeSlice(track, event);
    } else if (phase == "s") {
      starts_[static_cast<int>(Number(event, "id"))] = Number(event, "ts");
    } else if (phase == "f") {
      ends_[static_cast<int>(Number(event, "id"))] = Number(event, "ts");
    } else {
      problems_.push_back(absl::StrCat("unknown phase ", phase));
    }
  }

  absl::StatusOr<TraceFacts> Finish() {
    for (auto& [track, spans] : slices_) {
      if (!threads_.contains(track)) {
        problems_.push_back(absl::StrCat("track ", track.first, "/", track.second, " has no name"));
      }
      CheckNesting(&spans);
    }
    for (const auto& [id, start_us] : starts_) {
      if (!ends_.contains(id)) problems_.push_back(absl::StrCat("arrow ", id, " has no end"));
    }
    for (const auto& [id, end_us] : ends_) {
      const auto start = starts_.find(id);
      if (start == starts_.end() || start->second > end_us + kSlackUs) {
        problems_.push_back(absl::StrCat("arrow ", id, " goes back in time"));
      }
    }
    for (const auto& [message, receive] : receives_) {
      const auto send = sends_.find(message);
      if (send == sends_.end()) continue;
      ++facts_.pairs;
      if (receive.end_us < send->second.start_us - kSlackUs) {
        problems_.push_back(absl::StrCat(receive.name, " ends before its send starts"));
      }
    }
    facts_.arrows = static_cast<int>(ends_.size());
    for (const auto& [track, name] : threads_) {
      facts_.threads.push_back(absl::StrCat(processes_[track.first], " / ", name));
    }
    for (const auto& [pid, name] : processes_) facts_.processes.push_back(name);
    if (problems_.empty()) return facts_;
    return absl::InvalidArgumentError(absl::StrJoin(problems_, "; "));
  }

 private:
  void TakeName(const Track& track, const Fields& event) {
    const auto& args = event.at("args").struct_value().fields();
    if (Text(event, "name") == "process_name") processes_[track.first] = Text(args, "name");
    if (Text(event, "name") == "thread_name") threads_[track] = Text(args, "name");
  }

  void TakeSlice(const Track& track, const Fields& event) {
    Span span{Number(event, "ts"), Number(event, "ts") + Number(event, "dur"), Text(event, "name")};
    if (Number(event, "dur") < 0 || span.start_us < 0) {
      problems_.push_back(absl::StrCat(span.name, " has no time"));
    }
    facts_.first_us = facts_.slices == 0 ? span.start_us : std::min(facts_.first_us, span.start_us);
    ++facts_.slices;
    slices_[track].push_back(span);
    const auto& args = event.at("args").struct_value().fields();
    if (!args.contains("sequence")) return;
    // Ranks and channels start anew with every variant, which is what a process name begins with.
    const std::string& process = processes_[track.first];
    const std::pair<std::string, Message> key = {
        process.substr(0, process.find(':')),
        {static_cast<int>(Number(args, "sender")), static_cast<int>(Number(args, "receiver")),
         static_cast<int>(Number(args, "channel")), static_cast<int>(Number(args, "sequence"))}};
    (span.name.rfind("send", 0) == 0 ? sends_ : receives_)[key] = span;
  }

  void CheckNesting(std::vector<Span>* spans) {
    std::stable_sort(spans->begin(), spans->end(), [](const Span& a, const Span& b) {
      return std::pair(a.start_us, -a.end_us) < std::pair(b.start_us, -b.end_us);
    });
    std::vector<Span> open;
    for (const Span& span : *spans) {
      while (!open.empty() && open.back().end_us <= span.start_us + kSlackUs) open.pop_back();
      if (!open.empty() && span.end_us > open.back().end_us + kSlackUs) {
        problems_.push_back(absl::StrCat(span.name, " overlaps ", open.back().name));
      }
      open.push_back(span);
    }
  }

  TraceFacts facts_;
  std::vector<std::string> problems_;
  std::map<int, std::string> processes_;
  std::map<Track, std::string> threads_;
  std::map<Track, std::vector<Span>> slices_;
  std::map<int, double> starts_;
  std::map<int, double> ends_;
  std::map<std::pair<std::string, Message>, Span> sends_;
  std::map<std::pair<std::string, Message>, Span> receives_;
};

}  // namespace

absl::StatusOr<TraceFacts> CheckTrace(const std::string& json) {
  google::protobuf::Struct trace;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &trace);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("not JSON: ", parsed.ToString()));
  }
  Checker checker;
  for (const auto& event : trace.fields().at("traceEvents").list_value().values()) {
    checker.Take(event.struct_value().fields());
  }
  return checker.Finish();
}

}  // namespace lockstep::testing_trace
