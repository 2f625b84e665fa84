// shm_link.h: the link over shared memory that shm.h has set up: rings for messages, a window for
// collectives in place, and the control connections. Errors, threads: as link.h says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allreduce/transport/link.h"
#include "allreduce/transport/shm_connection.h"
#include "allreduce/transport/shm_layout.h"
#include "allreduce/transport/shm_peers.h"
#include "allreduce/transport/shm_window.h"
#include "allreduce/transport/tcp_controls.h"

namespace lockstep {

// Memory of all ranks, mapped: [rank].
struct ShmGroupMemory {
  ShmLayout layout;
  std::vector<UniqueFd> files;
  std::vector<SharedMapping> mappings;
  MapFunction map;
};

class ShmLink final : public Link {
 public:
  struct Options {
    int rank = 0;
    int64_t epoch = 0;
    int64_t message_bytes_max = 0;
  };
  // `clock` and `abort` must outlive the link.
  ShmLink(const Options& options, ShmGroupMemory memory, TcpControls controls, const Clock& clock,
          const Abort& abort);
  ~ShmLink() override;

  int rank() const override { return options_.rank; }
  int world_size() const override { return peers_.world_size(); }
  int channels() const override { return layout_.channels; }
  int64_t epoch() const override { return options_.epoch; }
  std::string name() const override { return "shm"; }
  const std::vector<PeerState>& peers() const override { return peers_.controls().peers(); }
  absl::Status abort_status() const override { return peers_.abort().status(); }
  Traffic traffic() const override { return traffic_; }
  SharedWindow* window() override { return &window_; }

  void PostSend(SendRequest* request) override;
  void PostRecv(RecvRequest* request) override;
  absl::Status Progress(int64_t deadline_ns) override;
  void Cancel() override;
  void SendReport(std::span<const std::byte> report) override;
  absl::Status AwaitReports(int64_t deadline_ns) override {
    return peers_.controls().AwaitReports(deadline_ns);
  }

 private:
  void Connect(int peer, int channel);
  ShmConnection& To(int peer, uint16_t channel);
  absl::Status MoveData(ShmMoved* moved);
  bool Wants(int peer) const;
  absl::Status Pending() const;

  const Options options_;
  const ShmLayout layout_;
  const std::vector<SharedMapping> mappings_;  // [rank]: bell, rings and first area
  ShmPeers peers_;
  std::vector<ShmConnection> connections_;  // all peers, all channels
  Traffic traffic_;
  ShmWindow window_;
  bool cancelled_ = false;
};

}  // namespace lockstep
