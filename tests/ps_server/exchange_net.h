// exchange_net.h: several exchanges and scripted workers in one thread, with streams that the test
// can hold and cut, and servers that it can kill and replace. Frames travel as encoded bytes, in
// two slices.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/numeric/convert.h"
#include "ps_server/service/exchange.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {

struct NetOptions {
  int32_t servers = 2;
  int32_t workers = 2;
  PsRules rules = {};
  bool aggregated = true;
  std::vector<int64_t> tensors = {3'000, 2'500};
  int64_t chunk_bytes = 1'000;
  int64_t snapshot_every = 0;
};
// Of one shard: those that have it, and those that join.
struct NetChain {
  std::vector<int32_t> servers;
  std::vector<int32_t> joining = {};
};

class ExchangeNet {
 public:
  static constexpr uint64_t kSeed = 5;

  struct Server {
    std::unique_ptr<Exchange> exchange;  // null: it is dead
    std::vector<UpdateServed> updates;
    std::vector<CopyJoined> joined;
    std::vector<ServerRecovery> recoveries;
    std::vector<absl::Status> broken;
    std::map<int64_t, std::shared_ptr<const ShardState>> cuts;  // by step
    std::vector<std::pair<CrashPoint, int64_t>> points;
  };
  struct Worker {
    std::map<int32_t, int64_t> stream;   // by server
    std::map<int32_t, PsFrame> welcome;  // by shard
    std::map<int32_t, int64_t> version;  // by shard, of the newest reply
    std::map<int32_t, bool> rejected;    // by shard
    std::vector<absl::Status> refusals;
    std::vector<float> parameters;
    int64_t incarnation = 1;
    int64_t arrived = 0;  // elements of the pull under way
  };

