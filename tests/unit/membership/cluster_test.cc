// Goal: the member list changes as etcd's does, and the rows always say the same as the view.
// Method: changes as they come from the log; after each test the rows are loaded into a second
// cluster, whose view must equal the first one's.
#include "membership/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "env/random.h"
#include "tests/unit/backend_rows.h"

namespace mainstay::membership {
namespace {

using testing::ElementsAre;

constexpr MemberId kA{0xa1}, kB{0xb2}, kC{0xc3}, kD{0xd4};

class ClusterTest : public testing::Test {
 protected:
  void TearDown() override {
    Cluster again({.learners_max = 1});
    again.SetClusterId(ClusterId(77));
    for (const char* bucket : {"members", "members_removed", "cluster"}) {
      rows_.ForEach(bucket, [&](std::string_view key, std::string_view value) {
        ASSERT_TRUE(again.LoadRow(bucket, key, value).ok()) << bucket << " " << key;
      });
    }
    const auto a = cluster_.view();
    const auto b = again.view();
    EXPECT_EQ(a->members, b->members);
    EXPECT_EQ(a->removed, b->removed);
    EXPECT_EQ(a->cluster_version, b->cluster_version);
    EXPECT_EQ(a->downgrade, b->downgrade);
  }
  ClusterTest() { cluster_.SetClusterId(ClusterId(77)); }

  Error Try(ChangeType type, MemberId id, const std::string& context) {
    const Change change{.type = type, .id = id, .context = context};
    const Error error = cluster_.Validate(change);
    if (error == Error::kOk) {
      rows_.Write([&](backend::WriteBatch& batch) { cluster_.Apply(change, batch); });
    }
    return error;
  }
  Error Add(MemberId id,
            const std::string& url,
            const std::string& name = "",
            bool learner = false) {
    return Try(learner ? ChangeType::kAddLearner : ChangeType::kAddNode, id,
               MemberToJson({.id = id, .peer_urls = {url}, .is_learner = learner, .name = name}));
  }
  Error Promote(MemberId id) {
    return Try(ChangeType::kAddNode, id,
               ChangeContextToJson({.member = {.id = id}, .is_promote = true}));
  }
  Error Remove(MemberId id) { return Try(ChangeType::kRemoveNode, id, ""); }
  Error Update(MemberId id, const std::string& url) {
    return Try(ChangeType::kUpdateNode, id, MemberToJson({.id = id, .peer_urls = {url}}));
  }
  const Member& Get(MemberId id) { return *cluster_.view()->Find(id); }

