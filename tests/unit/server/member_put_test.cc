// Goal: a write goes through log, store and reply, in that order, and is there after a crash.
// Method: one member stepped task by task.
#include "tests/unit/server/harness.h"

namespace mainstay::server {
namespace {

using std::chrono::seconds;

TEST_F(MemberTest, FirstBootLeadsPublishesAndDecidesTheVersion) {
  Start();
  EXPECT_TRUE(server_->ready());
  EXPECT_TRUE(server_->has_leader());
  const MemberStatus status = server_->GetStatus();
  EXPECT_EQ(status.leader, server_->Header().member_id);
  EXPECT_EQ(status.cluster_version, "3.7.0");
  EXPECT_EQ(status.storage_version, "3.7.0");
  EXPECT_EQ(status.raft_index, 4u) << "member, empty entry, version, attributes: as etcd";
  EXPECT_EQ(status.raft_term, 2u);
  EXPECT_EQ(status.revision, 1);
  const std::string page = metrics_->RenderText();
  EXPECT_NE(page.find("etcd_cluster_version{cluster_version=\"3.7\"} 1"), std::string::npos);
  EXPECT_NE(page.find("etcd_server_has_leader 1"), std::string::npos);
  const auto members = server_->Members();
  ASSERT_EQ(members->members.size(), 1u);
  EXPECT_EQ(members->members.begin()->second.name, "m1");
  EXPECT_EQ(members->members.begin()->second.client_urls, options_.advertise_client_urls);
}

TEST_F(MemberTest, IdsAreTheOnesThatEtcdComputes) {
  options_.initial_cluster = {{"m1", {"http://localhost:2380"}}};
  Start();
  EXPECT_EQ(server_->Header().member_id, MemberId(0x8e9e05c52164694d));
  EXPECT_EQ(server_->Header().cluster_id, ClusterId(0xcdf818194e3a8c32));
}

TEST_F(MemberTest, PutGoesThroughLogStoreAndReply) {
  Start();
  const uint64_t call = Propose(RequestKind::kPut, PutBytes("k", "v"));
  EXPECT_EQ(Get("k"), "<none>");
  executor_.Step("raft");
  executor_.Step("apply");
  EXPECT_FALSE(sink_.replies.contains(call)) << "not on disk yet";
  const int syncs = disk_.syncs;
  executor_.Step("wal");
  EXPECT_EQ(disk_.syncs, syncs + 1);
  executor_.Step("raft");
  EXPECT_FALSE(sink_.replies.contains(call)) << "committed, not applied";
  executor_.Step("apply");
  const Reply reply = Take(call);
  EXPECT_EQ(reply.error, Error::kOk);
  EXPECT_EQ(reply.revision, 2);
  EXPECT_EQ(reply.raft_term, 2u);
  EXPECT_EQ(std::get<mvcc::PutResult>(reply.body).revision, 2);
  EXPECT_EQ(Get("k"), "v");
  EXPECT_GE(sink_.flushes, 1);
}

TEST_F(MemberTest, WritesThatArriveTogetherShareOneSync) {
  Start();
  std::vector<uint64_t> calls;
  for (int i = 0; i < 100; ++i) {
    calls.push_back(Propose(RequestKind::kPut, PutBytes("k" + std::to_string(i), "v")));
  }
  const int syncs = disk_.syncs;
  Run();
  EXPECT_EQ(disk_.syncs, syncs + 1);
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(Take(calls[i]).revision, static_cast<int64_t>(i) + 2);
  }
}

TEST_F(MemberTest, AcknowledgedWritesSurviveACrash) {
  Start();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Put("k", "v" + std::to_string(i)).error, Error::kOk);
    CrashAndRestart();
    EXPECT_EQ(Get("k"), "v" + std::to_string(i));
    EXPECT_EQ(Revision(), i + 2);
  }
}

// C45: a member alone acknowledges nothing that is not synced. Tasks run in a random order, the
// store flushes at random moments, and the power goes at a random step: every acknowledged write is
// there, in one piece, with its revision.
TEST_F(MemberTest, C45EveryAcknowledgedWriteSurvivesPowerLossAtAnyStep) {
  constexpr uint64_t kSeed = 45;
  SCOPED_TRACE(kSeed);
  SeededRandom random(kSeed);
  static constexpr const char* kTasks[] = {"raft", "wal", "apply", "timer"};
  std::map<std::string, std::string> acknowledged;
  int64_t revision_min = 1;
  int next = 0;
  Start();
  for (int round = 0; round < 60; ++round) {
    std::map<uint64_t, std::pair<std::string, std::string>> calls;
    const uint64_t steps = random.Below(120);
    for (uint64_t step = 0; step < steps; ++step) {
      if (random.Below(3) == 0) {
        const std::string key = "k" + std::to_string(next);
        const std::string value = "v" + std::to_string(next++);
        calls[Propose(RequestKind::kPut, PutBytes(key, value))] = {key, value};
      }
      if (random.Below(20) == 0) {
        ASSERT_TRUE(backend_->Flush().ok());
      }
      executor_.Step(kTasks[random.Below(4)]);
    }
    for (const auto& [call, pair] : calls) {
      const auto reply = sink_.replies.find(call);
      if (reply != sink_.replies.end() && reply->second.error == Error::kOk) {
        acknowledged[pair.first] = pair.second;
        revision_min = std::max(revision_min, reply->second.revision);
      }
    }
    sink_.replies.clear();
    CrashAndRestart();
    sink_.replies.clear();
    for (const auto& [key, value] : acknowledged) {
      ASSERT_EQ(Get(key), value) << "round " << round;
    }
    ASSERT_GE(Revision(), revision_min);
  }
  EXPECT_GT(acknowledged.size(), 100u);
}

TEST_F(MemberTest, UnsyncedWriteIsLostAndWasNeverAcknowledged) {
  Start();
  Put("a", "1");
  const uint64_t call = Propose(RequestKind::kPut, PutBytes("b", "2"));
  executor_.Step("raft");
  EXPECT_FALSE(sink_.replies.contains(call));
  Crash();
  sink_.replies.clear();
  Start();
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("b"), "<none>");
  EXPECT_EQ(Put("c", "3").revision, 3);
}

TEST_F(MemberTest, RestartAfterAnOrderlyStopReplaysNothing) {
  Start();
  for (int i = 0; i < 10; ++i) {
    Put("k" + std::to_string(i), "v");
  }
  const uint64_t applied = server_->GetStatus().raft_applied_index;
  Stop();
  EXPECT_EQ(next_backend_->applied().index.value(), applied);
  Start();
  EXPECT_EQ(Revision(), 11);
  EXPECT_EQ(Put("k", "v").revision, 12);
}

TEST_F(MemberTest, FailedSyncStopsAcknowledgingAndNamesTheFile) {
  Start();
  Put("a", "1");
  disk_.fail_sync = true;
  const uint64_t call = Propose(RequestKind::kPut, PutBytes("b", "2"));
  Run();
  EXPECT_FALSE(sink_.replies.contains(call));
  EXPECT_NE(std::string(Message(fatal_)).find("/data/wal/0.wal"), std::string::npos);
  EXPECT_TRUE(server_->GetHealth().fatal);
  disk_.fail_sync = false;
  Pass(seconds(10));
  EXPECT_FALSE(sink_.replies.contains(call)) << "a failed sync is never tried again";
  Crash();
  EXPECT_EQ(Take(call).error, Error::kStopped);
}

}  // namespace
}  // namespace mainstay::server
