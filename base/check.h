// check.h: a broken invariant dies at once, with file, line and the values that broke it.
// For bugs only: an expected failure is an absl::Status (status.h).
#pragma once

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace lockstep::internal {

// Collects the message and aborts when the full expression ends.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition) {
    message_ << file << ":" << line << ": CHECK failed: " << condition << " ";
  }
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure() {
    std::fprintf(stderr, "%s\n", message_.str().c_str());
    std::abort();
  }
  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

// Makes both arms of the macros' conditional void; & binds looser than << and tighter than ?:.
struct Voidify {
  void operator&(std::ostream&) const {}  // NOLINT(google-runtime-operator)
};

}  // namespace lockstep::internal

// CHECK(offset <= size) << "offset " << offset;
// Open on the right, for << message.  NOLINTBEGIN(bugprone-macro-parentheses)
#define CHECK(condition)                          \
  (condition) ? static_cast<void>(0)              \
              : ::lockstep::internal::Voidify() & \
                    ::lockstep::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()
#define CHECK_BINARY_(a, op, b)                                                                \
  ((a)op(b))                                                                                   \
      ? static_cast<void>(0)                                                                   \
      : ::lockstep::internal::Voidify() &                                                      \
            ::lockstep::internal::CheckFailure(__FILE__, __LINE__, #a " " #op " " #b).stream() \
                << "(" << (a) << " vs " << (b) << ") "
// NOLINTEND(bugprone-macro-parentheses)
#define CHECK_EQ(a, b) CHECK_BINARY_(a, ==, b)
#define CHECK_NE(a, b) CHECK_BINARY_(a, !=, b)
#define CHECK_LE(a, b) CHECK_BINARY_(a, <=, b)
#define CHECK_LT(a, b) CHECK_BINARY_(a, <, b)
#define CHECK_GE(a, b) CHECK_BINARY_(a, >=, b)
#define CHECK_GT(a, b) CHECK_BINARY_(a, >, b)
