#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "tests/experiments/spec/spec_support.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

struct SetCase {
  const char* name;
  std::vector<std::string> set;
  const char* same_as;  // text appended to nothing: the fields that change
};
void PrintTo(const SetCase& set, std::ostream* out) { *out << set.name; }

// Every override has the effect of a text that has the new values in the old ones' place.
class SetTest : public testing::TestWithParam<SetCase> {};

TEST_P(SetTest, Replaces) {
  const LoadedSpec changed = Load(ValidSpec(), GetParam().set);
  ASSERT_THAT(changed.status(), IsOk());
  Experiment fields;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(GetParam().same_as, &fields));
  LoadedSpec expected = Load(ValidSpec());
  std::vector<const google::protobuf::FieldDescriptor*> written;
  fields.GetReflection()->ListFields(fields, &written);
  for (const auto* field : written) {
    expected.experiment.GetReflection()->ClearField(&expected.experiment, field);
  }
  expected.experiment.MergeFrom(fields);
  FillDefaults(&expected.experiment);
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(changed.experiment, expected.experiment))
      << changed.experiment.DebugString();
}

const SetCase kSets[] = {
    {"Scalar", {"train.steps=70"}, "train { global_batch: 128 steps: 70 }"},
    {"LaterWins", {"train.steps=70", "train.steps=80"}, "train { global_batch: 128 steps: 80 }"},
    {"CreatesBlocks",
     {"train.optimizer.sgd.momentum=0.5"},
     "train { global_batch: 128 steps: 60 optimizer { sgd { momentum: 0.5 } } }"},
    {"ListFromOneValue", {"workers=2"}, "workers: 2"},
    {"ListFromList", {"workers=[8]"}, "workers: 8"},
    {"LongList",
     {"train.seeds=[5, 6, 7]"},
     "train { global_batch: 128 steps: 60 seeds: [5, 6, 7] }"},
    {"ListElement", {"model.mlp.layers[1]=48"}, "model { mlp { layers: [64, 48, 10] } }"},
    {"Message", {"model=mlp { layers: [64, 10] }"}, "model { mlp { layers: [64, 10] } }"},
    {"MessageInBraces",
     {"model={ mlp { layers: [64, 10] } }"},
     "model { mlp { layers: [64, 10] } }"},
    {"MessageReplacesInsteadOfMerging",
     {"train=global_batch: 64 steps: 9"},
     "train { global_batch: 64 steps: 9 }"},
    {"EmptyMessage", {"limits.lease_ms=9000", "limits={}"}, "limits {}"},
    {"ElementByIndex",
     {"variant[1].ps.servers=3"},
     "variant { name: 'none' none {} } variant { name: 'ps' ps { servers: 3 } } variant { name: "
     "'ring' all_reduce {} }"},
    {"ElementByName",
     {"variant[ring].all_reduce.channels=2"},
     "variant { name: 'none' none {} } variant { name: 'ps' ps { servers: 2 } } variant { name: "
     "'ring' all_reduce { channels: 2 } }"},
    {"WholeElement",
     {"variant[ps]=name: \"other\" all_reduce {}"},
     "variant { name: 'none' none {} } variant { name: 'other' all_reduce {} } variant { name: "
     "'ring' all_reduce {} }"},
    {"WholeOneof",
     {"variant[ps].all_reduce={ channels: 2 }"},
     "variant { name: 'none' none {} } variant { name: 'ps' all_reduce { channels: 2 } } variant { "
     "name: 'ring' all_reduce {} }"},
    {"WholeList",
     {"variant=[{ name: \"a\" none {} }, { name: \"b\" ps {} }]"},
     "variant { name: 'a' none {} } variant { name: 'b' ps {} }"},
    {"TextWithoutQuotes", {"name=plain"}, "name: 'plain'"},
    {"BlanksAroundPathAndValue", {" train.steps = 70 "}, "train { global_batch: 128 steps: 70 }"},
    {"BlanksAroundTextWithoutQuotes", {"name\t= plain "}, "name: 'plain'"},
    {"BlanksAroundAnElement",
     {"model.mlp.layers[1] =48"},
     "model { mlp { layers: [64, 48, 10] } }"},
    {"TextWithQuotes", {"name=\"quoted\""}, "name: 'quoted'"},
    {"Enum", {"reduce_op=SUM"}, "reduce_op: SUM"},
    {"ValueWithEqualsSign", {"network= # a = b\n time_base: WALL"}, "network { time_base: WALL }"},
};
INSTANTIATE_TEST_SUITE_P(Values, SetTest, testing::ValuesIn(kSets),
                         [](const auto& test) { return std::string(test.param.name); });

struct BadSet {
  const char* name;
  std::vector<std::string> set;
  std::vector<ExpectedError> errors;  // line 0: of the command line
};
void PrintTo(const BadSet& bad, std::ostream* out) { *out << bad.name; }
class BadSetTest : public testing::TestWithParam<BadSet> {};

TEST_P(BadSetTest, NamesTheOptionAndTheCharacter) {
  ExpectErrors(Load(ValidSpec(), GetParam().set), GetParam().errors);
}

