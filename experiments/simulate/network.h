// network.h: the simulated network: streams between processes on hosts, as gRPC over TCP gives
// them. What is sent takes the sender's outgoing port at once if that is free, and `latency` later
// the receiver's incoming port, each for overhead + bytes x beta: the port model of the schedule
// simulator (base/port.h, allreduce/schedule/timed_machine.h). A stream delivers in order, once, or
// breaks; different streams overtake each other. Faults: a direction between two hosts is cut (what
// is under way waits and goes on when it heals; a stream that stood still for `stream_timeout`
// breaks at both ends), slowed, its ports clogged; data streams alone may be affected, so that
// signs of life go on (gray failure); a stream breaks, as after a lost packet that nobody resends.
// A process that dies closes its streams; a host that is gone says nothing, so peers learn of it by
// the timeout. A sender may have `window` messages under way on a stream, as flow control gives it.
// One thread. Units: nanoseconds of true time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/event_queue.h"
#include "base/numeric/random.h"
#include "base/port.h"

namespace lockstep {

using SimQueue = EventQueue<std::function<void()>>;

// As CostModel of the schedule simulator, whose additions are the processes' business here.
struct SimLinkCost {
  double latency_ns = 0;        // the port is free meanwhile
  double overhead_ns = 0;       // of a message: the port is busy
  double beta_ns_per_byte = 0;  // per direction
};
struct SimNetworkOptions {
  SimLinkCost cost = {};
  double jitter_ns = 0;  // at most so much is added to each message's latency
  double stream_timeout_ns = 1e9;
  int window = 8;
};

class SimNetwork {
 public:
  enum class What : uint8_t { kOpened, kMessage, kClosed };
  struct Arrival {
    What what = What::kMessage;
    int64_t stream = 0;
    int64_t process = 0;  // for whom
    std::string bytes;    // kMessage
  };

  // `arrive` hands an arrival to its process. The queue must outlive the network.
  SimNetwork(const SimNetworkOptions& options, uint64_t seed, SimQueue* queue,
             std::function<void(Arrival)> arrive);

  void Place(int64_t process, int32_t host);
  // One whose port is not like the others'.
  void SetCost(int32_t host, double in_beta_ns_per_byte, double out_beta_ns_per_byte);

  // A stream to `to`, which may be used at once. If nobody is there it is closed.
  int64_t Open(int64_t from, int64_t to, bool data);
  // False: there is no room; a later call of Took makes some.
  bool HasRoom(int64_t stream, int64_t from) const;
  void Send(int64_t stream, int64_t from, std::string bytes);
  // What was sent before still arrives.
  void Close(int64_t stream, int64_t by);
  // `by` has handled a message: whoever sent it has room for another one. Returns the sender.
  int64_t Took(int64_t stream, int64_t by);
  bool IsOpen(int64_t stream, int64_t at) const;

  // All streams of `process` end. `silent`: with its host, and nobody says so.
  void Die(int64_t process, bool silent);

  // Until `until_ns` nothing gets from host `from` to host `to` (data: on data streams alone).
  void Cut(int32_t from, int32_t to, bool data_only, double until_ns);
  struct Lateness {
    double by_ns = 0;
    bool random = false;  // each message by its own share of it, so that streams overtake
  };
  // Each message from one to the other takes so much longer until then.
  void Slow(int32_t from, int32_t to, bool data_only, const Lateness& lateness, double until_ns);
  // Both ports of `host` are busy with the traffic of others.
  void Clog(int32_t host, double for_ns);
  std::vector<int32_t> hosts() const;
  // The newest stream between the two hosts breaks at both ends. False: there is none.
  bool Break(int32_t a, int32_t b);

  int64_t sent_bytes() const { return sent_bytes_; }
  int64_t messages() const { return messages_; }

 private:
  struct Host {
    Port in;
    Port out;
    double in_beta = 0;
    double out_beta = 0;
  };
  struct Parcel {
    What what = What::kMessage;
    std::string bytes;
  };
  struct Lane {  // one direction of a stream
    int64_t from = 0;
    int64_t to = 0;
    bool open = true;         // at its receiver
    int under_way = 0;        // sent and not taken
    double last_at_port = 0;  // when the newest message reaches the receiver's port
    double last_here = 0;     // when the newest one is there
    std::deque<Parcel> held;  // at a cut
    bool watched = false;     // somebody looks whether it stands still for too long
    int64_t moved = 0;        // messages that came through
  };
  struct Stream {
    bool data = false;
    Lane lanes[2];
  };
  struct Hindrance {
    int32_t from = 0;
    int32_t to = 0;
    bool data_only = false;
    bool cut = false;
    Lateness lateness = {};
    double until_ns = 0;
  };

  int32_t HostOf(int64_t process) const;
  static int Direction(const Stream& stream, int64_t from) {
    return stream.lanes[0].from == from ? 0 : 1;
  }
  void Ship(int64_t stream, int lane, Parcel parcel);
  void AtPort(int64_t stream, int lane, Parcel parcel);
  void Enter(int64_t stream, int lane, Parcel parcel);
  void Here(int64_t stream, int lane, Parcel parcel);
  void Watch(int64_t stream, int lane);
  void BreakStream(int64_t stream);
  bool IsCut(int64_t stream, int lane) const;
  double SlowedNs(int64_t stream, int lane);
  bool Applies(const Hindrance& hindrance, int64_t stream, int lane) const;
  void Heal();
  bool Gone(int64_t process) const;

  const SimNetworkOptions options_;
  SimQueue& queue_;
  const std::function<void(Arrival)> arrive_;
  Random random_;
  std::map<int32_t, Host> hosts_;
  std::map<int64_t, int32_t> host_of_;  // process
  std::map<int64_t, bool> dead_;        // process -> silent
  std::map<int64_t, Stream> streams_;   // until both ends are closed
  std::vector<Hindrance> hindrances_;
  int64_t next_stream_ = 1;
  int64_t sent_bytes_ = 0;
  int64_t messages_ = 0;
};

}  // namespace lockstep
