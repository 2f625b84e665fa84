#include "experiments/cli/listen.h"

#include <netdb.h>

#include <algorithm>
#include <csignal>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr time_t kResolveSeconds = 1;
constexpr long kResolveNanoseconds = 500'000'000;  // NOLINT(google-runtime-int): timespec's type

// What Listen will ask the resolver again, but with a deadline: a dead name server answers only
// after many seconds, and getaddrinfo can't be told to give up.
absl::Status Resolves(const Endpoint& endpoint) {
  struct Lookup {
    std::string host;
    gaicb request = {};
  };
  auto lookup = std::make_unique<Lookup>(Lookup{.host = endpoint.host});
  lookup->request.ar_name = lookup->host.c_str();
  gaicb* request = &lookup->request;
  sigevent quiet = {};
  quiet.sigev_notify = SIGEV_NONE;
  int error = getaddrinfo_a(GAI_NOWAIT, &request, 1, &quiet);
  if (error == 0) {
    const timespec timeout = {.tv_sec = kResolveSeconds, .tv_nsec = kResolveNanoseconds};
    const gaicb* const waited = request;
    gai_suspend(&waited, 1, &timeout);
    error = gai_error(request);
  }
  if (error == EAI_INPROGRESS) {
    // The resolver's thread still writes to it; this process ends soon.
    static_cast<void>(lookup.release());
    return absl::NotFoundError(
        absl::StrCat("host of ", endpoint.ToString(), " does not resolve: no answer within 1.5 s"));
  }
  if (request->ar_result != nullptr) freeaddrinfo(request->ar_result);
  if (error == 0) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("host of ", endpoint.ToString(), " does not resolve: ", gai_strerror(error)));
}

}  // namespace

absl::StatusOr<Endpoint> ParseListen(const std::string& text) {
  const auto colons = std::count(text.begin(), text.end(), ':');
  const bool bracketed = !text.empty() && text.front() == '[' && text.back() == ']';
  const bool only_host =
      !text.empty() && (bracketed || colons == 0 || (colons > 1 && text[0] != '['));
  const std::string host = bracketed ? text.substr(1, text.size() - 2) : text;
  Endpoint endpoint{host, 0};
  if (!only_host || host.empty()) {
    const absl::StatusOr<Endpoint> parsed = ParseEndpoint(text);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--listen '", text,
                       "' is not HOST or HOST:PORT; write 127.0.0.1, 127.0.0.1:7000 or "
                       "[::1]:7000"));
    }
    endpoint = *parsed;
  }
  if (endpoint.host == "0.0.0.0" || endpoint.host == "::") {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", text,
                     " stands for every address of this host, but the members are told one to "
                     "connect to; name it"));
  }
  return endpoint;
}

absl::Status CheckListen(const Endpoint& endpoint) {
  RETURN_IF_ERROR(Annotate(Resolves(endpoint), "--listen"));
  return Annotate(Listen(endpoint).status(), "--listen");
}

}  // namespace lockstep
