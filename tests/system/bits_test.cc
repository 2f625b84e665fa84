// The project's central proof, with real processes and sockets: in EXACT order every synchronous
// way ends with the same bits; in its own order, exactly the ways whose additions are the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/places.h"
#include "tests/system/comparison.h"

namespace lockstep {
namespace {

constexpr char kNoDifference[] = "identical";

// Six blocks of parameters, so that three servers have two each; 60 samples are shared equally by
// 3, 4 and 5 workers.
constexpr char kSpec[] = R"(name: "bits"
model { mlp { layers: [64, 48, 10] } }
data { digits {} }
train { global_batch: 60 steps: 3 optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } } }
blocks: 1
probe { every: 1 }
variant { name: "ps-1" ps { servers: 1 } }
variant { name: "ps-2" ps { servers: 2 } }
variant { name: "ps-3" ps { servers: 3 } }
variant { name: "schedule-1" all_reduce { algorithm: PS_EXCHANGE servers: 1 } }
variant { name: "schedule-2" all_reduce { algorithm: PS_EXCHANGE servers: 2 } }
variant { name: "naive" all_reduce { algorithm: NAIVE } }
variant { name: "ring" all_reduce { algorithm: RING } }
variant { name: "tree" all_reduce { algorithm: TREE } }
variant { name: "star" all_reduce { algorithm: STAR } }
variant { name: "double-tree" all_reduce { algorithm: DOUBLE_TREE } }
variant { name: "halving-doubling" all_reduce { algorithm: HALVING_DOUBLING } }
variant { name: "recursive-doubling" all_reduce { algorithm: RECURSIVE_DOUBLING } }
variant { name: "direct" all_reduce { algorithm: DIRECT } }
variant { name: "hierarchical" all_reduce { algorithm: HIERARCHICAL } }
variant { name: "colocated" all_reduce { algorithm: PS_EXCHANGE servers: 2 placement: COLOCATED } }
variant { name: "split" all_reduce { algorithm: PS_EXCHANGE servers: 1 placement: SPLIT } }
variant { name: "ring-shm" all_reduce { algorithm: RING link: SHM } }
variant { name: "direct-shm" all_reduce { algorithm: DIRECT link: SHM } }
)";
constexpr int kVariants = 18;

