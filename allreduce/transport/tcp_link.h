// tcp_link.h: the link over an established mesh (tcp.h makes it): one control and `channels` data
// connections to every peer. Errors, threads: as link.h says.
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

#include "allreduce/transport/link.h"
#include "allreduce/transport/tcp.h"
#include "allreduce/transport/tcp_connection.h"
#include "allreduce/transport/tcp_controls.h"

namespace lockstep {

// Proven connections to one peer; all invalid for the rank itself.
struct TcpPeerSockets {
  UniqueFd control;
  std::vector<UniqueFd> data;  // [channel]
};

// Moves the control connections out: [rank].
std::vector<UniqueFd> TakeControls(std::vector<TcpPeerSockets>* sockets);

// The proven connections of ConnectTcpMesh, [rank], with so many data connections per pair: none
// where data goes another way (shm.h). Errors: its own.
absl::StatusOr<std::vector<TcpPeerSockets>> ConnectTcpSockets(Listener listener, TcpGroup group,
                                                              int data_channels,
                                                              const Limits& limits,
                                                              const Clock& clock,
                                                              const Abort& abort);

class TcpLink final : public Link {
 public:
  // `sockets` is [rank]. `clock` and `abort` must outlive the link.
  TcpLink(const TcpGroup& group, std::vector<TcpPeerSockets> sockets, const Limits& limits,
          const Clock& clock, const Abort& abort);
  ~TcpLink() override;

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(peers().size()); }
  int channels() const override { return channels_; }
  int64_t epoch() const override { return epoch_; }
  std::string name() const override { return "tcp"; }
  const std::vector<PeerState>& peers() const override { return controls_.peers(); }
  absl::Status abort_status() const override { return abort_.status(); }
  Traffic traffic() const override { return traffic_; }

  void PostSend(SendRequest* request) override;
  void PostRecv(RecvRequest* request) override;
  absl::Status Progress(int64_t deadline_ns) override;
  void Cancel() override;
  void SendReport(std::span<const std::byte> report) override { controls_.SendReport(report); }
  absl::Status AwaitReports(int64_t deadline_ns) override {
    return controls_.AwaitReports(deadline_ns);
  }

 private:
  TcpConnection& To(int peer, uint16_t channel);
  absl::Status MoveData(bool* completed);
  absl::Status Pending() const;
  // Sleeps until something may have changed; *news: on a control connection.
  absl::Status Wait(int64_t deadline_ns, bool* news);

  const int rank_;
  const int channels_;
  const int64_t epoch_;
  const Clock& clock_;
  const Abort& abort_;
  std::vector<TcpConnection> connections_;  // all peers, all channels
  std::vector<size_t> first_;               // [peer]: index of its channel 0 in connections_
  TcpControls controls_;
  std::vector<pollfd> poll_;  // kept, so that a wait allocates nothing
  Traffic traffic_;
  bool cancelled_ = false;
};

}  // namespace lockstep
