// status.h: expected failures are absl::Status; each layer adds its context once.
// RETURN_IF_ERROR(Annotate(link.Send(chunk), absl::StrCat("ring, rank ", rank, " -> ", next)));
// Macros of these names exist in newer Abseil releases; Debian 12 has 20220623, which lacks them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

// Puts `context` before the message of a failure: "context: message". OK stays OK.
absl::Status Annotate(const absl::Status& status, const std::string& context);

// A failure that somebody else caused carries who, e.g. {"worker 2"}, through all layers, so that
// the summary can name the one that is missing and not the one that noticed. Replaces earlier
// names.
absl::Status Blame(const absl::Status& status, const std::vector<std::string>& members);
// Empty when nobody is blamed.
std::vector<std::string> BlamedBy(const absl::Status& status);

// The message of errno `error` after `what`, as the status code that fits it.
absl::Status ErrnoStatus(int error, const std::string& what);

}  // namespace lockstep

#define RETURN_IF_ERROR(expression)                                  \
  do {                                                               \
    absl::Status return_if_error_status = (expression);              \
    if (!return_if_error_status.ok()) return return_if_error_status; \
  } while (false)

#define LOCKSTEP_CONCAT_INNER_(a, b) a##b
#define LOCKSTEP_CONCAT_(a, b) LOCKSTEP_CONCAT_INNER_(a, b)
// `target` may declare a variable, so it stands bare.  NOLINTBEGIN(bugprone-macro-parentheses)
#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_INNER_(LOCKSTEP_CONCAT_(status_or_, __LINE__), target, expression)
#define ASSIGN_OR_RETURN_INNER_(holder, target, expression) \
  auto holder = (expression);                               \
  if (!holder.ok()) return holder.status();                 \
  target = *std::move(holder)
// NOLINTEND(bugprone-macro-parentheses)
