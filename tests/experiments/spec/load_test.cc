#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_replace.h"
#include "experiments/spec/conflicts.h"
#include "tests/experiments/spec/spec_support.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using google::protobuf::TextFormat;
using google::protobuf::util::MessageDifferencer;

class BadSpecTest : public testing::TestWithParam<BadSpec> {};
TEST_P(BadSpecTest, NamesEveryErrorWithItsLine) { ExpectBad(GetParam()); }

const BadSpec kNames[] = {
    {"UnknownField",
     "workers: 4",
     "wokers: 4",
     {{5,
       {"t:5:1: ", "unknown field \"wokers\" in the experiment", "did you mean \"workers\"?",
        "Known fields: name, model,"}}}},
    {"UnknownFieldsDoNotHideEachOther",
     "steps: 60 }",
     "step: 60 sgd { lr: 1 } }\nlimit {}",
     {{4, {"t:4:27: ", "\"step\" in train", "did you mean \"steps\"?"}},
      {4, {"\"sgd\" in train; known fields: global_batch, steps, optimizer, seeds"}},
      {5, {"did you mean \"limits\"?"}}}},
    {"UnknownEnumValue",
     "all_reduce {}",
     "all_reduce { algorithm: RINK engine: host }",
     {{8,
       {"t:8:48: ", "variant[2].all_reduce.algorithm: unknown value \"RINK\"",
        "did you mean \"RING\"?", "Known values: AUTO, NAIVE, STAR, RING"}},
      {8, {"engine: unknown value \"host\"; did you mean \"HOST\"?"}}}},
    {"QuotedEnumValue",
     "all_reduce {}",
     "all_reduce { algorithm: \"RING\" }",
     {{8, {"write RING without quotes"}}}},
    {"WrongTypes",
     "train { global_batch: 128 steps: 60 }",
     "train { global_batch: \"128\" steps: many optimizer: 3 }\noverlap: maybe\nbucket_cap_mb: x",
     {{4, {"train.global_batch[0]: expected a whole number up to 2147483647, got \"128\""}},
      {4, {"train.steps: expected a whole number", "got many"}},
      {4, {"train.optimizer: expected a block { } with the fields sgd, adam, adamw, got 3"}},
      {5, {"overlap: expected true or false, got maybe"}},
      {6, {"bucket_cap_mb[0]: expected a number, got x"}}}},
    {"NumberTooLarge",
     "steps: 60",
     "steps: 3000000000",
     {{4, {"train.steps: expected a whole number up to 2147483647"}}}},
    {"ListForOneValue",
     "steps: 60",
     "steps: [60, 70]",
     {{4, {"train.steps takes one value, got a list"}}}},
    {"BlockForNumber",
     "steps: 60",
     "steps { a: 1 }",
     {{4, {"train.steps: expected a whole number", "got a block { }"}}}},
    {"GivenTwice",
     "steps: 60",
     "steps: 60 steps: 70",
     {{4, {"train.steps is given twice, first at line 4"}}}},
    {"TwoOfAOneof",
     "none {} }",
     "none {} \n ring {} ps {} }",
     {{7, {"unknown field \"ring\" in variant[0]", "known fields: name, none, ps, all_reduce"}},
      {7, {"variant[0]: \"ps\" and \"none\" (line 6) exclude each other"}}}},
};
INSTANTIATE_TEST_SUITE_P(Names, BadSpecTest, testing::ValuesIn(kNames),
                         [](const auto& test) { return std::string(test.param.name); });