const BadSet kBadSets[] = {
    {"NoEquals", {"train.steps"}, {{0, {"--set train.steps, character 1: expected path=value"}}}},
    {"OnlyBlanksForAPath", {"  =5"}, {{0, {"character 1: expected path=value"}}}},
    {"BlanksCount", {" train.stebs = x"}, {{0, {"character 8: unknown field \"stebs\" in train"}}}},
    {"BlanksCountBeforeTheValue",
     {"train.steps = x"},
     {{0, {"character 15: train.steps: expected a whole number"}}}},
    {"UnknownField",
     {"train.stebs=9"},
     {{0,
       {"--set train.stebs=9, character 7: unknown field \"stebs\" in train; did you mean "
        "\"steps\"? Known fields: global_batch, steps, optimizer, seeds, target_loss"}}}},
    {"UnknownTopField",
     {"worker=9"},
     {{0, {"character 1: unknown field \"worker\" in the experiment; did you mean \"workers\"?"}}}},
    {"BelowANumber",
     {"train.steps.x=9"},
     {{0, {"character 7: train.steps has no fields; it is a whole number"}}}},
    {"ListWithoutIndex",
     {"variant.ps.servers=3"},
     {{0,
       {"character 1: variant is a list: say which element, as variant[0].ps.servers=3; it has 3: "
        "0 (none), 1 (ps), 2 (ring)"}}}},
    {"NoSuchIndex",
     {"variant[3].name=x"},
     {{0, {"character 9: variant has no element \"3\"; it has 3: 0 (none)"}}}},
    {"NegativeIndex", {"variant[-1].name=x"}, {{0, {"variant has no element \"-1\""}}}},
    {"NoSuchName",
     {"variant[rink].name=x"},
     {{0, {"variant has no element \"rink\"; it has 3: 0 (none), 1 (ps), 2 (ring)"}}}},
    {"IndexOfASingleField", {"train[0].steps=3"}, {{0, {"character 6: train is not a list"}}}},
    {"OpenIndex", {"variant[0=3"}, {{0, {"character 8: '[' is never closed"}}}},
    {"TextBehindIndex", {"variant[0]x=3"}, {{0, {"character 11: expected '.', '[' or '='"}}}},
    {"WrongType",
     {"train.steps=many"},
     {{0,
       {"--set train.steps=many, character 13: train.steps: expected a whole number",
        "got many"}}}},
    {"WrongTypeOfElement",
     {"model.mlp.layers[1]=x"},
     {{0, {"character 21: model.mlp.layers[1]: expected a whole number"}}}},
    {"NoValue",
     {"train.steps="},
     {{0, {"character 13: expected a value, got the end of the text"}}}},
    {"TwoValues",
     {"train.steps=1 2"},
     {{0, {"character 15: expected the end after the value, got '2'"}}}},
    {"UnknownFieldInMessage",
     {"model=mlp { lairs: [64, 10] }"},
     {{0, {"character 13: unknown field \"lairs\" in model.mlp; did you mean \"layers\"?"}}}},
    {"UnknownEnumValue",
     {"reduce_op=SUMM"},
     {{0,
       {"character 11: reduce_op: unknown value \"SUMM\"; did you mean \"SUM\"? Known values: "
        "MEAN, SUM"}}}},
    {"ThroughAnotherOneof",
     {"variant[1].all_reduce.channels=2"},
     {{0,
       {"variant[1] has \"ps\", which \"all_reduce\" excludes; to change over, set "
        "variant[1].all_reduce='{ ... }'"}}}},
    {"ListForAnElement",
     {"model.mlp.layers[1]=[1, 2]"},
     {{0, {"model.mlp.layers[1] takes one value, got a list"}}}},
    // Meaning: the place is the option that made it wrong, not the line that it replaced.
    {"NotBuilt",
     {"reduction_order=RANK"},
     {{0,
       {"--set reduction_order=RANK",
        "reduction_order: RANK is not built yet; built today: ENGINE, EXACT"}}}},
    {"OutOfRange",
     {"workers=65"},
     {
         {0, {"--set workers=65", "workers[0]: 65 is out of range"}},
     }},
    {"Sweep",
     {"bucket_cap_mb=[1, 2]"},
     {{0, {"--set bucket_cap_mb=[1, 2], character 19: bucket_cap_mb: a list (sweep) of 2"}}}},
    {"Conflict",
     {"train.global_batch=129"},
     {{0, {"--set train.global_batch=129", "129 samples", "4 workers"}}}},
    {"ReplacedList",
     {"model.mlp.layers=[64]"},
     {{0, {"--set model.mlp.layers=[64], character 18: model.mlp.layers: has 1 width;"}}}},
    {"ReplacedBlockLacksAField",
     {"train=steps: 9"},
     {{0, {"--set train=steps: 9, character 7: train.global_batch is missing"}}}},
    {"Several",
     {"train.steps=x", "nam=y", "blocks=0"},
     {{0, {"--set train.steps=x"}}, {0, {"nam"}}, {0, {"--set blocks=0"}}}},
};
INSTANTIATE_TEST_SUITE_P(Errors, BadSetTest, testing::ValuesIn(kBadSets),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(SetErrorsTest, StandBehindThoseOfTheFile) {
  const LoadedSpec spec = Load(ValidSpec() + "expect { claim: \"x\" }\n", {"blocks=0"});
  ExpectErrors(spec, {{9, {"expect[0]: not built yet"}}, {0, {"blocks: 0 is out of range"}}});
}

}  // namespace
}  // namespace lockstep
