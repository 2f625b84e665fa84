// What a worker's process is started with for engine NCCL, and what its engine then asks for.
#include "worker/sync/nccl_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

Nccl WordsOf(Nccl::Algo algo, Nccl::Proto proto) {
  Nccl nccl;
  nccl.set_algo(algo);
  nccl.set_proto(proto);
  return nccl;
}

TEST(NcclWordsTest, NothingAskedIsNothingSet) {
  EXPECT_THAT(NcclEnvironment(Nccl(), 3), IsEmpty());
  EXPECT_EQ(NcclLabel(Nccl()), "All-reduce of NCCL");
}

// The words of NCCL's own documentation: an unknown one fails its start.
TEST(NcclWordsTest, AlgorithmAndProtocolAreNcclsWords) {
  EXPECT_THAT(NcclEnvironment(WordsOf(Nccl::RING, Nccl::SIMPLE), 0),
              ElementsAre("NCCL_ALGO=Ring", "NCCL_PROTO=Simple"));
  EXPECT_THAT(NcclRequired(WordsOf(Nccl::TREE, Nccl::LL)),
              ElementsAre("NCCL_ALGO=Tree", "NCCL_PROTO=LL"));
  EXPECT_THAT(NcclRequired(WordsOf(Nccl::NVLS, Nccl::LL128)),
              ElementsAre("NCCL_ALGO=NVLS", "NCCL_PROTO=LL128"));
  EXPECT_THAT(NcclRequired(WordsOf(Nccl::NVLS_TREE, Nccl::ANY_PROTO)),
              ElementsAre("NCCL_ALGO=NVLSTree"));
  EXPECT_EQ(NcclLabel(WordsOf(Nccl::TREE, Nccl::LL)), "All-reduce of NCCL, Tree, LL");
}

TEST(NcclWordsTest, WhoSharesAGpuIsOnAHostOfItsOwn) {
  Nccl nccl;
  nccl.set_share_gpu(true);
  EXPECT_THAT(NcclEnvironment(nccl, 2), Contains("NCCL_HOSTID=worker2"));
  EXPECT_THAT(NcclEnvironment(nccl, 2), Contains("NCCL_SOCKET_IFNAME=lo"));
  EXPECT_THAT(NcclEnvironment(Nccl(), 2), Not(Contains("NCCL_HOSTID=worker2")));
  EXPECT_EQ(NcclLabel(nccl), "All-reduce of NCCL, ranks share a GPU: correctness only");
  EXPECT_TRUE(NcclPlaceFrom(nccl, {}).share_gpu);
}

// What the coordinator sets is what the engine looks for.
TEST(NcclWordsTest, WhatIsAskedForIsSet) {
  const Nccl nccl = WordsOf(Nccl::RING, Nccl::LL128);
  NcclPlace process;
  process.library = "a file";
  process.variables = {"NCCL_X=1"};
  const NcclPlace place = NcclPlaceFrom(nccl, process);
  for (const std::string& required : place.required) {
    EXPECT_THAT(NcclEnvironment(nccl, 0), Contains(required));
  }
  EXPECT_EQ(place.library, "a file");
  EXPECT_THAT(place.variables, ElementsAre("NCCL_X=1"));
}

}  // namespace
}  // namespace lockstep