const BadSpec kSyntax[] = {
    {"MissingColon",
     "workers: 4",
     "workers 4",
     {{5, {"t:5:9: expected ':' after 'workers', got '4'"}}}},
    {"EqualsForColon",
     "workers: 4",
     "workers = 4",
     {{5, {"expected ':' after 'workers', got '='"}}}},
    {"MissingValue",
     "workers: 4",
     "workers:",
     {{6, {"expected a value for 'workers', got 'variant'"}}}},
    {"NeverClosed", "all_reduce {} }", "all_reduce {}", {{8, {"t:8:9: '{' is never closed"}}}},
    {"ClosesNothing", "workers: 4", "workers: 4 }", {{5, {"t:5:12: '}' closes nothing"}}}},
    {"ListNeverClosed",
     "[64, 32, 10]",
     "[64, 32, 10",
     {{2, {"expected ',' or ']' in the list, got '}'"}}}},
    {"OtherBracket", "digits {}", "digits {>", {{3, {"'>' closes the '{' of line 3"}}}},
    {"UnterminatedText",
     "name: \"test\"",
     "name: \"test",
     {{1, {"String literals cannot cross line boundaries"}}}},
    {"GoesOnBehindTheError",
     "train { global_batch: 128 steps: 60 }\nworkers: 4",
     "train { global_batch: 128 # ok\n ??? steps: 60\n stebs: 1 }\nworkers = 130",
     {{5, {"expected the name of a field, got '?'"}},
      {6, {"did you mean \"steps\"?"}},
      {7, {"workers[0]: 130 is out of range; allowed: 1 to 64 (worker processes)"}},
      {7, {"expected ':' after 'workers'"}}}},
    // What was not read is not missing: after a syntax error nothing is called missing.
    {"NothingIsMissingBehindTheError",
     "workers: 4",
     "{ workers: 4 }",
     {{5, {"expected the name of a field, got '{'"}}, {5, {"'}' closes nothing"}}}},
};
INSTANTIATE_TEST_SUITE_P(Syntax, BadSpecTest, testing::ValuesIn(kSyntax),
                         [](const auto& test) { return std::string(test.param.name); });

