// The heading of each picture: every claim with its guard, on both sides of each threshold.
#include "experiments/report/findings.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <string>

#include "absl/strings/str_replace.h"

namespace lockstep {
namespace {

RunFile Parse(const std::string& text) {
  RunFile run;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &run)) << text;
  return run;
}

// With plain spaces where the page has no-break ones.
std::string Plain(const std::string& text) { return absl::StrReplaceAll(text, {{"\u00a0", " "}}); }

struct Case {
  const char* name;
  std::string (*finding)(const PageView&);
  std::string run;
  const char* says;
};

class FindingTest : public testing::TestWithParam<Case> {};

TEST_P(FindingTest, Says) {
  const RunFile run = Parse(GetParam().run);
  EXPECT_EQ(Plain(GetParam().finding(MakeView(run))), GetParam().says);
}

std::string Name(const testing::TestParamInfo<Case>& param_info) { return param_info.param.name; }

// A ranked ring (r) and tree (t), completed by what a case is about.
std::string Two(const std::string& ring, const std::string& tree, const std::string& rest = "") {
  return "runs { id: 'r' mode: 'all_reduce' ranked: true complete: true workers: 4 " + ring +
         " } runs { id: 't' mode: 'all_reduce' ranked: true complete: true workers: 4 " + tree +
         " } " + rest;
}

// Throughputs of r and t at 1 and 4 workers, with intervals of +-2.
std::string Scaled(double r4, double t4, const std::string& rest = "") {
  const auto one = [](const std::string& id, int workers, double speed) {
    return "runs { id: '" + id + std::to_string(workers) + "' variant: '" + id +
           "' ranked: true workers: " + std::to_string(workers) +
           " samples_per_s { n: 5 median: " + std::to_string(speed) +
           " low: " + std::to_string(speed - 2) + " high: " + std::to_string(speed + 2) + " } } ";
  };
  return one("r", 1, 100) + one("r", 4, r4) + one("t", 1, 100) + one("t", 4, t4) + rest;
}

INSTANTIATE_TEST_SUITE_P(
    Scaling, FindingTest,
    testing::Values(Case{"Apart", ScalingFinding, Scaled(360, 280),
                         "r keeps 90 % of linear speed at 4 workers, t 70 %"},
                    Case{"Near", ScalingFinding, Scaled(360, 310), "Throughput by workers"},
                    Case{"CpuBound", ScalingFinding, Scaled(360, 280, "host { cpu_bound: true }"),
                         "Throughput by workers"},
                    Case{"OneSize", ScalingFinding, Two("samples_per_s { n: 1 median: 5 }", ""),
                         "Throughput by workers"}),
    Name);

std::string Busiest(double bytes, double formula) {
  return "busiest { node: 'worker 0' direction: 'out' bytes_per_step: " + std::to_string(bytes) +
         " formula: " + std::to_string(formula) + " }";
}

INSTANTIATE_TEST_SUITE_P(
    Busiest, FindingTest,
    testing::Values(
        Case{"Apart", BusiestFinding, Two(Busiest(502, 500), Busiest(1004, 1000)),
             "The busiest link of t carries 2.0 times what that of r carries, as the formulas say"},
        Case{"WithoutFormula", BusiestFinding, Two(Busiest(502, 0), Busiest(1004, 1000)),
             "The busiest link of t carries 2.0 times what that of r carries"},
        Case{"Near", BusiestFinding, Two(Busiest(502, 500), Busiest(530, 530)), "Busiest link"},
        Case{"OffFormula", BusiestFinding, Two(Busiest(502, 500), Busiest(1050, 1000)),
             "The busiest link of t is +5.00 % off its formula"},
        Case{"NotMeasured", BusiestFinding, Two("", ""), "Busiest link"}),
    Name);

std::string Step(double compute, double sync) {
  return "anatomy_us { compute: " + std::to_string(compute) + " sync: " + std::to_string(sync) +
         " }";
}

INSTANTIATE_TEST_SUITE_P(
    Anatomy, FindingTest,
    testing::Values(Case{"Apart", AnatomyFinding, Two(Step(70, 30), Step(50, 50)),
                         "Synchronisation takes 30 % of a step of r, 50 % of t"},
                    Case{"Near", AnatomyFinding, Two(Step(70, 30), Step(65, 35)),
                         "Where the time of a step goes"},
                    Case{"CpuBound", AnatomyFinding,
                         Two(Step(70, 30), Step(50, 50), "host { cpu_bound: true }"),
                         "Where the time of a step goes"}),
    Name);

