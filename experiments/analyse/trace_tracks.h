// trace_tracks.h: slices of time on tracks, as Chrome trace JSON (opens in Perfetto).
// Slices of one track must nest, or viewers lay them out at random: top-level slices that overlap
// are spread over as many lanes ("messages", "messages (2)") as it takes, and parts are cut to
// their slice. Times go out in us with three decimals, so no rounding makes an overlap. Pure.
// Format: Trace Event Format (complete, flow and metadata events of the JSON object form).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {

// (sender, receiver, channel, sequence) of a message, within one run.
using MessageKey = std::tuple<int, int, int, int64_t>;

struct TracePart {
  std::string name;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

struct TraceSlice {
  enum class End { kNone, kSend, kReceive };  // of a message

  std::string name;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::vector<std::pair<std::string, int64_t>> args = {};
  std::vector<TracePart> parts = {};  // of it, in order of time
  End end = End::kNone;
  MessageKey message = {};
};

struct TraceTrack {
  std::string name;
  std::vector<TraceSlice> slices;
};

struct TraceProcess {
  std::string name;  // "ring: worker 0"
  std::vector<TraceTrack> tracks;
};

// Everything that shares one zero of time and one set of messages.
struct TraceRun {
  std::vector<TraceProcess> processes;
  std::string left_out = {};  // what the bound cut off; empty: nothing
};

// An arrow leads from each send to its receive, where both are here. Slices that end before they
// start are left out.
std::string TracksToJson(std::vector<TraceRun> runs);

}  // namespace lockstep
