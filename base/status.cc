#include "base/status.h"

#include <cerrno>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace lockstep {
namespace {

constexpr char kBlamedUrl[] = "lockstep/blamed";

}  // namespace

absl::Status Annotate(const absl::Status& status, const std::string& context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

absl::Status Blame(const absl::Status& status, const std::vector<std::string>& members) {
  absl::Status blaming = status;
  if (!status.ok()) blaming.SetPayload(kBlamedUrl, absl::Cord(absl::StrJoin(members, ",")));
  return blaming;
}

std::vector<std::string> BlamedBy(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kBlamedUrl);
  if (!payload.has_value()) return {};
  std::string names;
  absl::CopyCordToString(*payload, &names);
  return absl::StrSplit(names, ',', absl::SkipEmpty());
}

absl::Status ErrnoStatus(int error, const std::string& what) {
  return absl::ErrnoToStatus(error, what);
}

}  // namespace lockstep
