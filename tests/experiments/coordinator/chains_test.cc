#include "experiments/coordinator/chains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The servers of one run, with what each process has: a copy is had from the head's word on.
struct Servers {
  Servers(int count, int copies) : replicas(copies - 1), chains(InitialChains(count, replicas)) {
    for (int server = 0; server < count; ++server) present.insert(server);
  }
  // The epoch that follows the loss of `lost`, with their replacements there already or not.
  void Lose(const std::set<int>& lost, bool replaced) {
    const Chains before = chains;
    std::set<int> left;
    std::set_difference(present.begin(), present.end(), lost.begin(), lost.end(),
                        std::inserter(left, left.begin()));
    if (!replaced) present = left;
    chains = NextChains(before, replicas, present, [&](int server, int shard) {
      const std::vector<int>& had = before[static_cast<size_t>(shard)].servers;
      return left.contains(server) && std::find(had.begin(), had.end(), server) != had.end();
    });
    CheckOrder(before, left);
  }
  void Join(const std::set<int>& joined) {
    present.insert(joined.begin(), joined.end());
    const Chains before = chains;
    chains = NextChains(before, replicas, present, [&](int server, int shard) {
      const std::vector<int>& had = before[static_cast<size_t>(shard)].servers;
      return std::find(had.begin(), had.end(), server) != had.end();
    });
    CheckOrder(before, present);
  }
  void CatchUpAll() {
    CatchUp catch_up;
    for (int shard = 0; shard < static_cast<int>(chains.size()); ++shard) {
      const std::vector<int> joining = chains[static_cast<size_t>(shard)].joining;
      // The last one says so first.
      for (auto server = joining.rbegin(); server != joining.rend(); ++server) {
        EXPECT_TRUE(catch_up.Add(shard, *server, &chains));
      }
    }
  }
  // Survivors keep their order, nobody is named twice, and whoever joins belongs there.
  void CheckOrder(const Chains& before, const std::set<int>& alive) const {
    for (size_t shard = 0; shard < chains.size(); ++shard) {
      std::vector<int> kept;
      for (const int server : before[shard].servers) {
        if (alive.contains(server)) kept.push_back(server);
      }
      EXPECT_EQ(chains[shard].servers, kept);
      if (kept.empty()) {
        EXPECT_THAT(chains[shard].joining, IsEmpty());
        continue;
      }
      std::set<int> all(kept.begin(), kept.end());
      all.insert(chains[shard].joining.begin(), chains[shard].joining.end());
      std::set<int> place;
      for (int i = 0; i <= replicas; ++i) {
        const int server = (static_cast<int>(shard) + i) % static_cast<int>(chains.size());
        if (present.contains(server)) place.insert(server);
      }
      EXPECT_EQ(all, place);
      EXPECT_EQ(all.size(), kept.size() + chains[shard].joining.size());
    }
  }

  int replicas;
  Chains chains;
  std::set<int> present;
};

std::vector<std::set<int>> Subsets(int count) {
  std::vector<std::set<int>> subsets;
  for (unsigned bits = 1; bits < (1U << static_cast<unsigned>(count)); ++bits) {
    std::set<int> subset;
    for (int i = 0; i < count; ++i) {
      if ((bits >> static_cast<unsigned>(i) & 1U) != 0) subset.insert(i);
    }
    subsets.push_back(subset);
  }
  return subsets;
}

// Every size and every pair of losses, the second one before and after the first is repaired, with
// replacements that come in time, later or not at all.
template <typename Check>
void ForAllLosses(const Check& check) {
  for (int count = 1; count <= 5; ++count) {
    for (int replicas = 0; replicas <= std::min(2, count - 1); ++replicas) {
      for (const std::set<int>& lost : Subsets(count)) {
        SCOPED_TRACE(testing::Message() << count << " servers, " << replicas << " replicas, lost "
                                        << testing::PrintToString(lost));
        check(Servers(count, replicas + 1), lost);
      }
    }
  }
}

