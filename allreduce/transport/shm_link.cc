#include "allreduce/transport/shm_link.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

std::vector<ShmBell*> Bells(const std::vector<SharedMapping>& mappings) {
  std::vector<ShmBell*> bells;
  bells.reserve(mappings.size());
  for (const SharedMapping& mapping : mappings) {
    bells.push_back(reinterpret_cast<ShmBell*>(mapping.get()));
  }
  return bells;
}

SharedWindow::Area FirstArea(const ShmLayout& layout, const std::vector<SharedMapping>& mappings) {
  SharedWindow::Area area;
  area.bytes = kFirstAreaBytes;
  for (const SharedMapping& mapping : mappings) {
    area.bases.push_back(mapping.get() + layout.WindowOffset());
  }
  return area;
}

}  // namespace

ShmLink::ShmLink(const Options& options, ShmGroupMemory memory, TcpControls controls,
                 const Clock& clock, const Abort& abort)
    : options_(options),
      layout_(memory.layout),
      mappings_(std::move(memory.mappings)),
      peers_(options.rank, Bells(mappings_), std::move(controls), clock, abort),
      window_(std::move(memory.files), std::move(memory.map), FirstArea(layout_, mappings_),
              &peers_, &traffic_) {
  for (int peer = 0; peer < world_size(); ++peer) {
    for (int channel = 0; channel < channels() && peer != rank(); ++channel) {
      Connect(peer, channel);
    }
  }
}

ShmLink::~ShmLink() {
  const bool pending =
      std::any_of(connections_.begin(), connections_.end(),
                  [](const ShmConnection& c) { return c.sending() || c.receiving(); });
  if (pending || cancelled_) return;  // peers see a lost rank, or have our report
  peers_.controls().SayGoodbye();
}

// Fresh memory is zero, which is what the counters start from.
void ShmLink::Connect(int peer, int channel) {
  struct Ring {
    ShmRingCounters* counters;
    std::span<std::byte> bytes;
  };
  const auto ring = [&](int receiver, int sender) {
    std::byte* const start = mappings_[static_cast<size_t>(receiver)].get() +
                             layout_.RingOffset(receiver, sender, channel);
    return Ring{reinterpret_cast<ShmRingCounters*>(start),
                {start + sizeof(ShmRingCounters), static_cast<size_t>(layout_.RingBytes())}};
  };
  const Ring out = ring(peer, rank());
  const Ring in = ring(rank(), peer);
  connections_.emplace_back(
      ShmConnectionEnds{ShmRingWriter(out.counters, out.bytes),
                        ShmRingReader(in.counters, in.bytes), peers_.bell(peer)},
      rank(), peer, options_.message_bytes_max);
}

ShmConnection& ShmLink::To(int peer, uint16_t channel) {
  CHECK(peer >= 0 && peer < world_size() && peer != rank()) << "peer " << peer;
  CHECK_LT(channel, channels());
  const int place = peer < rank() ? peer : peer - 1;
  return connections_[static_cast<size_t>(place * channels()) + channel];
}

void ShmLink::PostSend(SendRequest* request) {
  CHECK(!cancelled_);
  request->done = false;
  To(request->peer, request->header.channel).PostSend(request);
}

void ShmLink::PostRecv(RecvRequest* request) {
  CHECK(!cancelled_);
  request->done = false;
  To(request->peer, request->expected.channel).PostRecv(request);
}

void ShmLink::Cancel() {
  cancelled_ = true;
  for (ShmConnection& connection : connections_) connection.Cancel();
}

absl::Status ShmLink::MoveData(ShmMoved* moved) {
  for (ShmConnection& connection : connections_) {
    if (!connection.sending() && !connection.receiving()) continue;
    RETURN_IF_ERROR(connection.Move(&traffic_, moved));
  }
  return absl::OkStatus();
}

bool ShmLink::Wants(int peer) const {
  return std::any_of(connections_.begin(), connections_.end(), [&](const ShmConnection& c) {
    return c.peer() == peer && (c.sending() || c.receiving()) && !c.CanMove();
  });
}

absl::Status ShmLink::Pending() const {
  std::vector<int> senders;
  std::vector<int> receivers;
  for (const ShmConnection& connection : connections_) {
    if (connection.receiving()) senders.push_back(connection.peer());
    if (connection.sending()) receivers.push_back(connection.peer());
  }
  return PendingError(rank(), senders, receivers);
}

absl::Status ShmLink::Progress(int64_t deadline_ns) {
  RETURN_IF_ERROR(peers_.abort().status());
  RETURN_IF_ERROR(peers_.controls().PeerError());
  const auto wants = [this](int peer) { return Wants(peer); };
  const auto can_move = [this] {
    return std::any_of(connections_.begin(), connections_.end(),
                       [](const ShmConnection& c) { return c.CanMove(); });
  };
  SpinWait spin = peers_.NewSpin();
  for (int sleeps = 0;;) {
    ShmMoved moved;
    RETURN_IF_ERROR(MoveData(&moved));
    const bool late = moved.bytes && peers_.Late(deadline_ns);
    if (moved.requests && !late) return absl::OkStatus();
    if (moved.bytes && !late) {
      spin.Reset();
      sleeps = 0;
      continue;
    }
    if (!late && spin.Turn()) continue;
    RETURN_IF_ERROR(peers_.Look(wants));
    if (peers_.Late(deadline_ns)) return Pending();
    peers_.Sleep(can_move, sleeps++, deadline_ns);
  }
}

void ShmLink::SendReport(std::span<const std::byte> report) {
  peers_.controls().SendReport(report);
  peers_.WakeAll();  // so that they look at once
}

}  // namespace lockstep