  Cluster cluster_{{.learners_max = 1}};
  test::Rows rows_;
};

TEST_F(ClusterTest, AddsAndListsById) {
  EXPECT_EQ(Add(kB, "http://b:1"), Error::kOk);
  EXPECT_EQ(Add(kA, "http://a:1", "a"), Error::kOk);
  EXPECT_THAT(cluster_.view()->Voters(), ElementsAre(kA, kB));
  EXPECT_TRUE(Get(kA).IsStarted());
  EXPECT_FALSE(Get(kB).IsStarted());
  EXPECT_EQ(rows_.Get("members", "a1"), R"({"id":161,"peerURLs":["http://a:1"],"name":"a"})");
}

TEST_F(ClusterTest, AddIsRefusedForUsedIdUrlAndRemovedId) {
  Add(kA, "http://a:1");
  Add(kB, "http://b:1");
  EXPECT_EQ(Add(kA, "http://x:1"), Error::kMemberExist);
  EXPECT_EQ(Add(kC, "http://b:1"), Error::kPeerUrlExist);
  EXPECT_EQ(Remove(kB), Error::kOk);
  EXPECT_EQ(Add(kB, "http://b:1"), Error::kMemberNotFound);
  EXPECT_EQ(Add(kC, "http://b:1"), Error::kOk) << "the URL is free again, the id never";
  EXPECT_EQ(rows_.Get("members_removed", "b2"), "removed");
  EXPECT_EQ(rows_.Get("members", "b2"), std::nullopt);
}

TEST_F(ClusterTest, RemoveOfUnknownOrRemovedIsNotFound) {
  Add(kA, "http://a:1");
  EXPECT_EQ(Remove(kB), Error::kMemberNotFound);
  EXPECT_EQ(Remove(kA), Error::kOk);
  EXPECT_EQ(Remove(kA), Error::kMemberNotFound);
}

// Etcd lost the learner flag in the list when a learner's URLs were changed (etcd-io/etcd#21694).
TEST_F(ClusterTest, C40UpdateKeepsTheLearnerFlag) {
  Add(kA, "http://a:1", "a");
  EXPECT_EQ(Add(kB, "http://b:1", "", true), Error::kOk);
  EXPECT_EQ(Update(kB, "http://b:2"), Error::kOk);
  EXPECT_TRUE(Get(kB).is_learner);
  EXPECT_THAT(Get(kB).peer_urls, ElementsAre("http://b:2"));
  EXPECT_EQ(Add(kC, "http://c:1", "", true), Error::kTooManyLearners);
  EXPECT_EQ(Promote(kB), Error::kOk);
  EXPECT_FALSE(Get(kB).is_learner);
  EXPECT_EQ(Add(kC, "http://c:1", "", true), Error::kOk);
}

TEST_F(ClusterTest, UpdateKeepsNameAndRefusesForeignUrls) {
  Add(kA, "http://a:1", "a");
  Add(kB, "http://b:1", "b");
  EXPECT_EQ(Update(kA, "http://b:1"), Error::kPeerUrlExist);
  EXPECT_EQ(Update(kA, "http://a:1"), Error::kOk) << "its own URL again";
  EXPECT_EQ(Get(kA).name, "a");
  EXPECT_EQ(Update(kC, "http://c:1"), Error::kMemberNotFound);
}

TEST_F(ClusterTest, PromoteNeedsALearner) {
  Add(kA, "http://a:1");
  EXPECT_EQ(Promote(kA), Error::kMemberNotLearner);
  EXPECT_EQ(Promote(kB), Error::kMemberNotFound);
}

TEST_F(ClusterTest, ContextOfAnotherIdOrNoJsonIsRefused) {
  EXPECT_EQ(Try(ChangeType::kAddNode, kA, "nonsense"), Error::kMemberBadUrls);
  EXPECT_EQ(Try(ChangeType::kAddNode, kA, MemberToJson({.id = kB})), Error::kMemberBadUrls);
}

TEST_F(ClusterTest, AttributesOfMembersOnly) {
  Add(kA, "http://a:1");
  rows_.Write([&](backend::WriteBatch& batch) {
    EXPECT_EQ(cluster_.SetAttributes(kA, "infra0", {"http://a:2379"}, batch), Error::kOk);
    EXPECT_EQ(cluster_.SetAttributes(kB, "x", {}, batch), Error::kMemberNotFound);
  });
  EXPECT_EQ(Get(kA).name, "infra0");
  EXPECT_THAT(Get(kA).client_urls, ElementsAre("http://a:2379"));
  EXPECT_EQ(cluster_.view()->Find(kB), nullptr);
}

TEST_F(ClusterTest, VersionAndDowngradeRows) {
  rows_.Write([&](backend::WriteBatch& batch) {
    cluster_.SetClusterVersion("3.7.0", batch);
    cluster_.SetDowngrade({.enabled = true, .target_version = "3.6.0"}, batch);
  });
  EXPECT_EQ(rows_.Get("cluster", "clusterVersion"), "3.7.0");
  EXPECT_EQ(rows_.Get("cluster", "downgrade"), R"({"target-version":"3.6.0","enabled":true})");
  rows_.Write([&](backend::WriteBatch& batch) { cluster_.SetDowngrade({}, batch); });
  EXPECT_EQ(rows_.Get("cluster", "downgrade"), R"({"target-version":"","enabled":false})");
}

TEST_F(ClusterTest, ViewsDoNotChangeUnderTheReader) {
  Add(kA, "http://a:1");
  const auto before = cluster_.view();
  Add(kB, "http://b:1");
  EXPECT_EQ(before->members.size(), 1U);
  EXPECT_EQ(before->cluster_id, ClusterId(77));
}

TEST_F(ClusterTest, MalformedRowsAreDataLoss) {
  EXPECT_FALSE(cluster_.LoadRow("members", "zz", R"({"id":1})").ok());
  EXPECT_FALSE(cluster_.LoadRow("members", "1", R"({"id":2})").ok());
  EXPECT_FALSE(cluster_.LoadRow("members_removed", "0", "removed").ok());
  EXPECT_FALSE(cluster_.LoadRow("cluster", "downgrade", "{").ok());
}

TEST_F(ClusterTest, StrictChecksCountStartedMembers) {
  Add(kA, "http://a:1", "a");
  EXPECT_TRUE(cluster_.view()->ReadyToAddVoter()) << "one started member may become two";
  EXPECT_FALSE(cluster_.view()->ReadyToRemoveVoter(kA)) << "the last one stays";
  Add(kB, "http://b:1");
  EXPECT_FALSE(cluster_.view()->ReadyToAddVoter()) << "1 started of 3, quorum 2";
  EXPECT_TRUE(cluster_.view()->ReadyToRemoveVoter(kB));
  EXPECT_FALSE(cluster_.view()->ReadyToRemoveVoter(kA)) << "b has not started";
  Add(kC, "http://c:1", "c");
  EXPECT_FALSE(cluster_.view()->ReadyToAddVoter()) << "2 started of 4, quorum 3";
  Add(kD, "http://d:1", "", true);
  EXPECT_TRUE(cluster_.view()->ReadyToPromote(kD)) << "the learner counts as started: 3 of 4";
}

// C43 in small: adds, removals, promotions and updates in random order equal a naive twin.
TEST_F(ClusterTest, RandomChangesEqualANaiveTwin) {
  const uint64_t seed = SystemRandom().Next64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  SeededRandom random(seed);
  std::map<MemberId, Member> members;
  std::set<MemberId> removed;
  for (int step = 0; step < 2000; ++step) {
    const MemberId id(1 + random.Below(40));
    const std::string url = "http://h:" + std::to_string(1 + random.Below(30));
    const auto taken = [&](MemberId except) {
      return std::any_of(members.begin(), members.end(), [&](const auto& m) {
        return m.first != except && m.second.peer_urls[0] == url;
      });
    };
    const bool known = members.contains(id);
    const bool gone = removed.contains(id);
    const auto learners = std::count_if(members.begin(), members.end(),
                                        [](const auto& m) { return m.second.is_learner; });
    switch (random.Below(8)) {
      case 0:
        ASSERT_EQ(Remove(id), known ? Error::kOk : Error::kMemberNotFound);
        if (known) {
          members.erase(id);
          removed.insert(id);
        }
        break;
      case 1:
        ASSERT_EQ(Promote(id), !known                   ? Error::kMemberNotFound
                               : members[id].is_learner ? Error::kOk
                                                        : Error::kMemberNotLearner);
        if (known) {
          members[id].is_learner = false;
        }
        break;
      case 2: {
        const Error want = !known      ? Error::kMemberNotFound
                           : taken(id) ? Error::kPeerUrlExist
                                       : Error::kOk;
        ASSERT_EQ(Update(id, url), want);
        if (want == Error::kOk) {
          members[id].peer_urls = {url};
        }
        break;
      }
      default: {
        const bool learner = random.Below(2) == 0;
        const Error want = gone                       ? Error::kMemberNotFound
                           : known                    ? Error::kMemberExist
                           : taken(id)                ? Error::kPeerUrlExist
                           : learner && learners >= 1 ? Error::kTooManyLearners
                                                      : Error::kOk;
        ASSERT_EQ(Add(id, url, "", learner), want);
        if (want == Error::kOk) {
          members[id] = {
              .id = id, .peer_urls = {url}, .is_learner = learner, .name = "", .client_urls = {}};
        }
      }
    }
    ASSERT_EQ(cluster_.view()->members, members);
    ASSERT_EQ(cluster_.view()->removed, removed);
  }
}

}  // namespace
}  // namespace mainstay::membership
