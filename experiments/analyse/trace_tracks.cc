#include "experiments/analyse/trace_tracks.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace lockstep {
namespace {

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return quoted + '"';
}

std::string Microseconds(int64_t ns) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%lld.%03lld", static_cast<long long>(ns / 1'000),
                static_cast<long long>(ns % 1'000));
  return buffer;
}

// Cut to the slice, one after the other; a part that lies outside of it goes.
void CutParts(TraceSlice* slice) {
  int64_t free_ns = slice->start_ns;
  std::vector<TracePart> parts;
  for (TracePart& part : slice->parts) {
    part.start_ns = std::max(part.start_ns, free_ns);
    part.end_ns = std::min(part.end_ns, slice->end_ns);
    if (part.end_ns <= part.start_ns) continue;
    free_ns = part.end_ns;
    parts.push_back(std::move(part));
  }
  slice->parts = std::move(parts);
}

// Each slice on the first lane that is free when it starts.
std::vector<std::vector<TraceSlice>> ToLanes(std::vector<TraceSlice> slices) {
  std::stable_sort(slices.begin(), slices.end(), [](const TraceSlice& a, const TraceSlice& b) {
    return a.start_ns < b.start_ns;
  });
  std::vector<std::vector<TraceSlice>> lanes;
  for (TraceSlice& slice : slices) {
    if (slice.end_ns < slice.start_ns) continue;
    CutParts(&slice);
    const auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const auto& taken) {
      return taken.back().end_ns <= slice.start_ns;
    });
    if (lane == lanes.end()) {
      lanes.emplace_back();
      lanes.back().push_back(std::move(slice));
    } else {
      lane->push_back(std::move(slice));
    }
  }
  return lanes;
}

int64_t ZeroOf(const TraceRun& run) {
  int64_t zero_ns = INT64_MAX;
  for (const TraceProcess& process : run.processes) {
    for (const TraceTrack& track : process.tracks) {
      for (const TraceSlice& slice : track.slices) zero_ns = std::min(zero_ns, slice.start_ns);
    }
  }
  return zero_ns;
}

class JsonWriter {
 public:
  void Add(TraceRun* run) {
    zero_ns_ = ZeroOf(*run);
    sends_.clear();
    receives_.clear();
    for (TraceProcess& process : run->processes) {
      ++pid_;
      Metadata("process_name", "name", Quoted(process.name));
      Metadata("process_sort_index", "sort_index", absl::StrCat(pid_));
      tid_ = 0;
      for (TraceTrack& track : process.tracks) AddTrack(&track);
    }
    AddArrows();
    if (!run->left_out.empty()) left_out_.push_back(run->left_out);
  }

  std::string Json() const {
    return absl::StrCat("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"left_out\":",
                        Quoted(absl::StrJoin(left_out_, "; ")), "},\"traceEvents\":[\n",
                        absl::StrJoin(events_, ",\n"), "\n]}\n");
  }

 private:
  struct Place {
    int pid = 0;
    int tid = 0;
    int64_t start_ns = 0;
    int64_t end_ns = 0;
  };

  void AddTrack(TraceTrack* track) {
    int number = 0;
    for (const std::vector<TraceSlice>& lane : ToLanes(std::move(track->slices))) {
      ++tid_;
      ++number;
      Metadata("thread_name", "name",
               Quoted(number == 1 ? track->name : absl::StrCat(track->name, " (", number, ")")));
      Metadata("thread_sort_index", "sort_index", absl::StrCat(tid_));
      int64_t free_ns = INT64_MIN;
      for (const TraceSlice& slice : lane) {
        CHECK_GE(slice.start_ns, free_ns) << track->name << ": slices of a lane must not overlap";
        free_ns = slice.end_ns;
        AddSlice(slice);
      }
    }
  }

  void AddSlice(const TraceSlice& slice) {
    std::vector<std::string> args;
    args.reserve(slice.args.size());
    for (const auto& [name, value] : slice.args) {
      args.push_back(absl::StrCat(Quoted(name), ":", value));
    }
    const Place place{pid_, tid_, slice.start_ns, slice.end_ns};
    AddSpan(place, slice.name, absl::StrJoin(args, ","));
    int64_t free_ns = slice.start_ns;
    for (const TracePart& part : slice.parts) {
      CHECK(part.start_ns >= free_ns && part.end_ns <= slice.end_ns)
          << slice.name << ": " << part.name << " must nest";
      free_ns = part.end_ns;
      AddSpan({pid_, tid_, part.start_ns, part.end_ns}, part.name, "");
    }
    if (slice.end == TraceSlice::End::kSend) sends_[slice.message] = place;
    if (slice.end == TraceSlice::End::kReceive) receives_[slice.message] = place;
  }

  void AddSpan(const Place& place, const std::string& name, const std::string& args) {
    events_.push_back(absl::StrCat("{\"ph\":\"X\",", Where(place),
                                   ",\"dur\":", Microseconds(place.end_ns - place.start_ns),
                                   ",\"name\":", Quoted(name), ",\"args\":{", args, "}}"));
  }

  // An arrow binds to the slice around its end, so it ends within the receive, and never before it
  // began.
  void AddArrows() {
    for (const auto& [message, send] : sends_) {
      const auto receive = receives_.find(message);
      if (receive == receives_.end()) continue;
      Place end = receive->second;
      end.start_ns = std::max(end.start_ns, send.start_ns);
      if (end.start_ns > end.end_ns) continue;
      const std::string id =
          absl::StrCat(",\"cat\":\"message\",\"name\":\"message\",\"id\":", ++arrow_);
      events_.push_back(absl::StrCat("{\"ph\":\"s\",", Where(send), id, "}"));
      events_.push_back(absl::StrCat("{\"ph\":\"f\",\"bp\":\"e\",", Where(end), id, "}"));
    }
  }

  std::string Where(const Place& place) const {
    return absl::StrCat("\"pid\":", place.pid, ",\"tid\":", place.tid,
                        ",\"ts\":", Microseconds(place.start_ns - zero_ns_));
  }

  void Metadata(const std::string& what, const std::string& key, const std::string& value) {
    events_.push_back(absl::StrCat("{\"ph\":\"M\",\"pid\":", pid_, ",\"tid\":", tid_, ",\"name\":",
                                   Quoted(what), ",\"args\":{", Quoted(key), ":", value, "}}"));
  }

  std::vector<std::string> events_;
  std::vector<std::string> left_out_;
  std::map<MessageKey, Place> sends_;
  std::map<MessageKey, Place> receives_;
  int64_t zero_ns_ = 0;
  int pid_ = 0;
  int tid_ = 0;
  int arrow_ = 0;
};

}  // namespace

std::string TracksToJson(std::vector<TraceRun> runs) {
  JsonWriter writer;
  for (TraceRun& run : runs) writer.Add(&run);
  return writer.Json();
}

}  // namespace lockstep
