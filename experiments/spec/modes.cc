#include "absl/strings/str_cat.h"
#include "experiments/spec/checker.h"
#include "experiments/spec/size.h"

namespace lockstep {
namespace {

// A field of all_reduce that one algorithm alone reads.
struct OneAlgorithms {
  AllReduceSync::Algorithm algorithm;
  const char* field;
  bool (*written)(const AllReduceSync&);
  const char* reads;
};
constexpr OneAlgorithms kOneAlgorithms[] = {
    {AllReduceSync::PS_EXCHANGE, "servers",
     [](const AllReduceSync& sync) { return sync.servers_size() > 0; },
     "only PS_EXCHANGE has ranks that only sum"},
    {AllReduceSync::PS_EXCHANGE, "placement",
     [](const AllReduceSync& sync) { return sync.has_placement(); },
     "only PS_EXCHANGE has ranks that only sum"},
    {AllReduceSync::HIERARCHICAL, "group_size",
     [](const AllReduceSync& sync) { return sync.has_group_size(); },
     "only HIERARCHICAL has groups"},
};

// The ranks that sum are workers, or the groups are made of them: the numbers must fit.
void CheckWorkersFit(const Checker& check, const AllReduceSync& sync, const std::string& path) {
  const bool colocated = sync.algorithm() == AllReduceSync::PS_EXCHANGE &&
                         sync.placement() == AllReduceSync::COLOCATED;
  const bool split =
      sync.algorithm() == AllReduceSync::PS_EXCHANGE && sync.placement() == AllReduceSync::SPLIT;
  for (const int workers : UsableWorkers(check.experiment)) {
    if ((colocated || split) && SummingRanksOf(sync) > workers) {
      check.Error(JoinPath(path, "servers"),
                  absl::StrCat(SummingRanksOf(sync), " conflicts with placement ",
                               AllReduceSync::Placement_Name(sync.placement()), " and ", workers,
                               " workers: at most as many servers as workers; lower servers"));
    }
    const int group = sync.group_size();
    if (sync.algorithm() == AllReduceSync::HIERARCHICAL && group > 0 && workers % group != 0) {
      check.Error(JoinPath(path, "group_size"),
                  absl::StrCat(group, " does not divide ", workers,
                               " workers; write a divisor, or leave it out for the one nearest "
                               "the square root"));
    }
  }
}

// Settings of our own engine.
struct OurEngines {
  const char* field;
  bool (*written)(const AllReduceSync&);
};
constexpr OurEngines kOurEngines[] = {
    {"algorithm", [](const AllReduceSync& sync) { return sync.has_algorithm(); }},
    {"link", [](const AllReduceSync& sync) { return sync.has_link(); }},
    {"channels", [](const AllReduceSync& sync) { return sync.has_channels(); }},
};

// Our own algorithms, as far as there is a kernel.
void CheckKernels(const Checker& check, const AllReduceSync& sync, const std::string& path) {
  constexpr AllReduceSync::Algorithm kKernels[] = {AllReduceSync::AUTO, AllReduceSync::RING,
                                                   AllReduceSync::TREE, AllReduceSync::DOUBLE_TREE,
                                                   AllReduceSync::DIRECT};
  if (sync.has_link()) {
    check.Error(JoinPath(path, "link"),
                "conflicts with engine CUDA: its kernels reach each other's memory; remove link");
  }
  if (std::find(std::begin(kKernels), std::end(kKernels), sync.algorithm()) == std::end(kKernels)) {
    check.Error(JoinPath(path, "algorithm"),
                absl::StrCat(AllReduceSync::Algorithm_Name(sync.algorithm()),
                             " conflicts with engine CUDA: there are kernels for RING, TREE, "
                             "DOUBLE_TREE and DIRECT; write one of them, or AUTO, which chooses by "
                             "size"));
  }
}

// A block that one engine reads.
struct EngineBlock {
  const char* field;
  bool written;
  AllReduceSync::Engine reader;
};
void CheckReader(const Checker& check, const AllReduceSync& sync, const std::string& path,
                 const EngineBlock& block) {
  if (!block.written || sync.engine() == block.reader) return;
  const std::string& reader = AllReduceSync::Engine_Name(block.reader);
  check.Error(
      JoinPath(path, block.field),
      absl::StrCat("conflicts with engine ", AllReduceSync::Engine_Name(sync.engine()), ": only ",
                   reader, " reads it; write engine: ", reader, ", or remove ", block.field));
}

void CheckEngine(const Checker& check, const AllReduceSync& sync, const std::string& path) {
  CheckReader(check, sync, path, {"nccl", sync.has_nccl(), AllReduceSync::NCCL});
  CheckReader(check, sync, path, {"cuda", sync.has_cuda(), AllReduceSync::CUDA});
  if (sync.engine() == AllReduceSync::HOST) return;
  if (sync.engine() == AllReduceSync::CUDA) return CheckKernels(check, sync, path);
  for (const OurEngines& row : kOurEngines) {
    if (!row.written(sync)) continue;
    check.Error(JoinPath(path, row.field),
                absl::StrCat("conflicts with engine ", AllReduceSync::Engine_Name(sync.engine()),
                             ": that library chooses its own way; remove ", row.field));
  }
}

void CheckAllReduce(const Checker& check) {
  for (int i = 0; i < check.experiment.variant_size(); ++i) {
    if (!check.experiment.variant(i).has_all_reduce()) continue;
    const AllReduceSync& sync = check.experiment.variant(i).all_reduce();
    const std::string path = JoinPath(IndexedPath("variant", i), "all_reduce");
    for (const OneAlgorithms& row : kOneAlgorithms) {
      if (sync.algorithm() == row.algorithm || !row.written(sync)) continue;
      check.Error(
          JoinPath(path, row.field),
          absl::StrCat("conflicts with algorithm ", AllReduceSync::Algorithm_Name(sync.algorithm()),
                       ": ", row.reads, "; remove ", row.field));
    }
    CheckWorkersFit(check, sync, path);
    CheckEngine(check, sync, path);
  }
}

// What types the ways carry.
void CheckWireDtype(const Checker& check) {
  const Experiment& experiment = check.experiment;
  const DtypeSpec dtype = experiment.wire_dtype_size() > 0 ? experiment.wire_dtype(0) : F32;
  if (dtype == F32) return;
  constexpr char kPath[] = "wire_dtype[0]";
  const bool exact = experiment.reduction_order() == EXACT;
  for (int i = 0; i < experiment.variant_size(); ++i) {
    const Variant& variant = experiment.variant(i);
    if (dtype == F64 && variant.all_reduce().engine() == AllReduceSync::CUDA) {
      check.Error(
          kPath,
          absl::StrCat("F64 conflicts with ", IndexedPath("variant", i), " \"", variant.name(),
                       "\": engine CUDA has kernels for F32, F16 and BF16; write one "
                       "of them, or leave that variant out, as with --only"));
    }
    if (!variant.has_ps() || (dtype != F64 && !exact)) continue;
    check.Error(
        kPath,
        absl::StrCat(DtypeSpec_Name(dtype), " conflicts with ", IndexedPath("variant", i), " \"",
                     variant.name(), "\"",
                     dtype == F64 ? ": a parameter server speaks F32, F16 and BF16"
                                  : " and reduction_order EXACT: a parameter server keeps the sum "
                                    "in F32, where a collective rounds it, so their bits would "
                                    "differ",
                     "; write F32, or leave that variant out, as with --only"));
  }
  if (dtype == F64 && exact) {
    check.Error(kPath,
                "F64 conflicts with reduction_order EXACT, which sums F32, F16 and BF16; write "
                "another type, or reduction_order ENGINE");
  }
}

}  // namespace

void CheckModes(const Checker& check) {
  CheckPsModes(check);
  CheckAllReduce(check);
  CheckWireDtype(check);
}

}  // namespace lockstep