const BadSpec kMeaning[] = {
    {"NameWithBadLetters",
     "\"test\"",
     "\"../Test\"",
     {{1, {"name: \"../Test\" can't be used in file names"}}}},
    {"NameStartsWithADot", "\"ring\"", "\"..\"", {{8, {"variant[2].name: \"..\" can't be used"}}}},
    {"NameTwice",
     "\"ring\"",
     "\"ps\"",
     {{8, {"variant[2].name: \"ps\" is also the name of variant[1]"}}}},
    {"NoName", "name: \"ring\"", "", {{8, {"variant[2]: has no name"}}}},
    {"NoWayToSynchronise",
     "all_reduce {}",
     "",
     {{8, {"variant[2]: leaves sync open; add one of: none, ps, all_reduce"}}}},
    {"EmptyModel",
     "mlp { layers: [64, 32, 10] }",
     "",
     {{2, {"model: leaves kind open; add one of: mlp"}}}},
    {"FirstAndLastWidth",
     "[64, 32, 10]",
     "[\n32,\n11]",
     {{3, {"model.mlp.layers[0]: the first width is 32, but the digits have 8x8 = 64 pixels"}},
      {4, {"model.mlp.layers[1]: the last width is 11, but the digits have 10 classes"}}}},
    {"OneWidth",
     "[64, 32, 10]",
     "64",
     {{2, {"model.mlp.layers: has 1 width; a model needs at least two"}}}},
    {"TooManyParameters",
     "[64, 32, 10]",
     "[64, 65536, 65536, 10]",
     {{2, {"parameters; the limit is 268435456"}}}},
    {"BatchNotDivisible",
     "global_batch: 128",
     "global_batch: 130",
     {{4,
       {"train.global_batch[0]: 130 samples can't be shared equally by 4 workers; write 128 or "
        "132"}}}},
    {"BatchSmallerThanWorkers",
     "global_batch: 128",
     "global_batch: 3",
     {{4, {"3 samples", "4 workers; write 4, or"}}}},
    {"BatchLargerThanData",
     "global_batch: 128",
     "global_batch: 2000",
     {{4, {"2000 samples a step, but the digits have 1797"}}}},
    {"SweepOfServers",
     "servers: 2",
     "servers: 1 servers: 2",
     {{7, {"variant[1].ps.servers: a list (sweep) of 2 values"}}}},
    {"SeedTwice",
     "steps: 60",
     "steps: 60 seeds: [1, 2, 1]",
     {{4, {"train.seeds[2]: 1 is listed twice"}}}},
    {"Ranges",
     "steps: 60 }",
     "steps: 0 optimizer { sgd { learning_rate: nan momentum: 1 } } }\nblocks: -1",
     {{4, {"train.steps: 0 is out of range; allowed: 1 to 10000000 (training steps of one run)"}},
      {4, {"learning_rate: nan is out of range; allowed: 1e-09 to 1000"}},
      {4, {"momentum: 1 is out of range; allowed: 0 to 0.9999"}},
      {5, {"blocks: -1 is out of range; allowed: 1 to 1000"}}}},
    {"NotBuiltNamesWhatIs",
     "digits {}",
     "synthetic {}",
     {{3, {"data.synthetic: not built yet; built today: digits"}}}},
    {"NotBuiltVariant",
     "all_reduce {}",
     "sharded {}",
     {{8, {"variant[2].sharded: not built yet; built today: none, ps, all_reduce"}}}},
    {"Rate",
     "workers: 4",
     "workers: 4 network { time_base: SHAPED rate: \"1gbit\" }",
     {{5, {"network.time_base: SHAPED is not built yet; built today: AUTO, WALL"}},
      {5,
       {"network.rate[0]: not built yet: remove it; today all processes share this host's "
        "loopback"}}}},
    {"LeaseShorterThanHeartbeat",
     "workers: 4",
     "workers: 4 limits { lease_ms: 250 }",
     {{5, {"t:5:21: limits.lease_ms: heartbeat_ms is 250 and lease_ms is 250"}}}},
    {"HeartbeatLongerThanLease",
     "workers: 4",
     "workers: 4 limits { heartbeat_ms: 6000 }",
     {{5, {"limits.heartbeat_ms: heartbeat_ms is 6000 and lease_ms is 5000"}}}},
    // The valid model has 2 + 1 + 1 + 1 blocks and 2,410 parameters.
    {"MoreServersThanBlocks",
     "servers: 2",
     "servers: 6",
     {{7, {"t:7:27: variant[1].ps.servers[0]: 6 servers, but the model has 5 blocks of 1024"}}}},
    {"ChunkWithItsHeaderExceedsAMessage",
     "workers: 4",
     "workers: 4 limits { chunk_bytes: 4096 message_bytes_max: 4223 }",
     {{5,
       {"t:5:39: limits.message_bytes_max: message_bytes_max is 4223 and chunk_bytes is 4096",
        "at least 4224"}}}},
    {"ChunkWithItsHeaderExceedsTheDefaultMessage",
     "workers: 4",
     "workers: 4\nlimits { chunk_bytes: 67108864 }",
     {{6,
       {"t:6:10: limits.chunk_bytes: message_bytes_max is 67108864 and chunk_bytes is 67108864"}}}},
    {"ChunkExceedsAMessageOfAllReduceAlone",
     "variant { name: \"ps\" ps { servers: 2 } }",
     "limits { message_bytes_max: 2048 }",
     {{7, {"limits.message_bytes_max: message_bytes_max is 2048 and chunk_bytes is 1048576"}}}},
    // 4 workers * (4 * 1,205 + 4,096) bytes.
    {"StagedBytesBelowAPushOfEveryWorker",
     "workers: 4",
     "workers: 4\nlimits { staged_bytes_max: 35663 }",
     {{6,
       {"t:6:10: limits.staged_bytes_max: staged_bytes_max is 35663, but a server of variant[1].ps",
        "35664 bytes", "4 workers"}}}},
    {"StagedBytesByDefaultBelowAPushOfEveryWorker",
     "[64, 32, 10] } }\ndata { digits {} }\ntrain { global_batch: 128 steps: 60 }\nworkers: 4",
     "[64, 16000, 16000, 10] } }\ndata { digits {} }\ntrain { global_batch: 128 steps: 60 }\n"
     "workers: 16",
     {{7, {"t:7:22: variant[1].ps: staged_bytes_max is 4294967296, but", "16 workers"}}}},
    {"LimitOutOfRange",
     "workers: 4",
     "workers: 4 limits { chunk_bytes: 63 }",
     {{5,
       {"limits.chunk_bytes: 63 is out of range; allowed: 64 to 67108864 (payload of one "
        "message"}}}},
};
INSTANTIATE_TEST_SUITE_P(Meaning, BadSpecTest, testing::ValuesIn(kMeaning),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(LoadSpecTest, NamesAllThatIsMissing) {
  ExpectErrors(Load("# nothing\n"), {{1, {"name is missing; add name: \"my-comparison\""}},
                                     {1, {"model is missing"}},
                                     {1, {"data is missing"}},
                                     {1, {"train.global_batch is missing"}},
                                     {1, {"train.steps is missing"}},
                                     {1, {"workers is missing"}},
                                     {1, {"variant is missing; add variant {"}}});
}

TEST(LoadSpecTest, MissingBelowABlockIsNamedAtTheBlock) {
  const std::string text = absl::StrReplaceAll(ValidSpec(), {{"global_batch: 128 ", ""}});
  ExpectErrors(Load(text), {{4, {"t:4:1: train.global_batch is missing"}}});
}

TEST(LoadSpecTest, LimitsThatJustSuffice) {
  EXPECT_THAT(Load(ValidSpec(), {"limits.chunk_bytes=4096", "limits.message_bytes_max=4224",
                                 "limits.staged_bytes_max=35664", "variant[ps].ps.servers=2"})
                  .status(),
              IsOk());
  EXPECT_THAT(Load(ValidSpec(), {"variant[ps].ps.servers=5"}).status(), IsOk());
  EXPECT_THAT(Load(ValidSpec(), {"variant={ name: \"none\" none {} }", "limits.chunk_bytes=4096",
                                 "limits.message_bytes_max=2048"})
                  .status(),
              IsOk())
      << "nobody sends";
}

TEST(LoadSpecTest, SkipsAByteOrderMark) {
  EXPECT_THAT(Load("\xEF\xBB\xBF" + ValidSpec()).status(), IsOk());
  ExpectErrors(Load("\xEF\xBB\xBFnam: 1\n" + ValidSpec()), {{1, {"t:1:1: unknown field \"nam\""}}});
}

TEST(LoadSpecTest, ShowsAtMostTwentyErrors) {
  std::string text = ValidSpec();
  for (int i = 0; i < 20; ++i) text += "x: 1\n";
  const std::string all = AllErrors(Load(text));
  EXPECT_THAT(all, testing::HasSubstr("20 errors\nt:9:1: "));
  EXPECT_THAT(all, testing::HasSubstr("\nt:28:1: "));
  EXPECT_THAT(all, testing::Not(testing::HasSubstr("more")));
  for (int i = 0; i < 1'202; ++i) text += "x: 1\n";
  const std::string some = AllErrors(Load(text));
  EXPECT_THAT(some, testing::HasSubstr("1,222 errors\nt:9:1: "));
  EXPECT_THAT(some, testing::EndsWith("\n... and 1,202 more"));
  EXPECT_EQ(std::count(some.begin(), some.end(), '\n'), 21);
}

TEST(LoadSpecTest, DeepNestingIsAnErrorAndNoCrash) {
  std::string text = ValidSpec();
  for (int i = 0; i < 100'000; ++i) text += "model {";
  EXPECT_THAT(AllErrors(Load(text)), testing::HasSubstr("nested deeper than 32"));
}

// What our reader makes of a text is what Protobuf makes of it.
TEST(LoadSpecTest, AgreesWithTheParserOfProtobuf) {
  const std::string texts[] = {
      ValidSpec(),
      FindSpec("quickstart")->text,
      R"(name: 'a' "b\n" workers: 0x10; workers: 7,
         model: < mlp: { layers: [] layers: 1 layers: [2] } >)",
      R"(variant: [{ name: "x" }, < none: {} >]
         bucket_cap_mb: [1.5, 2f, -inf, 1e3] wire_dtype: 2)",
      R"(train { # comment
           seeds: [18446744073709551615]
         } overlap: t find_unused_parameters: 0)",
  };
  for (const std::string& text : texts) {
    Experiment expected;
    ASSERT_TRUE(TextFormat::ParseFromString(text, &expected)) << text;
    LoadedSpec spec = Load(text);
    if (spec.errors.empty()) FillDefaults(&expected);
    EXPECT_TRUE(MessageDifferencer::Equals(spec.experiment, expected))
        << text << "\n"
        << spec.experiment.DebugString() << AllErrors(spec);
  }
}

