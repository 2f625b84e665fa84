#include "experiments/analyse/balance.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "experiments/analyse/format.h"
#include "experiments/analyse/traffic_count.h"
#include "ps_server/wire/rules_from_spec.h"

namespace lockstep {
namespace {

constexpr double kIdleShare = 0.25;  // of the mean

double Total(const BalanceResult& balance) {
  double total = 0;
  for (const ServerShare& share : balance.server()) total += share.bytes();
  return total;
}

// The largest tensor, if it alone is more than a server's equal share.
void NameHot(const BalanceInput& input, const std::vector<ShardRange>& ranges,
             BalanceResult* balance) {
  const auto largest = std::max_element(
      input.tensors.begin(), input.tensors.end(),
      [](const TensorSize& a, const TensorSize& b) { return a.elements < b.elements; });
  const double bytes = static_cast<double>(largest->elements) * input.element_bytes;
  const double total = Total(*balance);
  if (bytes * input.servers <= total) return;
  HotTensor* hot = balance->mutable_hot();
  hot->set_name(largest->name);
  hot->set_bytes(bytes);
  hot->set_share(bytes / total);
  const auto index = largest - input.tensors.begin();
  for (size_t k = 0; k < ranges.size(); ++k) {
    const auto& parts = ranges[k].parts;
    const bool holds = std::any_of(parts.begin(), parts.end(), [index](const TensorPart& part) {
      return part.tensor == index;
    });
    if (holds) hot->add_server(static_cast<int32_t>(k));
  }
}

// "server 2", "servers 1, 2 and 3", "3 servers"
template <typename Indices>
std::string ServersText(const Indices& servers) {
  constexpr int kNamedMax = 8;
  if (servers.size() > kNamedMax) return absl::StrCat(servers.size(), " servers");
  std::vector<std::string> names;
  for (const int32_t server : servers) names.push_back(absl::StrCat(server));
  return absl::StrCat(names.size() == 1 ? "server " : "servers ", JoinNames(names));
}

// "4.60, 0.125 and 0.125 MB"
std::string SizesText(const BalanceResult& balance) {
  constexpr int kListedMax = 8;
  std::vector<double> bytes;
  for (const ServerShare& share : balance.server()) bytes.push_back(share.bytes());
  if (balance.server_size() > kListedMax) {
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    return absl::StrCat(Megabytes(*least), " to ", Megabytes(*most));
  }
  std::vector<std::string> sizes;
  sizes.reserve(bytes.size());
  for (const double one : bytes) sizes.push_back(Significant(one / 1e6, 3));
  return absl::StrCat(JoinNames(sizes), " MB");
}

}  // namespace

absl::StatusOr<BalanceResult> BalanceOf(const BalanceInput& input) {
  std::vector<int64_t> counts;
  counts.reserve(input.tensors.size());
  for (const TensorSize& tensor : input.tensors) counts.push_back(tensor.elements);
  ASSIGN_OR_RETURN(const std::vector<ShardRange> ranges,
                   Partition(counts, input.servers, input.placement));
  BalanceResult balance;
  balance.set_placement(NameOf(input.placement));
  double most = 0;
  for (const ShardRange& range : ranges) {
    ServerShare* share = balance.add_server();
    share->set_bytes(static_cast<double>(range.count) * input.element_bytes);
    share->set_tensors(static_cast<int32_t>(range.parts.size()));
    most = std::max(most, share->bytes());
  }
  const double mean = Total(balance) / input.servers;
  balance.set_max_over_mean(most / mean);
  for (int k = 0; k < balance.server_size(); ++k) {
    if (balance.server(k).bytes() < kIdleShare * mean) balance.add_idle(k);
  }
  NameHot(input, ranges, &balance);
  return balance;
}

BalanceInput BalanceInputOf(const RunConfig& config) {
  if (!config.variant().has_ps()) return {};
  const Experiment& experiment = config.experiment();
  return {.tensors = TensorsOf(experiment.model().mlp()),
          .servers = config.servers(),
          .placement = PsPlacementFrom(config),
          .element_bytes = static_cast<int>(
              WireBytes(experiment.wire_dtype_size() > 0 ? experiment.wire_dtype(0) : F32))};
}

std::vector<double> SharesOf(const BalanceResult& balance) {
  std::vector<double> shares;
  const double total = Total(balance);
  for (const ServerShare& share : balance.server()) shares.push_back(share.bytes() / total);
  return shares;
}

std::string BalanceText(const BalanceResult& balance) {
  std::string text =
      absl::StrCat(balance.placement(), ": servers hold ", SizesText(balance),
                   ", largest over mean ", absl::StrFormat("%.2f", balance.max_over_mean()));
  if (balance.has_hot()) {
    const HotTensor& hot = balance.hot();
    absl::StrAppend(&text, "; ", hot.name(), " has ", Percent(hot.share()), " of the bytes, on ",
                    ServersText(hot.server()));
  }
  if (!balance.idle().empty()) {
    absl::StrAppend(&text, "; nearly idle: ", ServersText(balance.idle()));
  }
  return text;
}

void AggregateBalance(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  const BalanceInput input = BalanceInputOf(runs[0]->config);
  if (input.tensors.empty()) return;
  absl::StatusOr<BalanceResult> balance = BalanceOf(input);
  if (!balance.ok()) return;  // the run did not begin: its failure says why
  const RoleCount counts = CountServers(runs);
  for (size_t k = 0; k < counts.member.size(); ++k) {
    const Count& count = counts.member[k];
    if (count.steps == 0) continue;
    ServerShare* share = balance->mutable_server(static_cast<int>(k));
    share->set_in_per_step(count.in / count.steps);
    share->set_out_per_step(count.out / count.steps);
  }
  *result->mutable_balance() = *std::move(balance);
}

}  // namespace lockstep
