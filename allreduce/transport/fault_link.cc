#include "allreduce/transport/fault_link.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <list>

#include "base/check.h"

namespace lockstep {
namespace {

class FaultLink final : public Link {
 public:
  FaultLink(std::unique_ptr<Link> inner, std::vector<FaultRule> rules, const Clock& clock,
            ArmedFaults* armed)
      : inner_(std::move(inner)),
        rules_(std::move(rules)),
        clock_(clock),
        armed_(armed),
        posted_(static_cast<size_t>(inner_->world_size()) * static_cast<size_t>(inner_->channels()),
                0) {}

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  int channels() const override { return inner_->channels(); }
  int64_t epoch() const override { return inner_->epoch(); }
  std::string name() const override { return inner_->name(); }
  const std::vector<PeerState>& peers() const override { return inner_->peers(); }
  absl::Status abort_status() const override { return inner_->abort_status(); }
  Traffic traffic() const override { return inner_->traffic(); }
  // Faults happen to messages, so data must travel as such.
  SharedWindow* window() override {
    return rules_.empty() && armed_ == nullptr ? inner_->window() : nullptr;
  }
  void PostRecv(RecvRequest* request) override { inner_->PostRecv(request); }
  void SendReport(std::span<const std::byte> report) override { inner_->SendReport(report); }
  absl::Status AwaitReports(int64_t deadline_ns) override {
    return inner_->AwaitReports(deadline_ns);
  }

  void PostSend(SendRequest* request) override {
    TakeArmed();
    const FaultRule* rule = Match(*request);
    if (rule != nullptr && armed_ != nullptr && armed_->strikes) armed_->strikes(rule->tag);
    const bool behind = std::any_of(copies_.begin(), copies_.end(), [&](const Copy& copy) {
      return !copy.posted && SameConnection(copy.request, *request);
    });
    if (rule == nullptr && !behind) {
      inner_->PostSend(request);
      return;
    }
    request->done = false;
    const int64_t now_ns = clock_.NowNs();
    if (rule == nullptr) {
      Hold(request, now_ns);
    } else if (rule->fault == LinkFault::kDrop) {
      request->done = true;
      completed_ = true;
    } else if (rule->fault == LinkFault::kDuplicate) {
      Hold(nullptr, now_ns, *request);
      Hold(request, now_ns);
    } else if (rule->fault == LinkFault::kCorrupt) {
      Damage(rule->corrupt_byte, Hold(request, now_ns));
    } else {
      Hold(request, now_ns + rule->delay_ms * kNsPerMs);
    }
    Release();
  }

  void Cancel() override {
    inner_->Cancel();
    copies_.clear();
  }

  absl::Status Progress(int64_t deadline_ns) override {
    while (true) {
      Release();
      Collect();  // the link inside may take a message as it is posted
      if (completed_) {
        completed_ = false;
        return absl::OkStatus();
      }
      const int64_t next_ns = NextReleaseNs();
      absl::Status status = inner_->Progress(std::min(deadline_ns, next_ns));
      Collect();
      const bool only_a_release = absl::IsDeadlineExceeded(status) && next_ns < deadline_ns;
      if (!only_a_release) return status;
    }
  }

 private:
  struct Copy {
    SendRequest request;
    SendRequest* original = nullptr;  // nullptr: nobody waits for this copy
    std::vector<std::byte> payload;
    int64_t release_ns = 0;
    bool posted = false;
  };

  static bool SameConnection(const SendRequest& a, const SendRequest& b) {
    return a.peer == b.peer && a.header.channel == b.header.channel;
  }

  void TakeArmed() {
    if (armed_ == nullptr || !armed_->armed) return;
    armed_->armed = false;
    rules_ = armed_->rules;
    std::fill(posted_.begin(), posted_.end(), 0);
  }

  // The rule for this message, if any. Counts the message.
  const FaultRule* Match(const SendRequest& request) {
    const auto connection = static_cast<size_t>(request.peer) * static_cast<size_t>(channels()) +
                            request.header.channel;
    const int64_t index = posted_[connection]++;
    for (const FaultRule& rule : rules_) {
      if (rule.peer == request.peer && rule.channel == request.header.channel &&
          index >= rule.first && index < rule.first + rule.count) {
        return &rule;
      }
    }
    return nullptr;
  }

  // A copy of `original`, which is done when the copy is.
  Copy* Hold(SendRequest* original, int64_t release_ns) {
    Hold(original, release_ns, *original);
    return &copies_.back();
  }

  void Hold(SendRequest* original, int64_t release_ns, const SendRequest& content) {
    Copy& copy = copies_.emplace_back();
    copy.payload.assign(content.payload.begin(), content.payload.end());
    copy.request = content;
    copy.request.payload = copy.payload;
    copy.original = original;
    copy.release_ns = release_ns;
  }

  static void Damage(size_t byte, Copy* copy) {
    constexpr std::byte kBit{1};
    constexpr size_t kChannel = offsetof(MessageHeader, channel);
    CHECK(byte < kChannel || byte >= kChannel + 2) << "the channel field routes the message";
    if (byte < sizeof(MessageHeader)) {
      std::array<std::byte, sizeof(MessageHeader)> bytes{};
      std::memcpy(bytes.data(), &copy->request.header, sizeof(MessageHeader));
      bytes[byte] ^= kBit;
      std::memcpy(&copy->request.header, bytes.data(), sizeof(MessageHeader));
      return;
    }
    CHECK_LT(byte - sizeof(MessageHeader), copy->payload.size()) << "corrupt_byte is beyond";
    copy->payload[byte - sizeof(MessageHeader)] ^= kBit;
  }

  void Collect() {
    copies_.remove_if([this](const Copy& copy) {
      if (!copy.posted || !copy.request.done) return false;
      if (copy.original != nullptr) copy.original->done = true;
      completed_ = true;
      return true;
    });
  }

  // Posts the copies whose time has come, unless an older one of their connection is still held.
  void Release() {
    const int64_t now_ns = clock_.NowNs();
    for (auto it = copies_.begin(); it != copies_.end(); ++it) {
      if (it->posted || it->release_ns > now_ns) continue;
      const bool behind = std::any_of(copies_.begin(), it, [&](const Copy& older) {
        return !older.posted && SameConnection(older.request, it->request);
      });
      if (behind) continue;
      it->posted = true;
      inner_->PostSend(&it->request);
    }
  }

  int64_t NextReleaseNs() const {
    int64_t next_ns = INT64_MAX;
    for (const Copy& copy : copies_) {
      if (!copy.posted) next_ns = std::min(next_ns, copy.release_ns);
    }
    return next_ns;
  }

  const std::unique_ptr<Link> inner_;
  std::vector<FaultRule> rules_;
  const Clock& clock_;
  ArmedFaults* const armed_;
  std::vector<int64_t> posted_;  // [peer][channel]: messages counted
  std::list<Copy> copies_;       // oldest first; a list, since posted requests must not move
  bool completed_ = false;
};

}  // namespace

std::unique_ptr<Link> MakeFaultLink(std::unique_ptr<Link> inner, std::vector<FaultRule> rules,
                                    const Clock& clock, ArmedFaults* armed) {
  return std::make_unique<FaultLink>(std::move(inner), std::move(rules), clock, armed);
}

}  // namespace lockstep
