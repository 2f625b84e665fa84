// Settings that contradict each other: of one mode beside another, of sizes, of planned faults.
#include <gtest/gtest.h>

#include "tests/experiments/spec/spec_support.h"

namespace lockstep {
namespace {

class ConflictTest : public testing::TestWithParam<BadSpec> {};
TEST_P(ConflictTest, NamesEveryErrorWithItsLine) { ExpectBad(GetParam()); }

const BadSpec kConflicts[] = {
    {"SweepSizeTwice",
     "workers: 4",
     "workers: [4, 2, 4]",
     {{5, {"workers[2]: 4 is listed twice; to repeat a run, raise blocks"}}}},
    {"BatchNotDivisibleByTwoOfThreeSizes",
     "workers: 4",
     "workers: [1, 3, 5]",
     {{4,
       {"train.global_batch[0]: 128 samples can't be shared equally by 3 or 5 workers; write 120 "
        "or 135, or change workers"}}}},
    {"OneSizeOutOfRange",
     "workers: 4",
     "workers: [4, 65]",
     {{5, {"workers[1]: 65 is out of range"}}}},
    // 8 workers * (4 * 1,205 + 4,096) bytes.
    {"StagedBytesOfTheLargestSize",
     "workers: 4",
     "workers: [8, 4]\nlimits { staged_bytes_max: 71327 }",
     {{6, {"t:6:10: limits.staged_bytes_max: staged_bytes_max is 71327", "71328 bytes"}}}},
    {"StalenessAndKWithSync",
     "ps { servers: 2 }",
     "ps { staleness: 3 k: 2 }",
     {{7, {"variant[1].ps.staleness: conflicts with mode SYNC: only mode BOUNDED reads it"}},
      {7, {"variant[1].ps.k: conflicts with mode SYNC: only mode K_OF_N reads it"}}}},
    {"Bounded",
     "ps { servers: 2 }",
     "ps { mode: BOUNDED staleness: 3 }",
     {{7, {"variant[1].ps.mode: BOUNDED is not built yet; built today: SYNC, ASYNC"}}}},
    {"RateWithSync",
     "ps { servers: 2 }",
     "ps { rate: FULL }",
     {{7, {"variant[1].ps.rate: conflicts with mode SYNC: only mode ASYNC divides"}}}},
    {"ServersWithRing",
     "all_reduce {}",
     "all_reduce { servers: 2 }",
     {{8,
       {"variant[2].all_reduce.servers: conflicts with algorithm RING: only PS_EXCHANGE has ranks "
        "that only sum"}}}},
    {"EngineNotBuilt",
     "all_reduce {}",
     "all_reduce { engine: NCCL }",
     {{8, {"variant[2].all_reduce.engine: NCCL is not built yet; built today: HOST, MPI, GLOO"}}}},
    {"AlgorithmOfAnotherLibrary",
     "all_reduce {}",
     "all_reduce { engine: GLOO algorithm: RING }",
     {{8,
       {"variant[2].all_reduce.algorithm: conflicts with engine GLOO: that library chooses its own "
        "way; remove algorithm"}}}},
    {"GroupsWithoutHierarchy",
     "all_reduce {}",
     "all_reduce { group_size: 2 }",
     {{8,
       {"variant[2].all_reduce.group_size: conflicts with algorithm RING: only HIERARCHICAL has "
        "groups; remove group_size"}}}},
    {"GroupsThatDoNotFit",
     "all_reduce {}",
     "all_reduce { algorithm: HIERARCHICAL group_size: 3 }",
     {{8, {"variant[2].all_reduce.group_size: 3 does not divide 4 workers; write a divisor"}}}},
    {"MoreServersThanWorkersBesideThem",
     "all_reduce {}",
     "all_reduce { algorithm: PS_EXCHANGE placement: COLOCATED servers: 5 }",
     {{8,
       {"variant[2].all_reduce.servers: 5 conflicts with placement COLOCATED and 4 workers: at "
        "most "
        "as many servers as workers"}}}},
    {"RankOrder",
     "workers: 4",
     "workers: 4 reduction_order: RANK",
     {{5, {"reduction_order: RANK is not built yet; built today: ENGINE, EXACT"}}}},
    {"HalfPrecisionWithAServer",
     "workers: 4",
     "workers: 4 wire_dtype: F16",
     {{5,
       {"t:5:12: wire_dtype[0]: F16 conflicts with variant[1] \"ps\": a parameter server speaks "
        "F32"}}}},
    {"ExactDouble",
     "workers: 4\nvariant { name: \"none\" none {} }\nvariant { name: \"ps\" ps { servers: 2 } }",
     "workers: 4 reduction_order: EXACT wire_dtype: F64",
     {{5, {"wire_dtype[0]: F64 conflicts with reduction_order EXACT"}}}},
    {"FaultNotBuilt",
     "workers: 4",
     "workers: 4 fault { at { step: 5 } target: \"server:0\" kind: KILL }",
     {{5, {"fault[0].target: \"server:0\" is not built yet; built today: worker:i"}}}},
    {"FaultKindNotBuilt",
     "workers: 4",
     "workers: 4 fault { at { step: 5 } target: \"worker:0\" kind: SLOW }",
     {{5, {"fault[0].kind: SLOW is not built yet; built today: KILL, FREEZE, RESTART, DROP"}}}},
    {"FreezeForNoTime",
     "workers: 4",
     "workers: 4\nfault { at { step: 5 } target: \"worker:0\" kind: FREEZE }\n"
     "fault { at { step: 5 } target: \"worker:0\" kind: FREEZE for: \"soon\" }\n"
     "fault { at { step: 5 } target: \"worker:0\" kind: KILL for: \"1s\" }",
     {{6, {"fault[0].for is missing; add for: \"500ms\""}},
      {7, {"fault[1].for: \"soon\" is not a duration of at least 1 ms"}},
      {8, {"fault[2].for: conflicts with kind KILL: only FREEZE and DELAY last"}}}},
    {"MessageFaults",
     "workers: 4\nvariant { name: \"none\" none {} }\nvariant { name: \"ps\" ps { servers: 2 } }",
     "workers: 4\n"
     "fault { at { step: 5 } target: \"worker:1\" kind: DROP }\n"
     "fault { at { step: 5 } target: \"worker:1\" kind: DROP message { to: 1 } }\n"
     "fault { at { step: 5 } target: \"worker:1\" kind: CORRUPT message { to: 9 } }\n"
     "fault { at { step: 5 } target: \"worker:1\" kind: KILL message { to: 0 } }\n"
     "fault { at { step: 5 } target: \"worker:1\" kind: DROP message { to: 0 } after_bucket: 1 }",
     {{6, {"fault[0].message.to is missing; add message { to: 1 }"}},
      {7, {"fault[1].message.to: a worker sends nothing to itself"}},
      {8, {"fault[2].message.to: there is no worker:9 with 4 workers"}},
      {9, {"fault[3].message: conflicts with kind KILL: only DROP"}},
      {10, {"fault[4].after_bucket: conflicts with kind DROP: KILL, FREEZE and RESTART"}}}},
    {"MessageFaultWithAServer",
     "workers: 4",
     "workers: 4 fault { at { step: 5 } target: \"worker:1\" kind: DROP message { to: 0 } }",
     {{5, {"fault[0].kind: DROP conflicts with variant \"none\""}},
      {5, {"fault[0].kind: DROP conflicts with variant \"ps\""}}}},
    {"RestartWithoutReplacement",
     "workers: 4\nvariant { name: \"none\" none {} }\nvariant { name: \"ps\" ps { servers: 2 } }",
     "workers: 4\nfault { at { step: 5 } target: \"worker:1\" kind: RESTART }",
     {{6,
       {"fault[0].kind: RESTART conflicts with variant \"ring\": only all_reduce with on_loss "
        "REPLACE"}}}},
    {"ShrinkingASum",
     "workers: 4\nvariant { name: \"none\" none {} }\nvariant { name: \"ps\" ps { servers: 2 } }",
     "workers: 4 reduce_op: SUM\nvariant { name: \"mine\" all_reduce { on_loss: SHRINK } }",
     {{6, {"variant[0].all_reduce.on_loss: SHRINK conflicts with reduce_op SUM"}}}},
    {"RebuildingSummingRanks",
     "workers: 4\nvariant { name: \"none\" none {} }\nvariant { name: \"ps\" ps { servers: 2 } }",
     "workers: 4\nvariant { name: \"x\" all_reduce { algorithm: PS_EXCHANGE on_loss: REPLACE } }",
     {{6, {"variant[0].all_reduce.on_loss: conflicts with algorithm PS_EXCHANGE"}}}},
    {"RebuildingOwnStarts",
     "workers: 4\nvariant { name: \"none\" none {} }\nvariant { name: \"ps\" ps { servers: 2 } }",
     "workers: 4 broadcast_start: false\n"
     "variant { name: \"x\" all_reduce { on_loss: REPLACE } }",
     {{6, {"variant[0].all_reduce.on_loss: conflicts with broadcast_start: false"}}}},
    {"FaultAtATime",
     "workers: 4",
     "workers: 4 fault { at { step: 5 time: \"2s\" } target: \"worker:0\" kind: NAN_GRADIENT }",
     {{5, {"fault[0].at.time: not built yet"}}}},
    {"FaultBesideTheRun",
     "workers: 4",
     "workers: [4, 2]\nfault { at { step: 61 } target: \"worker:2\" kind: NAN_GRADIENT }",
     {{6, {"t:6:14: fault[0].at.step: 61 is behind the last step, 60"}},
      {6, {"fault[0].target: there is no worker:2 with 2 workers: the last is worker:1"}}}},
    {"FaultOfAServer",
     "workers: 4",
     "workers: 4 fault { at { step: 1 } target: \"server:0\" kind: NAN_GRADIENT }",
     {{5, {"fault[0].target: \"server:0\" is not built yet; built today: worker:i"}}}},
    {"FaultWithoutAnything",
     "workers: 4",
     "workers: 4 fault {}",
     {{5, {"fault[0].kind is missing; add kind: NAN_GRADIENT"}},
      {5, {"fault[0].target is missing"}},
      {5, {"fault[0].at.step is missing"}}}},
};
INSTANTIATE_TEST_SUITE_P(Modes, ConflictTest, testing::ValuesIn(kConflicts),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep
