#include "allreduce/host/failure.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allreduce/host/call_table.h"
#include "allreduce/transport/link.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr size_t kRanksMax = 32;  // of a list in a report; the error stays true without the rest
constexpr size_t kTextMax = 384;

struct WireReport {
  CallDescription call;
  int64_t elapsed_ms = 0;
  int32_t code = 0;
  uint16_t waiting_for = 0;  // ranks in the list
  uint16_t lost = 0;         // likewise
  std::array<uint16_t, kRanksMax> waiting_for_ranks{};
  std::array<uint16_t, kRanksMax> lost_ranks{};
  uint32_t text_bytes = 0;
  uint32_t answers = 0;  // 0 or 1
  std::array<char, kTextMax> text{};
};
static_assert(sizeof(WireReport) <= kReportBytesMax);

uint16_t PutRanks(const std::vector<int>& ranks, std::array<uint16_t, kRanksMax>* list) {
  const size_t used = std::min(ranks.size(), kRanksMax);
  for (size_t i = 0; i < used; ++i) (*list)[i] = static_cast<uint16_t>(ranks[i]);
  return static_cast<uint16_t>(used);
}

bool TakeRanks(const std::array<uint16_t, kRanksMax>& list, size_t used, int world_size,
               std::vector<int>* ranks) {
  if (used > kRanksMax) return false;
  ranks->assign(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(used));
  return std::all_of(ranks->begin(), ranks->end(), [&](int rank) { return rank < world_size; });
}

