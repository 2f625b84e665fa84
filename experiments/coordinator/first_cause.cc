#include "experiments/coordinator/first_cause.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace lockstep {

std::string MemberId::ToString() const {
  if (*this == kMpirun) return "mpirun";
  return absl::StrCat(role == WORKER ? "worker " : "server ", index);
}

void PutFirstCauseFirst(const std::vector<MemberId>& declared, std::vector<Failure>* failures) {
  std::stable_sort(failures->begin(), failures->end(), [](const Failure& a, const Failure& b) {
    return a.consequence < b.consequence;
  });
  const Failure noticed = failures->front();
  if (!noticed.consequence || noticed.blamed.empty()) return;
  const auto cause = std::find_if(declared.begin(), declared.end(), [&](const MemberId& id) {
    return id.ToString() == noticed.blamed.front();
  });
  if (cause == declared.end()) return;
  const std::string message = absl::StrCat("did not answer; ", noticed.member.ToString(),
                                           " says: ", noticed.status.message());
  failures->insert(failures->begin(), {.member = *cause,
                                       .status = absl::Status(noticed.status.code(), message),
                                       .step = noticed.step,
                                       .lost = true});
}

}  // namespace lockstep