constexpr char kDrifting[] =
    "runs { id: 'none' mode: 'none' workers: 4 replicas { state: 'diverged' max_rel { "
    "number_value: 0.3 } } }";

INSTANTIATE_TEST_SUITE_P(
    Divergence, FindingTest,
    testing::Values(
        Case{"Identical", DivergenceFinding,
             Two("replicas { state: 'identical' }", "replicas { state: 'identical' }", kDrifting),
             "r and t keep bit-identical replicas; none drifts 30 % apart"},
        Case{"Broken", DivergenceFinding,
             Two("replicas { state: 'identical' }", "replicas { state: 'diverged' }", kDrifting),
             "Replicas of t differ, although equality is promised"},
        // Nobody promised that copies of an asynchronous server are equal.
        Case{"Asynchronous", DivergenceFinding,
             Two("replicas { state: 'identical' }", "replicas { state: 'unchecked' }",
                 "runs { id: 'a' mode: 'ps_async' ranked: true workers: 4 replicas { state: "
                 "'diverged' first_diff_step: 3 } }"),
             "r keeps bit-identical replicas; a differs from step 3 on"},
        Case{"Unchecked", DivergenceFinding,
             Two("replicas { state: 'unchecked' }", "replicas { state: 'unchecked' }"),
             "Do the replicas stay the same?"}),
    Name);

std::string Ended(const std::string& hash, const std::string& order) {
  return "final_hash: '" + hash + "' addition_order: '" + order + "'";
}
constexpr char kExact[] = "experiment { reduction_order: 'EXACT' }";

INSTANTIATE_TEST_SUITE_P(
    SameBits, FindingTest,
    testing::Values(Case{"Same", SameBitsFinding, Two(Ended("aa", "x"), Ended("aa", "y")),
                         "r and t end with the same bits"},
                    Case{"Different", SameBitsFinding, Two(Ended("aa", "x"), Ended("bb", "y")),
                         "2 synchronous ways end with 2 different sets of bits"},
                    Case{"SameOrderBroken", SameBitsFinding,
                         Two(Ended("aa", "x"), Ended("bb", "x")),
                         "r and t end with different bits, although they add alike"},
                    Case{"ExactBroken", SameBitsFinding,
                         Two(Ended("aa", "x"), Ended("bb", "y"), kExact),
                         "r and t end with different bits, although EXACT promises the same"},
                    Case{"One", SameBitsFinding, Two(Ended("aa", "x"), ""), "Same bits?"}),
    Name);

std::string Stale(double mean, double expected) {
  return "staleness { mean_update: " + std::to_string(mean) +
         " expected_mean: " + std::to_string(expected) + " }";
}

INSTANTIATE_TEST_SUITE_P(
    Staleness, FindingTest,
    testing::Values(
        Case{"AtTheLaw", StalenessFinding, Two(Stale(2.6, 2.4), Stale(2.5, 2.4)),
             "An update of r is 2.60 updates old on average; the law says 2.40"},
        Case{"OffTheLaw", StalenessFinding, Two(Stale(2.6, 2.4), Stale(1.5, 2.4)),
             "An update of t is 1.50 updates old on average; that is off the law’s 2.40"},
        Case{"NotMeasured", StalenessFinding, Two("", ""), "Staleness"}),
    Name);

std::string Target(int seeds, int reached, double samples) {
  return "target { loss: 0.4 seeds: " + std::to_string(seeds) +
         " reached: " + std::to_string(reached) + " samples { n: " + std::to_string(reached) +
         " median: " + std::to_string(samples) + " low: " + std::to_string(samples - 10) +
         " high: " + std::to_string(samples + 10) + " } }";
}

INSTANTIATE_TEST_SUITE_P(
    Loss, FindingTest,
    testing::Values(Case{"Apart", LossFinding, Two(Target(5, 5, 6000), Target(5, 5, 9000)),
                         "t needs 1.5 times the samples of r to reach loss 0.400"},
                    Case{"FewSeeds", LossFinding, Two(Target(4, 4, 6000), Target(4, 4, 9000)),
                         "Does it still learn?"},
                    Case{"NotAllReached", LossFinding, Two(Target(5, 5, 6000), Target(5, 4, 9000)),
                         "Does it still learn?"},
                    Case{"Overlapping", LossFinding, Two(Target(5, 5, 6000), Target(5, 5, 6015)),
                         "Does it still learn?"}),
    Name);

}  // namespace
}  // namespace lockstep