std::string RankList(const std::vector<int>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

// The pieces of an explanation, from all reports of a view.
class Explanation {
 public:
  explicit Explanation(const FailureView& view) : view_(view) {
    std::set<int> lost;
    for (int rank = 0; rank < world_size(); ++rank) {
      const auto& report = ReportOf(rank);
      if (view.lost[static_cast<size_t>(rank)] != 0) lost.insert(rank);
      if (report.has_value()) lost.insert(report->lost.begin(), report->lost.end());
    }
    FindCause();
    FindElsewhere();
    for (int rank = 0; rank < world_size(); ++rank) {
      if (ReportOf(rank).has_value()) continue;  // who reports isn't lost, whatever others saw
      if (lost.contains(rank)) {
        lost_.push_back(rank);
      } else if (IsExpected(rank)) {
        missing_.push_back(rank);
      }
    }
    CompareCalls();
  }

  absl::Status ToStatus() const {
    const absl::Status status(
        Code(), absl::StrCat(ToString(Own().call), ", rank ", view_.rank, " of ", world_size(),
                             ": failed after ", view_.elapsed_ms, " ms (limits.sync_timeout_ms = ",
                             view_.sync_timeout_ms, "): ", absl::StrJoin(Parts(), "; "),
                             ". No rank has a result; the group is dead, rebuild it",
                             differ_ ? CallTable(view_.reports) : ""));
    return differ_ ? status : Blame(status, Absent());
  }

 private:
  int world_size() const { return static_cast<int>(view_.reports.size()); }
  const std::optional<FailureReport>& ReportOf(int rank) const {
    return view_.reports[static_cast<size_t>(rank)];
  }
  const FailureReport& Own() const { return *ReportOf(view_.rank); }
  bool SameGroup(const FailureReport& report) const {
    return report.call.group == Own().call.group;
  }

  bool IsExpected(int rank) const {
    if (elsewhere_ != kNobody) return IsAwaited(rank);
    return view_.expected.empty() || view_.expected[static_cast<size_t>(rank)] != 0;
  }

  bool IsAwaited(int rank) const {
    return std::any_of(view_.reports.begin(), view_.reports.end(), [&](const auto& report) {
      if (!report.has_value()) return false;
      const std::vector<int>& awaited = report->waiting_for;
      return std::find(awaited.begin(), awaited.end(), rank) != awaited.end();
    });
  }

  std::vector<std::string> Parts() const {
    std::vector<std::string> parts;
    if (elsewhere_ != kNobody) {
      parts.push_back(absl::StrCat("another group over the same link failed first: ",
                                   ToString(ReportOf(elsewhere_)->call), " on rank ", elsewhere_));
    }
    if (differ_) parts.push_back(absl::StrCat("the calls differ: ", Calls()));
    if (!lost_.empty()) parts.push_back(absl::StrCat("lost: ", RankList(lost_)));
    if (!missing_.empty()) parts.push_back(absl::StrCat("missing: ", RankList(missing_)));
    if (!differ_ && lost_.empty() && cause_ != nullptr && !absl::IsDeadlineExceeded(*cause_)) {
      parts.push_back(absl::StrCat(cause_->message()));
    }
    if (parts.empty() && several_groups_) {
      parts.push_back(
          absl::StrCat("ranks wait in calls of different groups: ", Calls(), ": ", Waits()));
    }
    if (parts.empty()) {
      parts.push_back(
          absl::StrCat("every rank made this call, but data did not arrive: ", Waits()));
    }
    return parts;
  }

  // Ranks may be one call apart when a group fails; only calls of one number must be equal. Where
  // the ranks are in different groups and a message did not fit, the calls have met.
  void CompareCalls() {
    for (const auto& a : view_.reports) {
      for (const auto& b : view_.reports) {
        if (!a.has_value() || !b.has_value()) continue;
        if (a->call.group != b->call.group) {
          several_groups_ = true;
        } else if (a->call.sequence == b->call.sequence) {
          differ_ = differ_ || !(a->call == b->call);
        }
      }
    }
    if (several_groups_ && cause_ != nullptr && absl::IsInvalidArgument(*cause_)) differ_ = true;
  }

  static int Weight(const absl::Status& cause) {
    switch (cause.code()) {
      case absl::StatusCode::kOk:
        return 0;
      case absl::StatusCode::kDeadlineExceeded:
        return 1;
      case absl::StatusCode::kUnavailable:
        return 3;
      case absl::StatusCode::kInvalidArgument:
        return 4;
      default:
        return 2;
    }
  }

  void FindCause() {
    for (const auto& report : view_.reports) {
      if (!report.has_value() || report->answers) continue;
      if (cause_ == nullptr || Weight(report->cause) > Weight(*cause_)) cause_ = &report->cause;
    }
  }

  // Nobody in this rank's group has a cause of its own: then it lies in another group, whose
  // members are not known here, and whoever is missing is somebody that some rank waits for.
  void FindElsewhere() {
    if (!Own().answers) return;
    for (int rank = 0; rank < world_size(); ++rank) {
      const auto& report = ReportOf(rank);
      if (!report.has_value() || report->answers) continue;
      if (SameGroup(*report)) {
        elsewhere_ = kNobody;
        return;
      }
      if (elsewhere_ == kNobody) elsewhere_ = rank;
    }
  }

  absl::StatusCode Code() const {
    if (differ_) return absl::StatusCode::kInvalidArgument;
    if (cause_ != nullptr && absl::IsInvalidArgument(*cause_)) return cause_->code();
    if (!lost_.empty()) return absl::StatusCode::kUnavailable;
    return cause_ == nullptr ? absl::StatusCode::kDeadlineExceeded : cause_->code();
  }

  // "rank 2" for each rank that is lost or missing, the lost ones first.
  std::vector<std::string> Absent() const {
    std::vector<std::string> names;
    for (const int rank : lost_) names.push_back(absl::StrCat("rank ", rank));
    for (const int rank : missing_) names.push_back(absl::StrCat("rank ", rank));
    return names;
  }

  // "all_reduce #0 (... count 1 ...) on ranks 0, 2; all_reduce #0 (... count 2 ...) on rank 1"
  std::string Calls() const {
    std::vector<std::string> texts;
    std::set<int> done;
    for (int rank = 0; rank < world_size(); ++rank) {
      if (!ReportOf(rank).has_value() || done.contains(rank)) continue;
      std::vector<int> same;
      for (int other = rank; other < world_size(); ++other) {
        const auto& report = ReportOf(other);
        if (!report.has_value() || !(report->call == ReportOf(rank)->call)) continue;
        same.push_back(other);
        done.insert(other);
      }
      texts.push_back(absl::StrCat(ToString(ReportOf(rank)->call), " on ", RankList(same)));
    }
    return absl::StrJoin(texts, " and ");
  }

  std::string Waits() const {
    std::vector<std::string> texts;
    for (int rank = 0; rank < world_size(); ++rank) {
      const auto& report = ReportOf(rank);
      if (!report.has_value() || report->waiting_for.empty()) continue;
      texts.push_back(absl::StrCat("rank ", rank, " waited ", report->elapsed_ms, " ms for ",
                                   RankList(report->waiting_for)));
    }
    return texts.empty() ? Causes() : absl::StrJoin(texts, ", ");
  }

  // Where nobody waits for a message of ours: what another library's call has said.
  std::string Causes() const {
    std::vector<std::string> texts;
    for (const auto& report : view_.reports) {
      if (!report.has_value() || report->answers) continue;
      const std::string text(report->cause.message());
      if (!text.empty() && std::find(texts.begin(), texts.end(), text) == texts.end()) {
        texts.push_back(text);
      }
    }
    return texts.empty() ? "it was not through in time" : absl::StrJoin(texts, "; ");
  }

  static constexpr int kNobody = -1;

  const FailureView& view_;
  std::vector<int> lost_;
  std::vector<int> missing_;
  bool differ_ = false;
  bool several_groups_ = false;
  const absl::Status* cause_ = nullptr;  // the heaviest that a rank reports of itself
  int elsewhere_ = kNobody;              // the rank whose report has it, if that is another group's
};

}  // namespace