  explicit ExchangeNet(const NetOptions& options) : options_(options) {
    clock_.AdvanceMs(1'000);  // a time of 0 says that there was none
    layout_ = {.rules = options.rules,
               .tensor_counts = options.tensors,
               .shards = options.servers,
               .world_size = options.workers};
    ranges_ = *Partition(options.tensors, options.servers);
    servers_.resize(static_cast<size_t>(options.servers));
    workers_.resize(static_cast<size_t>(options.workers));
    for (int32_t s = 0; s < options.servers; ++s) Replace(s);
    for (Worker& worker : workers_) worker.parameters.resize(static_cast<size_t>(count()));
  }

  Server& server(int32_t s) { return servers_[static_cast<size_t>(s)]; }
  Worker& worker(int32_t w) { return workers_[static_cast<size_t>(w)]; }
  ManualClock& clock() { return clock_; }
  int64_t count() const { return *CountElements(options_.tensors); }
  int64_t elements(int32_t shard) const { return ranges_[static_cast<size_t>(shard)].count; }
  std::vector<std::vector<float>> Reference(int64_t steps) const {
    return ReferenceRun(kSeed, options_.workers, steps, count(), options_.rules.optimizer);
  }

  // Chains of k + 1 servers each, as a run begins.
  std::vector<NetChain> Chains(int32_t replicas) const {
    std::vector<NetChain> chains;
    for (int32_t shard = 0; shard < options_.servers; ++shard) {
      NetChain chain;
      for (int32_t i = 0; i <= replicas; ++i) {
        chain.servers.push_back((shard + i) % options_.servers);
      }
      chains.push_back(chain);
    }
    return chains;
  }

  PsServerConfig ConfigOf(int32_t s, int64_t epoch, const std::vector<NetChain>& chains) const {
    PsServerConfig config;
    config.server = s;
    config.servers = options_.servers;
    config.world_size = options_.workers;
    config.epoch = epoch;
    config.rules = options_.rules;
    config.limits.chunk_bytes = options_.chunk_bytes;
    config.limits.connect_timeout_ms = 400;
    config.limits.sync_timeout_ms = 600;
    config.snapshot_every = options_.snapshot_every;
    for (int32_t other = 0; other < options_.servers; ++other) config.successors[other] = {};
    for (int32_t shard = 0; shard < options_.servers; ++shard) {
      const NetChain& chain = chains[static_cast<size_t>(shard)];
      std::vector<int32_t> order = chain.servers;
      order.insert(order.end(), chain.joining.begin(), chain.joining.end());
      for (size_t i = 0; i < order.size(); ++i) {
        if (order[i] != s) continue;
        ChainPlace& place = config.places[shard];
        place.epoch = epoch;
        place.head = i == 0;
        place.aggregated = options_.aggregated;
        if (i > 0) place.predecessor = order[i - 1];
        if (i + 1 < order.size()) place.successor = order[i + 1];
        place.successor_joins = i + 1 < order.size() && i + 1 >= chain.servers.size();
      }
    }
    return config;
  }
  // What the workers know of.
  void Enter(int64_t epoch, const std::vector<NetChain>& chains) {
    epoch_ = epoch;
    chains_ = chains;
  }
  // All living servers and all workers enter the epoch. The config may be changed first.
  void Begin(int64_t epoch, const std::vector<NetChain>& chains,
             const std::function<void(int32_t, PsServerConfig*)>& change = nullptr) {
    Enter(epoch, chains);
    for (int32_t s = 0; s < options_.servers; ++s) {
      if (server(s).exchange == nullptr) continue;
      PsServerConfig config = ConfigOf(s, epoch, chains);
      if (change) change(s, &config);
      ASSERT_THAT(server(s).exchange->Configure(std::move(config)), IsOk());
    }
    for (int32_t w = 0; w < options_.workers; ++w) Connect(w);
    Run();
  }
  void Kill(int32_t s) {
    server(s).exchange.reset();
    for (auto link = links_.begin(); link != links_.end();) {
      const auto [end, peer] = *link;
      if (end.first != s && peer.first != s) {
        ++link;
        continue;
      }
      link = links_.erase(link);
      if (end.first != s && end.first >= 0) server(end.first).exchange->Closed(end.second);
    }
    std::erase_if(flying_, [s](const Flying& frame) { return frame.to.first == s; });
  }
  void Replace(int32_t s) {
    Server& fresh = server(s);
    PsServerEvents events;
    events.update = [&fresh](const UpdateServed& served) { fresh.updates.push_back(served); };
    events.caught_up = [&fresh](int64_t, const CopyJoined& joined) {
      fresh.joined.push_back(joined);
    };
    events.recovered = [&fresh](const ServerRecovery& r) { fresh.recoveries.push_back(r); };
    events.broken = [&fresh](int64_t, const absl::Status& why) { fresh.broken.push_back(why); };
    events.cut = [&fresh](int64_t step, std::shared_ptr<const ShardState> state) {
      fresh.cuts[step] = std::move(state);
    };
    fresh.exchange = std::make_unique<Exchange>("", events, clock_);
    fresh.exchange->set_crash_hook(
        [&fresh](CrashPoint point, int64_t step) { fresh.points.emplace_back(point, step); });
  }

  // One HELLO for each shard, on one stream to each head.
  void Connect(int32_t w) {
    Worker& self = worker(w);
    self.stream.clear();
    self.welcome.clear();
    for (int32_t shard = 0; shard < options_.servers; ++shard) {
      const int32_t head = chains_[static_cast<size_t>(shard)].servers[0];
      if (self.stream.count(head) == 0) self.stream[head] = Open({kWorkers, w}, head);
      PsFrame hello = Header(HELLO, w, shard, 0);
      hello.set_layout(FingerprintOf(layout_));
      hello.set_description(Describe(layout_));
      for (const int64_t tensor : layout_.tensor_counts) hello.add_tensor_counts(tensor);
      Give(w, head, hello);
    }
  }
  void Init(const std::vector<float>& values) { SendAll(INIT, 0, 0, values); }
  void Push(int32_t w, int64_t step) { SendAll(PUSH, w, step, Gradients(kSeed, w, step, count())); }
  void Pull(int32_t w, int64_t step) {
    worker(w).arrived = 0;
    for (int32_t shard = 0; shard < options_.servers; ++shard) {
      Give(w, HeadOf(shard), Header(PULL, w, shard, step));
    }
  }
  // Every worker's push and pull of `step`.
  void Step(int64_t step) {
    for (int32_t w = 0; w < options_.workers; ++w) Push(w, step);
    for (int32_t w = 0; w < options_.workers; ++w) Pull(w, step);
    Run();
  }
  bool Answered(int32_t w) { return worker(w).arrived == count(); }

  // Frames between these servers wait, in both directions.
  void Hold(int32_t a, int32_t b) { held_.insert({std::min(a, b), std::max(a, b)}); }
  void Release() { held_.clear(); }
  // The streams between these servers break.
  void Cut(int32_t a, int32_t b) {
    std::vector<End> ends;
    for (const auto& [end, peer] : links_) {
      if ((end.first == a && peer.first == b) || (end.first == b && peer.first == a)) {
        ends.push_back(end);
      }
    }
    for (const End& end : ends) links_.erase(end);
    for (const End& end : ends) {
      server(end.first).exchange->Closed(end.second);
      std::erase_if(flying_, [&](const Flying& frame) { return frame.to == end; });
    }
  }
  void Tick(int64_t ms) {
    clock_.AdvanceMs(ms);
    for (Server& each : servers_) {
      if (each.exchange != nullptr) each.exchange->Tick();
    }
    Run();
  }
  // Until nothing moves any more.
  void Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int32_t s = 0; s < options_.servers; ++s) moved = Collect(s) || moved;
      moved = Deliver() || moved;
    }
  }

 private:
  static constexpr int32_t kWorkers = -1;
  using End = std::pair<int32_t, int64_t>;  // server and its stream; kWorkers: and the worker
  struct Flying {
    End from;
    End to;
    std::string bytes;
    bool last = false;
  };

  int32_t HeadOf(int32_t shard) const { return chains_[static_cast<size_t>(shard)].servers[0]; }
  PsFrame Header(PsKind kind, int32_t w, int32_t shard, int64_t step) {
    PsFrame header;
    header.set_kind(kind);
    header.set_worker(w);
    header.set_incarnation(worker(w).incarnation);
    header.set_shard(shard);
    header.set_step(step);
    header.set_epoch(epoch_);
    return header;
  }
  int64_t Open(const End& from, int32_t to) {
    const int64_t stream = next_stream_++;
    server(to).exchange->Opened(stream, "");
    links_[{to, stream}] = from;
    return stream;
  }
  void Give(int32_t w, int32_t head, const PsFrame& header, const std::string& payload = "") {
    flying_.push_back({{kWorkers, w},
                       {head, worker(w).stream[head]},
                       EncodeHeader(header, static_cast<int64_t>(payload.size())) + payload});
  }
  void SendAll(PsKind kind, int32_t w, int64_t step, const std::vector<float>& values) {
    const Dtype wire = options_.rules.wire_dtype;
    for (int32_t shard = 0; shard < options_.servers; ++shard) {
      const ShardRange& range = ranges_[static_cast<size_t>(shard)];
      const int64_t half = range.count / 2;
      for (const auto& [offset, size] : {std::pair(int64_t{0}, half), {half, range.count - half}}) {
        PsFrame header = Header(kind, w, shard, step);
        header.set_offset(offset);
        header.set_total(range.count);
        std::string payload(static_cast<size_t>(size * SizeOf(wire)), '\0');
        const float* from = values.data() + range.offset + offset;
        if (wire == Dtype::kF32) {
          std::memcpy(payload.data(), from, payload.size());
        } else {
          Convert(Dtype::kF32, from, wire, payload.data(), size);
        }
        Give(w, HeadOf(shard), header, payload);
      }
    }
  }
  bool Collect(int32_t s) {
    Exchange* exchange = server(s).exchange.get();
    if (exchange == nullptr) return false;
    const std::vector<Dial> dials = exchange->TakeDials();
    for (const Dial& dial : dials) {
      if (server(dial.server).exchange == nullptr) {
        exchange->Closed(dial.stream);
        continue;
      }
      const End end = {s, dial.stream};
      const int64_t stream = Open(end, dial.server);
      links_[end] = {dial.server, stream};
    }
    auto messages = exchange->TakeOutgoing();
    for (const auto& [stream, message] : messages) {
      const auto link = links_.find({s, stream});
      if (link == links_.end()) continue;
      for (int64_t sent_bytes = 0;;) {
        const Chunk chunk = NextChunk(message, exchange->chunk_bytes(), &sent_bytes);
        std::string bytes;
        for (const Bytes piece : chunk.pieces) {
          bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
        }
        bytes = EncodeHeader(chunk.header, static_cast<int64_t>(bytes.size())) + bytes;
        exchange->Sending(chunk.header, static_cast<int64_t>(bytes.size()), chunk.complete, stream);
        exchange->Sent(chunk.header, chunk.complete);
        flying_.push_back({{s, stream}, link->second, bytes, message.last});
        if (chunk.complete) break;
      }
    }
    return !messages.empty() || !dials.empty();
  }
  bool Held(const Flying& frame) const {
    const int32_t a = frame.from.first;
    const int32_t b = frame.to.first;
    return held_.count({std::min(a, b), std::max(a, b)}) > 0;
  }
  bool Deliver() {
    bool moved = false;
    std::deque<Flying> frames = std::exchange(flying_, {});
    for (Flying& frame : frames) {
      if (Held(frame)) {
        flying_.push_back(std::move(frame));
        continue;
      }
      moved = true;
      if (frame.to.first == kWorkers) {
        ToWorker(static_cast<int32_t>(frame.to.second), frame.bytes);
      } else if (links_.count(frame.to) > 0) {
        const Bytes all = std::as_bytes(std::span(frame.bytes));
        const std::vector<Bytes> slices = {all.first(all.size() / 3), all.subspan(all.size() / 3)};
        server(frame.to.first).exchange->Received(frame.to.second, slices);
      }
      if (frame.last) End_(frame.from, frame.to);
    }
    return moved;
  }
  // A refused stream ends on both sides.
  void End_(const End& from, const End& to) {
    if (links_.erase(from) > 0) server(from.first).exchange->Closed(from.second);
    if (links_.erase(to) > 0) server(to.first).exchange->Closed(to.second);
  }
  void ToWorker(int32_t w, const std::string& bytes) {
    Worker& self = worker(w);
    PsFrame frame;
    ASSERT_TRUE(frame.ParseFromString(bytes));
    if (frame.kind() == REFUSED) {
      self.refusals.emplace_back(static_cast<absl::StatusCode>(frame.code()), frame.reason());
    } else if (frame.kind() == WELCOME) {
      self.welcome[frame.shard()] = frame;
    } else if (frame.kind() == PARAMETERS) {
      const Dtype wire = options_.rules.wire_dtype;
      const auto elements = static_cast<int64_t>(frame.payload().size()) / SizeOf(wire);
      float* to = self.parameters.data() + ranges_[static_cast<size_t>(frame.shard())].offset +
                  frame.offset();
      if (wire == Dtype::kF32) {
        std::memcpy(to, frame.payload().data(), frame.payload().size());
      } else {
        Convert(wire, frame.payload().data(), Dtype::kF32, to, elements);
      }
      self.arrived += elements;
      self.version[frame.shard()] = frame.version();
      self.rejected[frame.shard()] = frame.rejected();
    }
  }

  const NetOptions options_;
  PsLayout layout_;
  std::vector<ShardRange> ranges_;
  ManualClock clock_;
  int64_t epoch_ = 0;
  std::vector<NetChain> chains_;
  std::vector<Server> servers_;
  std::vector<Worker> workers_;
  std::map<End, End> links_;
  std::deque<Flying> flying_;
  std::set<std::pair<int32_t, int32_t>> held_;
  int64_t next_stream_ = 1;
};

}  // namespace lockstep
