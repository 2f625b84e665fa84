#include "ps_server/client/client_core.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

absl::Status RefusedBy(const std::string& server, const PsFrame& header) {
  const int code = header.code();
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  const absl::Status refused(
      known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kInternal,
      absl::StrCat(server, " refused: ", header.reason()));
  return Blame(refused, {header.blamed().begin(), header.blamed().end()});
}

}  // namespace

ClientCore::ClientCore(ClientCoreOptions options, std::vector<ShardRange> ranges)
    : options_(std::move(options)),
      wire_(options_.layout.rules.wire_dtype),
      chunk_(std::max<int64_t>(1, options_.limits.chunk_bytes / SizeOf(wire_))) {
  CHECK_EQ(options_.server_of_shard.size(), ranges.size());
  CHECK(options_.versions.empty() || options_.versions.size() == ranges.size());
  for (size_t k = 0; k < ranges.size(); ++k) {
    ShardSide side = {.server = options_.server_of_shard[k],
                      .values = ShardValues(ranges[k], wire_)};
    if (!options_.versions.empty()) side.version = options_.versions[k];
    absl::StatusOr<std::vector<TableRows>> tables =
        TablesIn(ranges[k], options_.layout.tensor_counts, options_.layout.row_elements);
    CHECK(tables.ok()) << tables.status().message();
    side.tables = *std::move(tables);
    elements_ += side.values.count();
    servers_.push_back(side.server);
    shards_.push_back(std::move(side));
  }
  std::sort(servers_.begin(), servers_.end());
  servers_.erase(std::unique(servers_.begin(), servers_.end()), servers_.end());
}

std::string ClientCore::NameOf(int32_t server) const {
  const auto index = static_cast<size_t>(server);
  return index < options_.server_names.size() ? options_.server_names[index]
                                              : absl::StrCat("server ", server);
}

void ClientCore::Begin(Operation operation, int64_t step) {
  CHECK(done()) << "one operation at a time";
  operation_ = operation;
  step_ = step;
}

void ClientCore::Hello() {
  Begin(Operation::kHello, 0);
  for (ShardSide& side : shards_) side.asks = side.waits = true;
}

void ClientCore::HelloAgain(int32_t server) {
  CHECK(operation_ == Operation::kHello);
  for (ShardSide& side : shards_) {
    if (side.server == server) side.asks = side.waits = true;
  }
}

void ClientCore::Init(std::span<const float> parameters) {
  CHECK_EQ(static_cast<int64_t>(parameters.size()), elements_);
  Begin(Operation::kInit, 0);
  source_ = parameters;
  source_offset_ = 0;
  for (ShardSide& side : shards_) {
    side.unsent = {0, side.initialized ? 0 : side.values.count()};
  }
}

absl::Status ClientCore::Push(int64_t step, int64_t offset, std::span<const float> gradients) {
  const int64_t end = offset + static_cast<int64_t>(gradients.size());
  if (offset < 0 || end > elements_) {
    return absl::InvalidArgumentError(absl::StrCat("worker ", options_.rank, ", push of step ",
                                                   step, ": elements [", offset, ", ", end, ") of ",
                                                   elements_));
  }
  Begin(Operation::kPush, step);
  source_ = gradients;
  source_offset_ = offset;
  for (ShardSide& side : shards_) {
    side.unsent = side.values.Within(offset, end);
  }
  return absl::OkStatus();
}

void ClientCore::Pull(int64_t step, std::span<float> parameters) {
  CHECK_EQ(static_cast<int64_t>(parameters.size()), elements_);
  Begin(Operation::kPull, step);
  target_ = parameters;
  for (ShardSide& side : shards_) {
    side.pulled = 0;
    side.waits = true;
    side.asks = !(side.asked && side.pushed_step == step);
  }
}

PsFrame ClientCore::Header(PsKind kind, size_t shard) const {
  PsFrame header;
  header.set_kind(kind);
  header.set_worker(options_.rank);
  header.set_incarnation(options_.incarnation);
  header.set_epoch(options_.epoch);
  header.set_shard(static_cast<int32_t>(shard));
  header.set_step(step_);
  return header;
}

std::optional<ClientFrame> ClientCore::Next(int32_t server) {
  if (!dead_.ok()) return std::nullopt;
  for (size_t k = 0; k < shards_.size(); ++k) {
    ShardSide& side = shards_[k];
    if (side.server != server) continue;
    if (side.asks) {
      side.asks = false;
      return AskingFrame(k);
    }
    if (side.unsent.begin < side.unsent.end) return NextChunk(k);
    if (side.rows.due) return NextRows(k);
  }
  return std::nullopt;
}

ClientFrame ClientCore::AskingFrame(size_t shard) const {
  if (operation_ == Operation::kPull) return {Header(PULL, shard), {}};
  PsFrame hello = Header(HELLO, shard);
  hello.set_layout(FingerprintOf(options_.layout));
  hello.set_description(Describe(options_.layout));
  for (const int64_t count : options_.layout.tensor_counts) hello.add_tensor_counts(count);
  for (const int64_t row : options_.layout.row_elements) hello.add_row_elements(row);
  return {std::move(hello), {}};
}