std::string EncodeReport(const FailureReport& report) {
  WireReport wire;
  wire.call = report.call;
  wire.elapsed_ms = report.elapsed_ms;
  wire.code = static_cast<int32_t>(report.cause.code());
  wire.waiting_for = PutRanks(report.waiting_for, &wire.waiting_for_ranks);
  wire.answers = report.answers ? 1 : 0;
  wire.lost = PutRanks(report.lost, &wire.lost_ranks);
  const absl::string_view text = report.cause.message().substr(0, kTextMax);
  wire.text_bytes = static_cast<uint32_t>(text.size());
  std::copy(text.begin(), text.end(), wire.text.begin());
  std::string bytes(sizeof(wire), '\0');
  std::memcpy(bytes.data(), &wire, sizeof(wire));
  return bytes;
}

std::optional<FailureReport> DecodeReport(const std::string& bytes, int world_size) {
  WireReport wire;
  if (bytes.size() != sizeof(wire)) return std::nullopt;
  std::memcpy(&wire, bytes.data(), sizeof(wire));
  FailureReport report;
  if (!TakeRanks(wire.waiting_for_ranks, wire.waiting_for, world_size, &report.waiting_for) ||
      !TakeRanks(wire.lost_ranks, wire.lost, world_size, &report.lost) ||
      wire.text_bytes > kTextMax || wire.code == 0) {
    return std::nullopt;
  }
  report.call = wire.call;
  report.elapsed_ms = wire.elapsed_ms;
  report.answers = wire.answers != 0;
  report.cause = absl::Status(static_cast<absl::StatusCode>(wire.code),
                              absl::string_view(wire.text.data(), wire.text_bytes));
  return report;
}

absl::Status Explain(const FailureView& view) {
  CHECK(view.reports[static_cast<size_t>(view.rank)].has_value()) << "own report first";
  return Explanation(view).ToStatus();
}

}  // namespace lockstep
