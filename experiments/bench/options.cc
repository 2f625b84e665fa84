#include "experiments/bench/options.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "allreduce/schedule/algorithm.h"
#include "allreduce/schedule/schedule.h"
#include "base/numeric/support.h"
#include "base/status.h"
#include "experiments/bench/contestant.h"
#include "experiments/bench/protocol.h"

namespace lockstep {
namespace {

constexpr int kRanksMax = 64;

std::vector<std::string> Words(const std::string& list) {
  return absl::StrSplit(list, ',', absl::SkipEmpty());
}

absl::StatusOr<std::vector<std::string>> WordsOf(const std::string& option, const std::string& list,
                                                 const std::set<std::string>& known) {
  std::vector<std::string> words = Words(list);
  for (const std::string& word : words) {
    if (known.contains(word)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", option, ": '", word, "' is none of ", absl::StrJoin(known, ", ")));
  }
  return words;
}

std::set<std::string> KnownAlgorithms() {
  std::set<std::string> names = {kReduceBroadcast, kReduceScatterAllGather,
                                 NameOf(Algorithm::kAuto)};
  for (const Algorithm algorithm : kAlgorithms) names.insert(NameOf(algorithm));
  return names;
}

// Of 1..`max` each.
absl::StatusOr<std::vector<int>> CountsOf(const char* option, const std::string& text, int max) {
  std::vector<int> counts;
  for (const std::string& word : Words(text)) {
    int n = 0;
    if (!absl::SimpleAtoi(word, &n) || n < 1 || n > max) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", option, ": '", word, "' must be a number of 1..", max));
    }
    counts.push_back(n);
  }
  if (counts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--", option, ": empty, e.g. --", option, " 2"));
  }
  return counts;
}

absl::Status CheckAtLeast(const char* option, double value, double least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", option, ": ", value, " is below ", least));
}

absl::Status ReadReduction(const BenchArguments& arguments, BenchOptions* options) {
  const std::optional<Dtype> dtype = DtypeNamed(arguments.dtype);
  const std::optional<ReduceOp> op = ReduceOpNamed(arguments.op);
  if (!dtype.has_value() || !op.has_value() || !Supports(*dtype, *op)) {
    return absl::InvalidArgumentError(absl::StrCat("--dtype ", arguments.dtype, " --op ",
                                                   arguments.op, " is not there. Every engine has ",
                                                   SupportText()));
  }
  options->dtype = *dtype;
  options->op = *op;
  return absl::OkStatus();
}

// Whole elements, at least one.
void CutToElements(Dtype dtype, std::vector<int64_t>* bytes) {
  std::set<int64_t> whole;
  for (const int64_t size : *bytes) {
    whole.insert(std::max<int64_t>(size / SizeOf(dtype), 1) * SizeOf(dtype));
  }
  bytes->assign(whole.begin(), whole.end());
}

// A minute in all: is everything in order?
void MakeQuick(BenchOptions* options) {
  constexpr int64_t kBytesQuick = int64_t{4} << 20;
  std::erase_if(options->bytes, [](int64_t bytes) { return bytes > kBytesQuick; });
  if (options->bytes.size() > 3) {
    options->bytes = {options->bytes.front(), options->bytes[options->bytes.size() / 2],
                      options->bytes.back()};
  }
  std::erase_if(options->ranks, [](int n) { return n > 4; });
  options->rounds = 3;
  options->seconds = 3;
  options->turn_ms = 10;
  options->channels.resize(1);
  options->mpi_connections = {1};
  options->mpi_algorithms = {"default", "recursive_doubling", "ring"};
  options->gloo_algorithms = {"ring"};
  options->nccl_algorithms = {""};
  options->cuda_algorithms = {"default", "ring"};
}

}  // namespace

absl::StatusOr<BenchOptions> ReadOptions(const BenchArguments& arguments) {
  BenchOptions options;
  absl::StatusOr<std::vector<int64_t>> sizes = ParseSizes(arguments.sizes);
  RETURN_IF_ERROR(Annotate(sizes.status(), "--sizes"));
  options.bytes = *std::move(sizes);
  ASSIGN_OR_RETURN(options.ranks, CountsOf("ranks", arguments.ranks, kRanksMax));
  ASSIGN_OR_RETURN(options.channels, CountsOf("channels", arguments.channels, kChannelsMax));
  RETURN_IF_ERROR(ReadReduction(arguments, &options));
  ASSIGN_OR_RETURN(options.links, WordsOf("links", arguments.links, {"tcp", "shm"}));
  ASSIGN_OR_RETURN(options.peers,
                   WordsOf("peers", arguments.peers, {"mpi", "gloo", "nccl", "cuda", "none"}));
  std::erase(options.peers, "none");
  ASSIGN_OR_RETURN(const std::vector<std::string> algorithms,
                   WordsOf("algorithms", arguments.algorithms, KnownAlgorithms()));
  options.tcp_algorithms = algorithms.empty() ? std::vector<std::string>{"ring",
                                                                         "tree",
                                                                         "star",
                                                                         "recursive_doubling",
                                                                         "halving_doubling",
                                                                         "direct",
                                                                         "auto"}
                                              : algorithms;
  options.shm_algorithms =
      algorithms.empty() ? std::vector<std::string>{"direct", "ring", "tree"} : algorithms;
  RETURN_IF_ERROR(CheckAtLeast("warmup", arguments.warmup, 1));
  RETURN_IF_ERROR(CheckAtLeast("rounds", arguments.rounds, 1));
  RETURN_IF_ERROR(CheckAtLeast("servers", arguments.servers, 1));
  RETURN_IF_ERROR(CheckAtLeast("timeout-ms", static_cast<double>(arguments.timeout_ms), 1));
  if (options.links.empty()) return absl::InvalidArgumentError("--links: empty, e.g. tcp,shm");
  options.warmup = arguments.warmup;
  options.rounds = arguments.rounds;
  options.seconds = arguments.seconds;
  options.servers = arguments.servers;
  options.timeout_ms = arguments.timeout_ms;
  // linear and nonoverlapping are never the best: they are the textbook's.
  options.mpi_algorithms = {"default", "recursive_doubling", "ring", "segmented_ring",
                            "rabenseifner"};
  options.mpi_connections = {1, 2};
  options.gloo_algorithms = {"ring", "ring_chunked", "halving_doubling"};
  options.nccl_algorithms = {"", "Ring", "Tree"};
  options.cuda_algorithms = {"default", "ring", "tree", "double_tree", "direct"};
  options.nccl_library = arguments.nccl_library;
  CutToElements(options.dtype, &options.bytes);
  if (arguments.quick) MakeQuick(&options);
  if (options.bytes.empty() || options.ranks.empty()) {
    return absl::InvalidArgumentError("--quick leaves out ranks above 4 and sizes above 4 MiB");
  }
  return options;
}

}  // namespace lockstep
