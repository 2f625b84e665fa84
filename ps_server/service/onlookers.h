// onlookers.h: health and reflection, answered by the thread that does the exchange. gRPC's own
// services bring threads which poll: they take the exchange's events and hand them over, and a push
// of 1 MiB with its pull lasts a third longer. Bounds: kOnlookersMax calls at a time, each at most
// kOnlookerMsMax long, one message of kOnlookerBytesMax at a time; whoever comes later waits.
// Threads: Poll and Shutdown one at a time.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <memory>

#include "base/clock.h"

namespace lockstep {

inline constexpr size_t kOnlookersMax = 16;
inline constexpr int64_t kOnlookerMsMax = 10'000;
inline constexpr size_t kOnlookerBytesMax = size_t{64} << 10;

class Onlookers {
 public:
  // `clock` must outlive it.
  explicit Onlookers(const Clock& clock);
  ~Onlookers();
  // Before the server starts, and after.
  void Register(grpc::ServerBuilder* builder);
  void Start() { AcceptNext(); }
  // Handles what has come, without waiting.
  void Poll();
  // After the server's Shutdown. Nothing is answered any more.
  void Shutdown();

 private:
  struct Call;

  void AcceptNext();
  void On(Call* call, bool ok);
  void OnRead(Call* call);
  void Finish(Call* call, const grpc::Status& status);
  void EndLate();

  const Clock& clock_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::map<Call*, std::unique_ptr<Call>> calls_;  // the one that is awaited among them
  bool accepting_ = false;
  bool stopping_ = false;
};

}  // namespace lockstep
