// server.h: a simulated parameter server: the real exchange (ps_server/service/exchange.h), which
// hosts the real copies of shards, over simulated streams, and the way through epochs that
// ps_server/service/main.cc has. Frames travel as the bytes that gRPC would carry. Snapshots go to
// the simulated disk (disk.h) beside training, which goes on when one can't be written.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/simulate/disk.h"
#include "experiments/simulate/member.h"
#include "ps_server/core/crash_point.h"
#include "ps_server/core/shard_state.h"
#include "ps_server/service/exchange.h"

namespace lockstep {

struct SimServerOptions {
  SimMemberOptions member;
  CrashHook crash = {};  // throws SimCrash where this server is to die
};

struct SimServerEvents {
  // A call of the exchange is over; its copies may have moved on.
  std::function<void(int64_t process, int64_t epoch, const Exchange& exchange)> moved;
  std::function<void(const UpdateServed& served)> served;
};

class SimServer : public SimMember {
 public:
  // `disk` must outlive it.
  SimServer(const SimContext& self, SimServerOptions options, SimDisk* disk,
            SimServerEvents events);

  int64_t step() const override { return version_; }
  const Exchange& exchange() const { return exchange_; }

 protected:
  // What tests break on purpose.
  virtual ShardState Restored(ShardState state) const { return state; }
  virtual std::string Admitted(int64_t /*stream*/, std::string bytes) { return bytes; }

  virtual void Shipped(int64_t /*stream*/, const PsFrame& /*header*/) {}
  // The exchange has ended this stream. False: it stays open all the same.
  virtual bool HangsUp(int64_t /*stream*/) { return true; }

  void OnGroup() override;
  void OnGo() override {}
  void LeaveGroup(const absl::Status& cause) override;
  void OnFrame(int64_t stream, const std::string& bytes) override;
  void OnOpened(int64_t stream) override;
  void OnRoom(int64_t stream) override;
  void OnStreamClosed(int64_t stream) override;
  void OnOwnTimer(int64_t timer) override;
  absl::Status CheckDeadlines() override;
  std::vector<ShardHeld> held() const override { return held_; }

 private:
  struct Sender {     // of one stream
    int64_t own = 0;  // the exchange's number of it
    std::deque<Outgoing> queue;
    int64_t sent_bytes = 0;  // of the front's payload
  };
  struct Snapshot {
    int64_t step = 0;
    std::shared_ptr<const ShardState> state;
  };

  absl::StatusOr<PsServerConfig> Config();
  PsServerEvents ExchangeEvents();
  void Cut(int64_t step, std::shared_ptr<const ShardState> state);
  void WriteNext();
  void WriteSnapshot(int64_t timer);
  // After each call of the exchange: what it wants sent and dialled, and an onlooker's view.
  void Flush();
  void Perform();
  void Pump(int64_t stream, Sender* sender);
  void Drop(int64_t stream);

  const SimServerOptions server_;
  SimDisk& disk_;
  const SimServerEvents events_;
  Exchange exchange_;
  std::map<int64_t, Sender> senders_;    // by stream of the network
  std::map<int64_t, int64_t> dialled_;   // the exchange's number -> stream
  std::map<int32_t, Snapshot> waiting_;  // by shard
  std::map<int64_t, Snapshot> writing_;  // one at most, by timer
  bool ticks_ = false;
  int64_t next_timer_ = 1;
  std::vector<ShardHeld> held_;
  int64_t version_ = 0;
  int64_t left_ns_ = 0;  // 0: in a group
  absl::Status broken_;  // the exchange gives its group up
};

}  // namespace lockstep
