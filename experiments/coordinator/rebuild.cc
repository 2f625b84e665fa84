#include "experiments/coordinator/rebuild.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace lockstep {

void ExplainEnd(const MemberId& member, const std::string& how, std::vector<Failure>* failures) {
  for (Failure& failure : *failures) {
    absl::string_view rest = failure.status.message();  // more may follow: why nothing was rebuilt
    if (!(failure.member == member) || !absl::ConsumePrefix(&rest, kStreamBroke)) continue;
    failure.status = absl::UnavailableError(absl::StrCat(how, rest));
  }
}

void Rebuild::Explain(const MemberId& member, const std::string& how) {
  ExplainEnd(member, how, &causes_);
}

bool Rebuild::none_lost() const {
  const bool lost = std::any_of(causes_.begin(), causes_.end(),
                                [](const Failure& cause) { return !cause.consequence; });
  return !lost && !(joined_.empty() && left_.empty());
}

bool Rebuild::Unexplained() const {
  return std::any_of(causes_.begin(), causes_.end(),
                     [](const Failure& cause) { return cause.status.message() == kStreamBroke; });
}

std::string Rebuild::Cause() const {
  std::vector<std::string> lost;
  for (const Failure& cause : causes_) {
    if (cause.consequence) continue;
    lost.push_back(absl::StrCat(cause.member.ToString(), " is lost (",
                                absl::StripPrefix(cause.status.message(), "was lost: "), ")"));
  }
  if (!lost.empty()) return absl::StrJoin(lost, ", ");
  std::vector<std::string> changes;
  for (const auto& [member, what] : left_) {
    changes.push_back(absl::StrCat(member.ToString(), " ", what));
  }
  for (const MemberId& member : joined_) {
    changes.push_back(absl::StrCat(member.ToString(), " joins"));
  }
  // The reports only say that they were asked to leave.
  if (!changes.empty()) return absl::StrJoin(changes, ", ");
  const Failure& first = causes_.front();
  return absl::StrCat("the group broke, ", first.member.ToString(),
                      " says: ", first.status.message());
}

std::vector<Failure> Rebuild::GiveUp(const std::vector<MemberId>& declared,
                                     const std::string& why) const {
  std::vector<Failure> failures = causes_;
  if (failures.empty()) {
    const bool joined = !joined_.empty();
    failures.push_back({.member = joined ? joined_.front() : left_.front().first,
                        .status = absl::UnavailableError(joined ? "joined" : "left as planned"),
                        .consequence = true});
  }
  PutFirstCauseFirst(declared, &failures);
  Failure& first = failures.front();
  first.consequence = false;  // whatever fails from here on comes of this end
  first.status = absl::Status(first.status.code(),
                              absl::StrCat(first.status.message(), "; not rebuilt: ", why));
  return failures;
}

}  // namespace lockstep