// How the same gradients are cut on their way.
struct Cut {
  double bucket_cap_mb;
  int chunk_bytes;
  int channels;
};
// The second makes several buckets, many chunks of a length that no element divides evenly, and
// spreads them.
constexpr Cut kCuts[] = {{25, 1 << 20, 1}, {0.002, 1'006, 3}};

std::vector<std::string> Arguments(const std::string& spec, int workers, const Cut& cut) {
  std::vector<std::string> arguments = {spec,
                                        "--set",
                                        "workers=" + std::to_string(workers),
                                        "--set",
                                        "bucket_cap_mb=" + std::to_string(cut.bucket_cap_mb),
                                        "--set",
                                        "limits.chunk_bytes=" + std::to_string(cut.chunk_bytes)};
  for (const char* name : {"schedule-1", "schedule-2", "naive", "ring", "tree", "double-tree",
                           "halving-doubling", "direct", "ring-shm"}) {
    arguments.insert(arguments.end(),
                     {"--set", "variant[" + std::string(name) +
                                   "].all_reduce.channels=" + std::to_string(cut.channels)});
  }
  return arguments;
}

void ExpectComplete(const Compared& compared) {
  ASSERT_EQ(compared.result.exit_code, 0) << compared.result.out << compared.result.err;
  ASSERT_EQ(compared.run.runs_size(), kVariants);
  for (const VariantResult& variant : compared.run.runs()) {
    EXPECT_EQ(variant.replicas().state(), kNoDifference) << variant.id();
    EXPECT_EQ(variant.final_hash().size(), 32U) << variant.id();
  }
}

class ExactTest : public testing::TestWithParam<int> {};

TEST_P(ExactTest, EverySynchronousWayEndsWithOneHash) {
  std::map<std::string, std::set<std::string>> ways;  // by final hash
  for (const Cut& cut : kCuts) {
    const TemporaryDir dir;
    std::vector<std::string> arguments = Arguments(SpecFile(dir, kSpec), GetParam(), cut);
    arguments.insert(arguments.end(), {"--set", "reduction_order=EXACT"});
    const Compared compared = Compare(dir, arguments);
    ExpectComplete(compared);
    EXPECT_EQ(compared.run.experiment().reduction_order(), "exact");
    for (const VariantResult& variant : compared.run.runs()) {
      ways[variant.final_hash()].insert(variant.id() + " in buckets of " +
                                        std::to_string(cut.bucket_cap_mb) + " MiB");
    }
  }
  EXPECT_EQ(ways.size(), 1U) << testing::PrintToString(ways);
}

INSTANTIATE_TEST_SUITE_P(Bits, ExactTest, testing::Values(3, 4, 5),
                         [](const auto& test) { return "Workers" + std::to_string(test.param); });

class EngineTest : public testing::TestWithParam<int> {};

// The addition-tree predictor says which ways agree, and the bits confirm it.
TEST_P(EngineTest, TheSameAdditionsMakeTheSameBits) {
  const TemporaryDir dir;
  const Compared compared = Compare(dir, Arguments(SpecFile(dir, kSpec), GetParam(), kCuts[1]));
  ExpectComplete(compared);
  std::map<std::string, std::set<std::string>> hashes;  // by addition order
  std::map<std::string, std::set<std::string>> orders;  // by final hash
  for (const VariantResult& variant : compared.run.runs()) {
    ASSERT_FALSE(variant.addition_order().empty()) << variant.id();
    hashes[variant.addition_order()].insert(variant.final_hash());
    orders[variant.final_hash()].insert(variant.addition_order());
  }
  for (const auto& [order, bits] : hashes) EXPECT_EQ(bits.size(), 1U) << order;
  for (const auto& [bits, order] : orders) {
    EXPECT_EQ(order.size(), 1U) << testing::PrintToString(order);
  }
  EXPECT_GE(hashes.size(), 2U) << "a ring starts each chunk at a rank of its own";
}

INSTANTIATE_TEST_SUITE_P(Bits, EngineTest, testing::Values(3, 4),
                         [](const auto& test) { return "Workers" + std::to_string(test.param); });

// AUTO, and the engines of other libraries, which say nothing of their additions: in EXACT order
// that makes no difference.
TEST(OtherEnginesTest, EndWithTheSameHash) {
  const TemporaryDir dir;
  std::string spec = R"(name: "engines" model { mlp { layers: [64, 48, 10] } } data { digits {} }
train { global_batch: 60 steps: 3 optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } } }
blocks: 1 workers: 3 reduction_order: EXACT
variant { name: "ring" all_reduce { algorithm: RING } }
variant { name: "auto" all_reduce { algorithm: AUTO } }
variant { name: "auto-shm" all_reduce { algorithm: AUTO link: SHM } }
)";
  int variants = 3;
  for (const char* library : {"gloo", "mpi"}) {
    const std::string object = "/liblockstep_" + std::string(library) + ".so";
    if (!std::filesystem::exists(BinDir() + object)) continue;  // not installed here
    spec += "variant { name: \"" + std::string(library) +
            "\" all_reduce { engine: " + (library == std::string("mpi") ? "MPI" : "GLOO") +
            " } }\n";
    ++variants;
  }
  const Compared compared = Compare(dir, {SpecFile(dir, spec)});
  ASSERT_EQ(compared.result.exit_code, 0) << compared.result.out << compared.result.err;
  ASSERT_EQ(compared.run.runs_size(), variants);
  std::map<std::string, std::set<std::string>> ways;  // by final hash
  for (const VariantResult& variant : compared.run.runs()) {
    EXPECT_EQ(variant.replicas().state(), kNoDifference) << variant.id();
    ways[variant.final_hash()].insert(variant.id());
  }
  EXPECT_EQ(ways.size(), 1U) << testing::PrintToString(ways);
}

// When a bucket travels has no say in what is added.
TEST(OverlapTest, ChangesNoBit) {
  const TemporaryDir beside_dir;
  const TemporaryDir after_dir;
  const auto arguments = [](const TemporaryDir& dir, const std::string& overlap) {
    std::vector<std::string> all = Arguments(SpecFile(dir, kSpec), 3, kCuts[1]);
    all.insert(all.end(), {"--set", "overlap=" + overlap});
    return all;
  };
  const Compared beside = Compare(beside_dir, arguments(beside_dir, "true"));
  const Compared after = Compare(after_dir, arguments(after_dir, "false"));
  ExpectComplete(beside);
  ExpectComplete(after);
  EXPECT_TRUE(beside.run.experiment().overlap());
  EXPECT_FALSE(after.run.experiment().overlap());
  for (const VariantResult& variant : beside.run.runs()) {
    const VariantResult& other = VariantOf(after.run, variant.id());
    EXPECT_EQ(variant.final_hash(), other.final_hash()) << variant.id();
    EXPECT_LT(other.anatomy_us().hidden(), 1) << variant.id() << ": not even a microsecond";
  }
}

}  // namespace
}  // namespace lockstep
