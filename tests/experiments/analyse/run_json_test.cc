#include "experiments/analyse/run_json.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "experiments/analyse/aggregate.h"
#include "experiments/analyse/verdict.h"
#include "tests/experiments/analyse/run_files.h"
#include "tests/experiments/analyse/synthetic.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using google::protobuf::util::MessageDifferencer;
using synthetic::Find;
using synthetic::QuickstartFile;
using ::testing::HasSubstr;
using ::testing::Not;

std::string PathOf(const std::string& name) { return ::testing::TempDir() + "/" + name; }

TEST(RunJson, ReadsBackAsItWas) {
  RunFile run = QuickstartFile();
  *run.mutable_verdict() = Decide(run);
  Find(&run, "ring")->set_label("hostile </script> \"quoted\" \\ \n \xe2\x80\xa8 \xe4\xb8\xad");
  Find(&run, "ring")->mutable_samples_per_s()->set_median(0.1 + 0.2);
  const std::string path = PathOf("run.json");
  ASSERT_THAT(WriteRunJson(path, run), IsOk());
  const auto read = ReadRunJson(path);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->schema(), "lockstep.run/1");
  run.set_schema("lockstep.run/1");
  EXPECT_TRUE(MessageDifferencer::Equals(*read, run));
}

TEST(RunJson, NamesAndAbsenceAreThoseOfTheSchema) {
  RunFile run = QuickstartFile();
  VariantResult* ring = Find(&run, "ring");
  ring->mutable_replicas()->mutable_max_rel()->set_null_value(google::protobuf::NULL_VALUE);
  ring->mutable_replicas()->set_max_rel_reason("parameter copies were not kept");
  ring->clear_samples_per_s();
  ring->mutable_loss()->clear_final();
  run.mutable_runs()->SwapElements(0, 2);
  run.mutable_runs()->DeleteSubrange(1, 2);
  const auto json = RunToJson(run);
  ASSERT_THAT(json, IsOk());
  EXPECT_THAT(*json, HasSubstr("\"schema\": \"lockstep.run/1\""));
  EXPECT_THAT(*json, HasSubstr("\"state\": \"complete\""));
  EXPECT_THAT(*json, HasSubstr("\"max_rel\": null"));
  EXPECT_THAT(*json, HasSubstr("\"max_rel_reason\": \"parameter copies were not kept\""));
  EXPECT_THAT(*json, HasSubstr("\"cpu_bound\": false"));      // measured: false is said
  EXPECT_THAT(*json, Not(HasSubstr("\"first_diff_step\"")));  // never happened
  EXPECT_THAT(*json, Not(HasSubstr("\"server_in_per_step\"")));
  EXPECT_THAT(*json, Not(HasSubstr("\"samples_per_s\":")));
  EXPECT_THAT(*json, Not(HasSubstr("\"final\":")));
}

struct Bad {
  const char* name;
  void (*spoil)(RunFile* run);
  const char* field;
};
class NotFinite : public ::testing::TestWithParam<Bad> {};

TEST_P(NotFinite, IsRefusedByName) {
  RunFile run = QuickstartFile();
  GetParam().spoil(&run);
  EXPECT_THAT(RunToJson(run), StatusIs(absl::StatusCode::kInvalidArgument, GetParam().field));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Bad kBad[] = {
    {"nested", [](RunFile* run) { Find(run, "none")->mutable_step_us()->set_p95(NAN); },
     "runs[0].step_us.p95 is nan"},
    {"repeated", [](RunFile* run) { run->mutable_experiment()->add_seeds(kInfinity); },
     "experiment.seeds[1] is inf"},
    {"optional", [](RunFile* run) { Find(run, "ring")->mutable_loss()->set_final(-kInfinity); },
     "runs[2].loss.final is -inf"},
    {"value",
     [](RunFile* run) {
       Find(run, "ring")->mutable_replicas()->mutable_max_rel()->set_number_value(NAN);
     },
     "runs[2].replicas.max_rel.number_value is nan"},
};
INSTANTIATE_TEST_SUITE_P(All, NotFinite, ::testing::ValuesIn(kBad),
                         [](const auto& test) { return std::string(test.param.name); });

// The way a NaN really arrives: a loss that blew up. The file is valid and says so.
TEST(RunJson, ANanLossBecomesAReason) {
  const auto result =
      Aggregate({synthetic::RunWith({.variant = "ring"},
                                    [](synthetic::Files* files) {
                                      synthetic::ForSteps(files, 0, [](StepDone* step) {
                                        if (step->step() > 5) step->set_loss(NAN);
                                      });
                                    })},
                nullptr);
  ASSERT_THAT(result, IsOk());
  RunFile run;
  run.set_state("complete");
  *run.add_runs() = *result;
  const auto json = RunToJson(run);
  ASSERT_THAT(json, IsOk());
  EXPECT_THAT(*json, Not(HasSubstr("NaN")));
  EXPECT_THAT(*json, HasSubstr("\"final_reason\": \"the loss is not finite since step 6\""));
}

TEST(RunJson, AbortedIsValidAndSaysSo) {
  RunFile run;
  run.set_state("aborted");
  *run.mutable_verdict() = Decide(run);
  const std::string path = PathOf("aborted.json");
  ASSERT_THAT(WriteRunJson(path, run), IsOk());
  const auto read = ReadRunJson(path);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->state(), "aborted");
}

TEST(RunJson, ReadingToleratesNewFieldsAndRefusesOtherSchemas) {
  EXPECT_THAT(RunFromJson(R"({"schema": "lockstep.run/1", "state": "complete", "later": [1]})"),
              IsOk());
  EXPECT_THAT(RunFromJson(R"({"schema": "lockstep.run/2"})"),
              StatusIs(absl::StatusCode::kInvalidArgument, "schema 'lockstep.run/2'"));
  EXPECT_THAT(RunFromJson("{"), StatusIs(absl::StatusCode::kInvalidArgument, "not a run file"));
  EXPECT_THAT(RunFromJson(R"({"schema": "lockstep.run/1", "host": {"cpu_busy": "NaN"}})"),
              StatusIs(absl::StatusCode::kInvalidArgument, "host.cpu_busy is nan"));
  EXPECT_THAT(ReadRunJson(PathOf("nothing.json")),
              StatusIs(absl::StatusCode::kNotFound, "nothing.json"));
}

}  // namespace
}  // namespace lockstep