TEST(ChainsTest, BeginAtTheirOwnServersAndTheNext) {
  EXPECT_THAT(InitialChains(3, 1),
              ElementsAre(Chain{{0, 1}, {}}, Chain{{1, 2}, {}}, Chain{{2, 0}, {}}));
  EXPECT_THAT(InitialChains(2, 0), ElementsAre(Chain{{0}, {}}, Chain{{1}, {}}));
}

TEST(ChainsTest, KLossesAtOnceLoseNoShardMoreLoseThoseWithoutACopy) {
  ForAllLosses([](Servers servers, const std::set<int>& lost) {
    const Chains before = servers.chains;
    servers.Lose(lost, /*replaced=*/true);
    std::vector<int> expected;
    for (size_t shard = 0; shard < before.size(); ++shard) {
      const std::vector<int>& copies = before[shard].servers;
      const bool gone = std::all_of(copies.begin(), copies.end(),
                                    [&](int server) { return lost.contains(server); });
      if (gone) expected.push_back(static_cast<int>(shard));
    }
    EXPECT_EQ(LostShards(servers.chains), expected);
    EXPECT_TRUE(expected.empty() || static_cast<int>(lost.size()) > servers.replicas);
  });
}

TEST(ChainsTest, OneThatHasCaughtUpIsACopyAndEndsTheExposure) {
  ForAllLosses([](const Servers& whole, const std::set<int>& lost) {
    if (static_cast<int>(lost.size()) > whole.replicas) return;
    for (const std::set<int>& again : Subsets(static_cast<int>(whole.chains.size()))) {
      if (static_cast<int>(again.size()) > whole.replicas) continue;
      for (const bool replaced : {true, false}) {
        Servers servers = whole;
        servers.Lose(lost, replaced);
        servers.Join(lost);
        EXPECT_EQ(Complete(servers.chains, servers.replicas), whole.replicas == 0);
        servers.CatchUpAll();
        EXPECT_TRUE(Complete(servers.chains, servers.replicas));
        servers.Lose(again, replaced);
        EXPECT_THAT(LostShards(servers.chains), IsEmpty());
      }
    }
  });
}

// It has the state of some moment, perhaps, but nobody waited for it with what came later.
TEST(ChainsTest, OneThatIsStillJoiningIsNoCopy) {
  ForAllLosses([](const Servers& whole, const std::set<int>& lost) {
    if (static_cast<int>(lost.size()) > whole.replicas || whole.replicas == 0) return;
    Servers servers = whole;
    servers.Lose(lost, /*replaced=*/true);
    const Chain chain = servers.chains[static_cast<size_t>(*lost.begin())];
    servers.Lose({chain.servers.begin(), chain.servers.end()}, /*replaced=*/true);
    EXPECT_THAT(LostShards(servers.chains), testing::Contains(*lost.begin()));
  });
}

TEST(ChainsTest, OneBehindAnotherThatJoinsWaitsForIt) {
  Chains chains = {{{2}, {0, 1}}, {{1}, {}}, {{2}, {}}};
  CatchUp catch_up;
  EXPECT_TRUE(catch_up.Add(0, 1, &chains));
  EXPECT_THAT(chains[0].servers, ElementsAre(2));
  EXPECT_TRUE(catch_up.Add(0, 0, &chains));
  EXPECT_THAT(chains[0].servers, ElementsAre(2, 0, 1));
  EXPECT_THAT(chains[0].joining, IsEmpty());
}

TEST(ChainsTest, NobodyCatchesUpWhereNobodyJoins) {
  Chains chains = InitialChains(2, 1);
  CatchUp catch_up;
  EXPECT_FALSE(catch_up.Add(0, 1, &chains));
  EXPECT_FALSE(catch_up.Add(7, 1, &chains));
  EXPECT_FALSE(catch_up.Add(-1, 1, &chains));
  EXPECT_EQ(chains, InitialChains(2, 1));
}

TEST(ChainsTest, ARestoredShardBeginsAtItsOwnServer) {
  EXPECT_THAT(RestoredChains(3, 1), ElementsAre(Chain{{0}, {1}}, Chain{{1}, {2}}, Chain{{2}, {0}}));
}

}  // namespace
}  // namespace lockstep
