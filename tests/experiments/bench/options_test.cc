#include "experiments/bench/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Le;

TEST(ReadOptionsTest, DefaultsAreTheIssuesSizesAndRanks) {
  const auto options = ReadOptions({});
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->bytes.size(), 13U);
  EXPECT_EQ(options->bytes.front(), 4);
  EXPECT_EQ(options->bytes.back(), int64_t{64} << 20);
  EXPECT_THAT(options->ranks, ElementsAre(2, 4, 8));
  EXPECT_THAT(options->channels, ElementsAre(1, 2));  // as many as Open MPI is tried with
  EXPECT_THAT(options->tcp_algorithms, Contains("auto"));
  EXPECT_THAT(options->shm_algorithms, Contains("direct"));
  EXPECT_THAT(options->peers, ElementsAre("mpi", "gloo"));
}

TEST(ReadOptionsTest, LibrariesOfGpusTakePartWhereTheyAreAskedFor) {
  BenchArguments arguments;
  arguments.peers = "nccl,cuda";
  arguments.nccl_library = "/opt/libnccl.so.2";
  const auto options = ReadOptions(arguments);
  ASSERT_THAT(options, IsOk());
  EXPECT_THAT(options->peers, ElementsAre("nccl", "cuda"));
  EXPECT_THAT(options->nccl_algorithms, ElementsAre("", "Ring", "Tree"));
  EXPECT_THAT(options->cuda_algorithms, Contains("double_tree"));
  EXPECT_EQ(options->nccl_library, "/opt/libnccl.so.2");
}

TEST(ReadOptionsTest, SizesAreWholeElementsEachOnce) {
  BenchArguments arguments;
  arguments.sizes = "1,2,9,15";
  arguments.dtype = "f64";
  EXPECT_THAT(ReadOptions(arguments)->bytes, ElementsAre(8));
}

TEST(ReadOptionsTest, NoPeersAndForcedAlgorithms) {
  BenchArguments arguments;
  arguments.peers = "none";
  arguments.algorithms = "ring,reduce_broadcast";
  const auto options = ReadOptions(arguments);
  EXPECT_THAT(options->peers, IsEmpty());
  EXPECT_THAT(options->tcp_algorithms, ElementsAre("ring", "reduce_broadcast"));
  EXPECT_THAT(options->shm_algorithms, ElementsAre("ring", "reduce_broadcast"));
}

TEST(ReadOptionsTest, QuickIsSmall) {
  BenchArguments arguments;
  arguments.quick = true;
  const auto options = ReadOptions(arguments);
  EXPECT_THAT(options->bytes, Each(Le(4 << 20)));
  EXPECT_THAT(options->ranks, ElementsAre(2, 4));
  EXPECT_THAT(options->channels, ElementsAre(1));
  EXPECT_EQ(options->rounds, 3);
}

struct Bad {
  std::string option;
  void (*set)(BenchArguments*);
};
class BadOptionTest : public testing::TestWithParam<Bad> {};
INSTANTIATE_TEST_SUITE_P(
    All, BadOptionTest,
    testing::Values(Bad{"ranks", [](BenchArguments* a) { a->ranks = "2,x"; }},
                    Bad{"ranks", [](BenchArguments* a) { a->ranks = "0"; }},
                    Bad{"channels", [](BenchArguments* a) { a->channels = "1,129"; }},
                    Bad{"channels", [](BenchArguments* a) { a->channels = ""; }},
                    Bad{"algorithms", [](BenchArguments* a) { a->algorithms = "rign"; }},
                    Bad{"links", [](BenchArguments* a) { a->links = "udp"; }},
                    Bad{"links", [](BenchArguments* a) { a->links = ""; }},
                    Bad{"peers", [](BenchArguments* a) { a->peers = "ncll"; }},
                    Bad{"dtype", [](BenchArguments* a) { a->dtype = "f8"; }},
                    // R19: refused before any process starts.
                    Bad{"op", [](BenchArguments* a) { a->dtype = "i32", a->op = "avg"; }},
                    Bad{"rounds", [](BenchArguments* a) { a->rounds = 0; }},
                    Bad{"warmup", [](BenchArguments* a) { a->warmup = 0; }}));
TEST_P(BadOptionTest, IsRefusedByName) {
  BenchArguments arguments;
  GetParam().set(&arguments);
  EXPECT_THAT(ReadOptions(arguments),
              StatusIs(absl::StatusCode::kInvalidArgument, absl::StrCat("--", GetParam().option)));
}

}  // namespace
}  // namespace lockstep