ClientFrame ClientCore::NextChunk(size_t shard) {
  ShardSide& side = shards_[shard];
  const int64_t begin = side.unsent.begin;
  const int64_t count = std::min(chunk_, side.unsent.end - begin);
  side.unsent.begin += count;
  PsFrame header = Header(operation_ == Operation::kInit ? INIT : PUSH, shard);
  header.set_offset(begin);
  header.set_total(side.values.count());
  if (operation_ == Operation::kPush) {
    header.set_base(round_min());
    header.set_pulls(CountPushed(&side, count));
  }
  return {std::move(header), side.values.Gather(source_, source_offset_, begin, count)};
}

// Tables' rows may be pulled alone, which a push knows nothing of.
bool ClientCore::PullsWithPush() const {
  return options_.layout.rules.mode == PsMode::kSync && options_.layout.row_elements.empty();
}

// Whether the step's last chunk of the shard goes out.
bool ClientCore::CountPushed(ShardSide* side, int64_t count) const {
  if (std::exchange(side->pushed_step, step_) != step_) {
    side->pushed = 0;
    side->asked = false;
  }
  side->pushed += count;
  if (!PullsWithPush() || side->asked || side->pushed != side->values.count()) return false;
  side->asked = true;
  return true;
}

bool ClientCore::TakesLater(const PsFrame& header) const {
  const auto shard = static_cast<size_t>(header.shard());
  return header.kind() == PARAMETERS && operation_ == Operation::kPush && dead_.ok() &&
         shard < shards_.size() && shards_[shard].asked && header.step() == step_;
}

absl::Status ClientCore::OnFrame(int32_t server, const Frame& frame) {
  if (dead_.ok()) dead_ = Take(server, frame);
  return dead_;
}

absl::Status ClientCore::Take(int32_t server, const Frame& frame) {
  const PsFrame& header = frame.header;
  if (header.kind() == REFUSED) return RefusedBy(NameOf(server), header);
  const auto shard = static_cast<size_t>(header.shard());
  const bool ours = header.epoch() == options_.epoch && header.worker() == options_.rank &&
                    shard < shards_.size() && shards_[shard].server == server;
  if (!ours) {
    return absl::InternalError(
        absl::StrCat(NameOf(server), " sent a frame of epoch ", header.epoch(), ", worker ",
                     header.worker(), ", shard ", header.shard(), "; expected epoch ",
                     options_.epoch, ", worker ", options_.rank, " and a shard that it serves"));
  }
  switch (header.kind()) {
    case WELCOME:
      return OnWelcome(server, header);
    case PARAMETERS:
      return OnParameters(server, frame);
    default:
      return absl::InternalError(
          absl::StrCat(NameOf(server), " sent a frame of kind ", static_cast<int>(header.kind())));
  }
}

absl::Status ClientCore::OnWelcome(int32_t server, const PsFrame& header) {
  ShardSide& side = shards_[static_cast<size_t>(header.shard())];
  if (operation_ != Operation::kHello || side.asks || !side.waits) {
    return absl::InternalError(
        absl::StrCat(NameOf(server), " welcomes again to shard ", header.shard()));
  }
  if (header.version() < side.version) {
    return absl::DataLossError(absl::StrCat(NameOf(server), " has version ", header.version(),
                                            " of shard ", header.shard(), ", but worker ",
                                            options_.rank, " was given version ", side.version,
                                            ": acknowledged updates are lost"));
  }
  side.waits = false;
  side.initialized = header.initialized();
  side.applied = header.step();
  return absl::OkStatus();
}

// K_OF_N: of the worker's parameters, the same for all shards (update_policy.h says why).
int64_t ClientCore::round_min() const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const ShardSide& side : shards_) least = std::min(least, side.round);
  return least;
}

// Least version that a reply to the pull of step_ may have.
int64_t ClientCore::version_min(const ShardSide& side) const {
  const PsRules& rules = options_.layout.rules;
  // One version belongs to each step, and a worker that was cut short reads an earlier one again.
  const bool of_step =
      rules.mode == PsMode::kSync || (rules.mode == PsMode::kBounded && rules.staleness == 0);
  if (of_step) return step_;
  // K_OF_N may have dropped pushes of ours; in the other modes each made its update.
  return rules.mode == PsMode::kKOfN ? side.version : std::max(side.version, step_);
}

