#include "experiments/bench/rank_program.h"

#include <cstddef>
#include <cstdio>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "experiments/bench/line_channel.h"

namespace lockstep {
namespace {

absl::Status Say(LineChannel* channel, const std::string& line) {
  return channel->Write(line, LineChannel::kNoDeadline);
}

absl::Status Meet(const RankPlace& place, LineChannel* channel, TurnTaker* taker) {
  ASSIGN_OR_RETURN(const std::string address, taker->Address());
  RETURN_IF_ERROR(
      Say(channel, absl::StrCat("hello ", place.rank, " ",
                                address.empty() ? "-" : absl::BytesToHexString(address))));
  ASSIGN_OR_RETURN(const std::string line, channel->Read(LineChannel::kNoDeadline));
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  if (words[0] != "start" || words.size() != static_cast<size_t>(place.ranks) + 1) {
    return absl::InvalidArgumentError(absl::StrCat("expected start, got '", line, "'"));
  }
  std::vector<std::string> addresses;
  for (size_t i = 1; i < words.size(); ++i) {
    addresses.push_back(words[i] == "-" ? "" : absl::HexStringToBytes(words[i]));
  }
  ASSIGN_OR_RETURN(const std::string about, taker->Connect(addresses));
  return Say(channel, absl::StrCat("ready ", about));
}

// Until the launcher closes the channel.
absl::Status TakeTurns(LineChannel* channel, TurnTaker* taker) {
  while (true) {
    absl::StatusOr<std::string> line = channel->Read(LineChannel::kNoDeadline);
    if (absl::IsUnavailable(line.status())) return absl::OkStatus();
    RETURN_IF_ERROR(line.status());
    ASSIGN_OR_RETURN(const Turn turn, ParseTurn(*line));
    ASSIGN_OR_RETURN(const TurnReport report, taker->Run(turn));
    RETURN_IF_ERROR(Say(channel, ToLine(report)));
  }
}

}  // namespace

int RunRank(const RankPlace& place, const MakeTurnTaker& make) {
  const MonotonicClock clock;
  const Abort abort;
  absl::StatusOr<UniqueFd> fd = ConnectTo(place.control);
  if (!fd.ok()) {
    std::fprintf(stderr, "%s: %s\n", place.program.c_str(), fd.status().ToString().c_str());
    return kExitInternal;
  }
  LineChannel channel(*std::move(fd), clock, abort);
  const auto run = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<TurnTaker> taker, make(clock, abort));
    RETURN_IF_ERROR(Meet(place, &channel, taker.get()));
    return TakeTurns(&channel, taker.get());
  };
  const absl::Status status = run();
  if (status.ok()) return kExitOk;
  std::fprintf(stderr, "%s: rank %d: %s\n", place.program.c_str(), place.rank,
               status.ToString().c_str());
  // The launcher may be gone; the exit code tells it then.
  channel.Write(ToLine(status), clock.NowNs() + kNsPerSecond).IgnoreError();
  return ExitCodeFor(status);
}

absl::StatusOr<std::vector<int64_t>> TimeEach(const Clock& clock, int operations,
                                              const std::function<absl::Status()>& body) {
  std::vector<int64_t> times_ns;
  times_ns.reserve(static_cast<size_t>(operations));
  int64_t last_ns = clock.NowNs();
  for (int i = 0; i < operations; ++i) {
    RETURN_IF_ERROR(body());
    const int64_t now_ns = clock.NowNs();
    times_ns.push_back(now_ns - last_ns);
    last_ns = now_ns;
  }
  return times_ns;
}

}  // namespace lockstep
