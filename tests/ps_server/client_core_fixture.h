// client_core_fixture.h: a client core against servers that say what a test makes them say: frames
// as they come off a stream, cut into pieces anywhere. For tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/numeric/convert.h"
#include "ps_server/client/client_core.h"

namespace lockstep {

struct CoreCase {
  PsRules rules = {};
  PsPlacement placement = PsPlacement::kSplit;
  std::vector<int64_t> tensors = {2'048, 1'024};  // in two shards cut at 1,024
  std::vector<int32_t> server_of_shard = {0, 1};
  int64_t chunk_bytes = 4'096;
  std::vector<int64_t> versions = {};
  std::vector<int64_t> row_elements = {};
};

inline constexpr int32_t kCoreRank = 1;
inline constexpr int64_t kCoreEpoch = 3;

// One frame off a stream, with the memory that its payload views.
class ReadFrame {
 public:
  ReadFrame(PsFrame header, std::string payload, size_t piece_bytes = 1'000)
      : payload_(std::move(payload)) {
    frame_.header = std::move(header);
    frame_.payload_bytes = static_cast<int64_t>(payload_.size());
    for (size_t at = 0; at < payload_.size(); at += piece_bytes) {
      frame_.payload.push_back(std::as_bytes(std::span(payload_))
                                   .subspan(at, std::min(piece_bytes, payload_.size() - at)));
    }
  }
  const Frame& frame() const { return frame_; }

 private:
  const std::string payload_;
  Frame frame_;
};

class CoreTest : public testing::Test {
 protected:
  ClientCore& Make(const CoreCase& test) {
    test_ = test;
    layout_ = {.rules = test.rules,
               .placement = test.placement,
               .tensor_counts = test.tensors,
               .shards = static_cast<int32_t>(test.server_of_shard.size()),
               .world_size = 4,
               .row_elements = test.row_elements};
    auto ranges = Partition(layout_.tensor_counts, layout_.shards, layout_.placement);
    CHECK(ranges.ok()) << ranges.status();
    ranges_ = *std::move(ranges);
    Limits limits;
    limits.chunk_bytes = test.chunk_bytes;
    core_ = std::make_unique<ClientCore>(ClientCoreOptions{.rank = kCoreRank,
                                                           .incarnation = 7,
                                                           .epoch = kCoreEpoch,
                                                           .layout = layout_,
                                                           .server_of_shard = test.server_of_shard,
                                                           .limits = limits,
                                                           .versions = test.versions},
                                         ranges_);
    return *core_;
  }
  // A core that every shard has welcomed: [shard]: last step of the worker there.
  ClientCore& Welcomed(const CoreCase& test, std::vector<int64_t> steps = {}) {
    ClientCore& core = Make(test);
    steps.resize(test.server_of_shard.size());
    core.Hello();
    TakeAll();
    for (size_t k = 0; k < steps.size(); ++k) {
      PsFrame welcome = Header(WELCOME, k);
      welcome.set_initialized(true);
      welcome.set_step(steps[k]);
      welcome.set_version(test.versions.empty() ? steps[k] : test.versions[k]);
      EXPECT_TRUE(Say(welcome).ok());
    }
    EXPECT_TRUE(core.done());
    return core;
  }

  PsFrame Header(PsKind kind, size_t shard) const {
    PsFrame header;
    header.set_kind(kind);
    header.set_worker(kCoreRank);
    header.set_epoch(kCoreEpoch);
    header.set_shard(static_cast<int32_t>(shard));
    return header;
  }
  // What the shard's server says.
  absl::Status Say(const PsFrame& header, const std::string& payload = "",
                   size_t piece_bytes = 1'000) {
    const auto shard = static_cast<size_t>(header.shard());
    return core_->OnFrame(test_.server_of_shard[shard],
                          ReadFrame(header, payload, piece_bytes).frame());
  }
  // A reply's chunk of `count` elements from `offset` on, all `value`.
  PsFrame Chunk(size_t shard, int64_t step, int64_t version, int64_t offset) const {
    PsFrame header = Header(PARAMETERS, shard);
    header.set_step(step);
    header.set_version(version);
    header.set_offset(offset);
    header.set_total(ranges_[shard].count);
    return header;
  }
  std::string Values(int64_t count, float value) const {
    const std::vector<float> values(static_cast<size_t>(count), value);
    return OnTheWire(values);
  }
  std::string OnTheWire(const std::vector<float>& values) const {
    const Dtype wire = test_.rules.wire_dtype;
    const auto count = static_cast<int64_t>(values.size());
    std::string bytes(values.size() * static_cast<size_t>(SizeOf(wire)), '\0');
    if (values.empty()) return bytes;
    if (wire == Dtype::kF32) {
      std::memcpy(bytes.data(), values.data(), bytes.size());
    } else {
      Convert(Dtype::kF32, values.data(), wire, bytes.data(), count);
    }
    return bytes;
  }
  // A whole reply.
  absl::Status Reply(size_t shard, int64_t step, int64_t version, float value) {
    return Say(Chunk(shard, step, version, 0), Values(ranges_[shard].count, value));
  }
  // Everything that the core has for its servers, in the order in which a caller takes it.
  std::vector<ClientFrame> TakeAll() {
    std::vector<ClientFrame> frames;
    for (const int32_t server : core_->servers()) {
      while (auto frame = core_->Next(server)) frames.push_back(*std::move(frame));
    }
    return frames;
  }
  int64_t elements() const { return core_->elements(); }

  CoreCase test_;
  PsLayout layout_;
  std::vector<ShardRange> ranges_;
  std::unique_ptr<ClientCore> core_;
};

}  // namespace lockstep