TEST(LoadSpecTest, FillsInEveryDefault) {
  const LoadedSpec spec = Load(ValidSpec());
  ASSERT_THAT(spec.status(), IsOk());
  Experiment expected;
  ASSERT_TRUE(TextFormat::ParseFromString(
      R"(name: "test"
         model { mlp { layers: [64, 32, 10] } }
         data { digits {} }
         train {
           global_batch: 128 steps: 60 seeds: 1
           optimizer { sgd { learning_rate: 0.1 momentum: 0 } }
         }
         reduce_op: MEAN reduction_order: ENGINE wire_dtype: F32 bucket_cap_mb: 25
         find_unused_parameters: false gradient_as_bucket_view: true
         network { time_base: AUTO }
         workers: 4
         variant { name: "none" none {} }
         variant { name: "ps" ps { mode: SYNC servers: 2 policy: NONE optimizer_on: SERVER
                                      placement: SPLIT on_worker_loss: STOP hosts: OWN } }
         variant {
           name: "ring"
           all_reduce { algorithm: RING engine: HOST link: TCP channels: 1 on_loss: STOP }
         }
         blocks: 3
         probe { every: 10 keep_snapshots: false }
         trace { steps: 10 }
         limits {
           join_timeout_ms: 30000 connect_timeout_ms: 10000 sync_timeout_ms: 30000 heartbeat_ms: 250
           lease_ms: 5000 stop_grace_ms: 3000 waiting_line_ms: 5000
           message_bytes_max: 67108864 chunk_bytes: 1048576 window_chunks: 8
           staged_bytes_max: 4294967296 snapshot_bytes_max: 16777216
           settle_ms: 300 answer_grace_ms: 500 rebuild_timeout_ms: 30000
           device_timeout_ms: 30000
         }
         overlap: true broadcast_start: true
         device: CPU math: STRICT share_gpu: false mixed_devices: false)",
      &expected));
  EXPECT_TRUE(MessageDifferencer::Equals(spec.experiment, expected))
      << spec.experiment.DebugString();
}

TEST(LoadSpecTest, CanonicalTextLoadsAsTheSameExperiment) {
  const LoadedSpec first = Load(
      ValidSpec(), {"bucket_cap_mb=0.1", "train.optimizer.sgd.learning_rate=0.30000000000000004"});
  ASSERT_THAT(first.status(), IsOk());
  const LoadedSpec second = Load(CanonicalText(first.experiment));
  ASSERT_THAT(second.status(), IsOk());
  EXPECT_TRUE(MessageDifferencer::Equals(first.experiment, second.experiment));
  EXPECT_EQ(CanonicalText(second.experiment), CanonicalText(first.experiment));
  EXPECT_THAT(second.notes, testing::IsEmpty()) << "defaults that are written out are no mistakes";
}

}  // namespace
}  // namespace lockstep
