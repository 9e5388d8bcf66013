// Goal: majorities count right at the edges (Raft paper 5.2; thesis 4.3).
// Method: examples; tests/property/raft/quorum_test.cc has the random ones.
#include "raft/quorum.h"

#include <gtest/gtest.h>

namespace mainstay::raft {
namespace {

Voters Ids(std::initializer_list<uint64_t> ids) {
  Voters out;
  for (uint64_t id : ids) {
    out.emplace_back(id);
  }
  return out;
}

Index Same(MemberId id) {
  return Index(id.value() * 10);
}

TEST(MajorityTest, CommitsWhatMoreThanHalfHave) {
  EXPECT_EQ(MajorityIndex(Ids({1}), Same), Index(10));
  EXPECT_EQ(MajorityIndex(Ids({1, 2}), Same), Index(10));
  EXPECT_EQ(MajorityIndex(Ids({1, 2, 3}), Same), Index(20));
  EXPECT_EQ(MajorityIndex(Ids({1, 2, 3, 4}), Same), Index(20));
  EXPECT_EQ(MajorityIndex(Ids({1, 2, 3, 4, 5}), Same), Index(30));
}

TEST(MajorityTest, VoteIsOpenUntilItCannotChange) {
  const Voters four = Ids({1, 2, 3, 4});
  const MemberId a{1};
  const MemberId b{2};
  const MemberId c{3};
  EXPECT_EQ(MajorityVote(four, {{a, true}, {b, true}}), VoteResult::kPending);
  EXPECT_EQ(MajorityVote(four, {{a, true}, {b, true}, {c, true}}), VoteResult::kWon);
  EXPECT_EQ(MajorityVote(four, {{a, false}, {b, false}}), VoteResult::kLost);
  EXPECT_EQ(MajorityVote(four, {{MemberId(9), true}}), VoteResult::kPending);
}

TEST(JointQuorumTest, CommitNeedsBothMajorities) {
  const JointVoters joint{Ids({1, 2, 3}), Ids({3, 4, 5})};
  EXPECT_EQ(joint.CommittedIndex(Same), Index(20));
  EXPECT_EQ(joint.Vote({{MemberId(1), true}, {MemberId(2), true}}), VoteResult::kPending);
  EXPECT_EQ(joint.Vote({{MemberId(2), true}, {MemberId(3), true}, {MemberId(4), true}}),
            VoteResult::kWon);
  EXPECT_EQ(joint.Vote({{MemberId(4), false}, {MemberId(5), false}}), VoteResult::kLost);
}

TEST(JointQuorumTest, AnEmptyOutgoingHalfIsAPlainConfiguration) {
  const JointVoters plain{Ids({1, 2, 3}), {}};
  EXPECT_FALSE(plain.is_joint());
  EXPECT_EQ(plain.CommittedIndex(Same), Index(20));
  EXPECT_FALSE(plain.IsSole(MemberId(1)));
  EXPECT_TRUE((JointVoters{Ids({1}), {}}).IsSole(MemberId(1)));
  EXPECT_FALSE((JointVoters{Ids({1}), Ids({1, 2})}).IsSole(MemberId(1)));
}

TEST(JointQuorumTest, AllListsEachMemberOnce) {
  EXPECT_EQ((JointVoters{Ids({1, 2, 4}), Ids({2, 3})}).All(), Ids({1, 2, 3, 4}));
}

}  // namespace
}  // namespace mainstay::raft