// A reply's chunks come in order and are one version throughout, which never goes back, and in SYNC
// is the step's.
bool ClientCore::Expects(int32_t server, const Frame& frame) const {
  const PsFrame& header = frame.header;
  const ShardSide& side = shards_[static_cast<size_t>(header.shard())];
  const int64_t count = frame.payload_bytes / SizeOf(wire_);
  const bool by_rows = operation_ == Operation::kPullRows;
  const bool pulling = (operation_ == Operation::kPull || by_rows) && !side.asks &&
                       !side.rows.due && side.waits && header.has_rows() == by_rows &&
                       (!by_rows || header.rows().tensor() == table_);
  const int64_t total = ReplyElements(side);
  const bool fits = header.total() == total && frame.payload_bytes % SizeOf(wire_) == 0 &&
                    (count > 0 || total == 0) && header.offset() == side.pulled &&
                    count <= total - side.pulled;
  const bool whole = side.pulled == 0 || header.version() == side.version;
  const bool step_is_version = options_.layout.rules.mode == PsMode::kSync;
  return side.server == server && pulling && fits && whole && header.step() == step_ &&
         header.version() >= version_min(side) && (!step_is_version || header.version() == step_);
}

absl::Status ClientCore::OnParameters(int32_t server, const Frame& frame) {
  const PsFrame& header = frame.header;
  ShardSide& side = shards_[static_cast<size_t>(header.shard())];
  if (!Expects(server, frame)) {
    return absl::InternalError(absl::StrCat(
        NameOf(server), " sent parameters out of turn: step ", header.step(), ", version ",
        header.version(), " of shard ", header.shard(), ", ", frame.payload_bytes,
        " bytes at element ", header.offset(), " of ", header.total(), "; expected step ", step_,
        ", version ", side.pulled > 0 ? side.version : version_min(side), " of shard ",
        header.shard(), " at element ", side.pulled, " of ", ReplyElements(side)));
  }
  if (side.pulled == 0 && header.rejected()) ++rejected_;
  side.version = header.version();
  side.round = header.base();
  const int64_t count = frame.payload_bytes / SizeOf(wire_);
  ShardValues& values = operation_ == Operation::kPullRows ? *side.rows.target : side.values;
  if (count > 0) values.Scatter(frame.payload, side.pulled, count, target_);
  side.pulled += count;
  side.waits = side.pulled < ReplyElements(side);
  return absl::OkStatus();
}

bool ClientCore::done() const {
  return std::none_of(shards_.begin(), shards_.end(),
                      [this](const ShardSide& side) { return Pending(side); });
}

std::string ClientCore::Awaited() const {
  std::string text;
  for (size_t k = 0; k < shards_.size(); ++k) {
    const ShardSide& side = shards_[k];
    if (!Pending(side)) continue;
    const std::string name = NameOf(side.server);
    absl::StrAppend(&text, text.empty() ? "" : ", ");
    if (operation_ == Operation::kHello) {
      absl::StrAppend(&text, "the welcome of shard ", k, " from ", name);
    } else if (operation_ == Operation::kPull || operation_ == Operation::kPullRows) {
      absl::StrAppend(&text, "parameters of shard ", k, " from ", name, ": ", side.pulled, " of ",
                      ReplyElements(side), " elements are here");
    } else if (operation_ == Operation::kPushRows) {
      absl::StrAppend(&text, name, " to take ", side.rows.end - side.rows.next,
                      " more rows of shard ", k);
    } else {
      absl::StrAppend(&text, name, " to take ", side.unsent.end - side.unsent.begin,
                      " more elements of shard ", k);
    }
  }
  return text;
}

std::vector<int32_t> ClientCore::AwaitedServers() const {
  std::vector<int32_t> awaited;
  for (const int32_t server : servers_) {
    const bool pending = std::any_of(shards_.begin(), shards_.end(), [&](const ShardSide& side) {
      return side.server == server && Pending(side);
    });
    if (pending) awaited.push_back(server);
  }
  return awaited;
}

bool ClientCore::initialized() const {
  return std::all_of(shards_.begin(), shards_.end(),
                     [](const ShardSide& side) { return side.initialized; });
}

int64_t ClientCore::resume_step() const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const ShardSide& side : shards_) least = std::min(least, side.applied);
  return least;
}

absl::StatusOr<ResumePoint> ClientCore::Resume(std::optional<int64_t> own, bool restored) const {
  const int64_t resume = resume_step();
  if (own.has_value() && *own > resume && !restored) {
    return absl::DataLossError(absl::StrCat("worker ", options_.rank, " finished step ", *own,
                                            ", but some shard has only step ", resume,
                                            " of it: acknowledged updates are lost"));
  }
  const PsMode mode = options_.layout.rules.mode;
  const bool usable =
      own.has_value() && (!restored || mode == PsMode::kSync) && mode != PsMode::kKOfN;
  if (usable && *own == resume) return ResumePoint{resume, false};
  const int64_t step = mode == PsMode::kBounded ? std::max<int64_t>(0, resume - 1) : resume;
  return ResumePoint{step, !usable || *own != step};
}

bool ClientCore::torn() const {
  const bool began = std::any_of(shards_.begin(), shards_.end(),
                                 [](const ShardSide& side) { return side.pulled > 0; });
  return operation_ == Operation::kPull && began && !done();
}

std::vector<int64_t> ClientCore::versions() const {
  std::vector<int64_t> versions;
  versions.reserve(shards_.size());
  for (const ShardSide& side : shards_) versions.push_back(side.version);
  return versions;
}

}  // namespace lockstep
