// Goal: configurations change as thesis 4 and etcd's rules for learners say.
// Method: examples, each from a configuration through changes to the expected one or the refusal.
#include "raft/conf_change.h"

#include <gtest/gtest.h>

namespace mainstay::raft {
namespace {

using enum ConfChangeType;
using enum ConfChangeTransition;

Voters Ids(std::initializer_list<uint64_t> ids) {
  Voters out;
  for (uint64_t id : ids) {
    out.emplace_back(id);
  }
  return out;
}

ConfChangeV2 Change(std::vector<std::pair<ConfChangeType, uint64_t>> changes,
                    ConfChangeTransition transition = kAuto) {
  ConfChangeV2 change;
  change.transition = transition;
  for (const auto& [type, id] : changes) {
    change.changes.push_back({type, MemberId(id)});
  }
  return change;
}

Config Plain(std::initializer_list<uint64_t> voters,
             std::initializer_list<uint64_t> learners = {}) {
  return {.voters = {Ids(voters), {}}, .learners = Ids(learners), .learners_next = {}};
}

Config After(const Config& config, const ConfChangeV2& change) {
  const StatusOr<Config> after = ChangeConfig(config, change);
  EXPECT_TRUE(after.ok()) << ::mainstay::Message(after.status());
  EXPECT_TRUE(CheckConfig(after.value_or(config)).ok());
  return after.value_or(config);
}

std::string Refusal(const Config& config, const ConfChangeV2& change) {
  return std::string(::mainstay::Message(ChangeConfig(config, change).status()));
}

TEST(SimpleChangeTest, AddsRemovesPromotesAndDemotes) {
  EXPECT_EQ(After(Plain({1}), Change({{kAddNode, 2}})), Plain({1, 2}));
  EXPECT_EQ(After(Plain({1, 2}), Change({{kRemoveNode, 2}})), Plain({1}));
  EXPECT_EQ(After(Plain({1}), Change({{kAddLearnerNode, 2}})), Plain({1}, {2}));
  EXPECT_EQ(After(Plain({1}, {2}), Change({{kAddNode, 2}})), Plain({1, 2}));
  EXPECT_EQ(After(Plain({1, 2}), Change({{kAddLearnerNode, 2}})), Plain({1}, {2}));
  EXPECT_EQ(After(Plain({1}, {2}), Change({{kRemoveNode, 2}})), Plain({1}));
}

TEST(SimpleChangeTest, RepeatsAndNobodyChangeNothing) {
  EXPECT_EQ(After(Plain({1, 2}), Change({{kAddNode, 2}})), Plain({1, 2}));
  EXPECT_EQ(After(Plain({1}), Change({{kRemoveNode, 7}})), Plain({1}));
  EXPECT_EQ(After(Plain({1}), Change({{kUpdateNode, 1}})), Plain({1}));
  EXPECT_EQ(After(Plain({1}), Change({{kAddNode, 0}})), Plain({1}));
}

TEST(SimpleChangeTest, TheLastVoterStays) {
  EXPECT_EQ(Refusal(Plain({1}), Change({{kRemoveNode, 1}})), "removed all voters");
  EXPECT_EQ(Refusal(Plain({1}, {2}), Change({{kAddLearnerNode, 1}})), "removed all voters");
}

TEST(JointChangeTest, SeveralChangesGoThroughAJointConfigurationAndLeaveItByThemselves) {
  const Config joint = After(Plain({1, 2, 3}), Change({{kAddNode, 4}, {kRemoveNode, 1}}));
  EXPECT_EQ(joint, (Config{.voters = {Ids({2, 3, 4}), Ids({1, 2, 3})},
                           .learners = {},
                           .learners_next = {},
                           .auto_leave = true}));
  EXPECT_EQ(After(joint, Change({})), Plain({2, 3, 4}));
}

TEST(JointChangeTest, AVoterThatBecomesALearnerVotesOnInTheOutgoingHalf) {
  const Config joint = After(Plain({1, 2}), Change({{kAddLearnerNode, 2}}, kJointExplicit));
  EXPECT_EQ(joint, (Config{.voters = {Ids({1}), Ids({1, 2})},
                           .learners = {},
                           .learners_next = Ids({2}),
                           .auto_leave = false}));
  EXPECT_TRUE(joint.IsVoter(MemberId(2)));
  EXPECT_EQ(After(joint, Change({})), Plain({1}, {2}));
}

TEST(JointChangeTest, OneAtATime) {
  const Config joint = After(Plain({1, 2}), Change({{kAddNode, 3}}, kJointImplicit));
  EXPECT_EQ(Refusal(joint, Change({{kAddNode, 4}}, kJointImplicit)), "config is already joint");
  EXPECT_EQ(Refusal(joint, Change({{kAddNode, 4}})),
            "can't apply simple config change in joint config");
  EXPECT_EQ(Refusal(Plain({1}), Change({})), "can't leave a non-joint config");
  EXPECT_EQ(Refusal(Plain({}), Change({{kAddNode, 1}}, kJointImplicit)),
            "can't make a zero-voter config joint");
}

TEST(ConfStateTest, GoesToAConfigAndBack) {
  const Config joint = After(Plain({1, 2}, {5}), Change({{kAddLearnerNode, 2}, {kAddNode, 3}}));
  const StatusOr<Config> back = FromConfState(ToConfState(joint));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, joint);
}

TEST(ConfStateTest, IsSortedAndCheckedWhenItComesFromElsewhere) {
  const StatusOr<Config> sorted = FromConfState({.voters = Ids({3, 1, 2, 1})});
  ASSERT_TRUE(sorted.ok());
  EXPECT_EQ(*sorted, Plain({1, 2, 3}));
  EXPECT_FALSE(FromConfState({.voters = Ids({1, 2}), .learners = Ids({2})}).ok());
  EXPECT_FALSE(FromConfState({.voters = Ids({1}), .learners_next = Ids({2})}).ok());
  EXPECT_FALSE(FromConfState({.voters = Ids({0, 1})}).ok());
  EXPECT_FALSE(FromConfState({.voters = Ids({1}), .auto_leave = true}).ok());
}

}  // namespace
}  // namespace mainstay::raft
