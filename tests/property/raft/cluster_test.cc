// Goal: Raft's promises hold under every fault the algorithm is made for, and the cluster recovers
// from all of them. Method: seeded clusters of 1-7 cores (cluster.h); a failure prints its seed.
// RAFT_SEED=n runs that one alone, and RAFT_SEEDS=n that many.
#include "tests/property/raft/cluster.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace mainstay::raft {
namespace {

// Small limits, so that every bound is met often.
ClusterPlan PlanFor(uint64_t seed) {
  SeededJitter random(seed * 7919 + 1);
  ClusterPlan plan;
  plan.change_configs = random.Below(2) == 0;
  plan.member_count = 1 + random.Below(7);
  plan.voter_count = plan.change_configs ? 1 + random.Below(plan.member_count) : plan.member_count;
  Options& options = plan.options;
  options.election_ticks = 5 + static_cast<int>(random.Below(6));
  options.heartbeat_ticks = 1 + static_cast<int>(random.Below(2));
  options.pre_vote = random.Below(4) != 0;
  options.check_quorum = random.Below(4) != 0;
  options.message_bytes_max = 1 + random.Below(200);
  options.inflight_count_max = 1 + random.Below(6);
  options.inflight_bytes_max = random.Below(2) == 0 ? 0 : 1 + random.Below(300);
  options.uncommitted_bytes_max = 200 + random.Below(2000);
  options.tail_bytes_max = random.Below(1000);
  options.apply_bytes_max = 1 + random.Below(500);
  options.apply_before_persisted = random.Below(2) == 0;
  options.disk_stall_ticks = random.Below(2) == 0 ? 0 : 10;
  return plan;
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(RaftClusterTest, PromisesHoldUnderRandomFaults) {
  const uint64_t only = FromEnvironment("RAFT_SEED", 0);
  const uint64_t first = only != 0 ? only : 1;
  const uint64_t last = only != 0 ? only : FromEnvironment("RAFT_SEEDS", 120);
  size_t reads = 0;
  size_t leaders = 0;
  size_t snapshots = 0;
  uint64_t committed = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("RAFT_SEED=" + std::to_string(seed));
    RandomCluster cluster(seed, PlanFor(seed));
    ASSERT_EQ(cluster.Run(), "");
    reads += cluster.reads_done();
    leaders += cluster.leader_count();
    snapshots += cluster.snapshots();
    committed += cluster.committed().value();
  }
  if (only == 0) {
    // The faults did not keep the cluster from doing anything worth checking.
    const uint64_t runs = last - first + 1;
    EXPECT_GT(committed, runs * 10);
    EXPECT_GT(reads, runs);
    EXPECT_GT(leaders, runs);
    EXPECT_GT(snapshots, 0u);
  }
  RecordProperty("committed", static_cast<int>(committed));
  RecordProperty("reads", static_cast<int>(reads));
}

TEST(RaftClusterTest, OneSeedIsOneRun) {
  RandomCluster a(42, PlanFor(42));
  RandomCluster b(42, PlanFor(42));
  EXPECT_EQ(a.Run(), b.Run());
  EXPECT_EQ(a.committed(), b.committed());
  EXPECT_EQ(a.leader_count(), b.leader_count());
  EXPECT_EQ(a.reads_done(), b.reads_done());
}

}  // namespace
}  // namespace mainstay::raft
