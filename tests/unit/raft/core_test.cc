// Goal: what the core promises its driver beyond the protocol: order towards the disk, bounds,
// reports from the network, reads, messages as etcd's members expect them.
// Method: one core, hand-made messages and calls.
#include "raft/codec.h"
#include "tests/unit/raft/core_harness.h"

namespace mainstay::raft {
namespace {

using Harness = CoreHarness;

CoreSetup Leading() {
  CoreSetup setup;
  setup.options.pre_vote = false;
  return setup;
}

TEST(CorePersistTest, NobodyIsAskedForAVoteBeforeTheOwnIsOnDisk) {
  Harness member(Leading());
  member.disk_at_once = false;
  member.core().Campaign();
  member.Settle();
  EXPECT_TRUE(member.Sent(MessageType::kVote).empty());
  member.PersistOne();
  EXPECT_EQ(member.Sent(MessageType::kVote).size(), 2u);
}

TEST(CorePersistTest, ASoleVoterLeadsOnlyWhenItsVoteIsOnDisk) {
  CoreSetup setup = Leading();
  setup.voters = {1};
  Harness member(setup);
  member.disk_at_once = false;
  member.core().Campaign();
  member.Settle();
  EXPECT_EQ(member.core().role(), Role::kCandidate);
  member.PersistOne();
  EXPECT_EQ(member.core().role(), Role::kLeader);
  EXPECT_EQ(member.core().commit_index(), Index(0));
  member.PersistOne();
  EXPECT_EQ(member.core().commit_index(), Index(1));
}

TEST(CorePersistTest, VotesAndAcknowledgementsWaitForTheDiskRefusalsDoNot) {
  Harness member(Leading());
  member.disk_at_once = false;
  member.Step(Harness::AskVote(2, 1, Id(0, 0)));
  EXPECT_TRUE(member.Sent(MessageType::kVoteResp).empty());
  member.Step(Harness::AskVote(3, 1, Id(0, 0)));
  EXPECT_TRUE(member.Sent(MessageType::kVoteResp).at(0).reject);
  member.PersistOne();
  EXPECT_FALSE(member.Sent(MessageType::kVoteResp).at(0).reject);
  member.Step(Harness::Append(2, 1, Id(0, 0), {1}, 0));
  EXPECT_TRUE(member.Sent(MessageType::kAppResp).empty());
  member.Step(Harness::Append(2, 1, Id(1, 5), {}, 0));
  EXPECT_TRUE(member.Sent(MessageType::kAppResp).at(0).reject);
  member.PersistOne();
  EXPECT_EQ(member.Sent(MessageType::kAppResp).at(0).index, Index(1));
}

TEST(CorePersistTest, ARepeatedAppendIsNotAcknowledgedBeforeTheFirstIsOnDisk) {
  Harness member(Leading());
  member.disk_at_once = false;
  member.Step(Harness::Append(2, 1, Id(0, 0), {1}, 0));
  member.Step(Harness::Append(2, 1, Id(0, 0), {1}, 0));
  EXPECT_TRUE(member.Sent(MessageType::kAppResp).empty());
  member.PersistOne();
  EXPECT_FALSE(member.Sent(MessageType::kAppResp).empty());
}

TEST(CorePersistTest, ACommitIndexAloneNeedsNoSync) {
  CoreSetup setup = Leading();
  setup.log = {1, 1};
  setup.term = 1;
  Harness member(setup);
  member.core().Step(Harness::Append(2, 1, Id(1, 2), {}, 2));
  const Output out = member.core().TakeOutput();
  EXPECT_FALSE(out.must_sync);
  ASSERT_TRUE(out.hard_state);
  EXPECT_EQ(out.hard_state->commit, Index(2));
  // So its acknowledgement need not wait for the write either.
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].type, MessageType::kAppResp);
}

TEST(CorePersistTest, OneOutputOneAppendPerPeerForManyProposals) {
  Harness leader(Leading());
  leader.Lead();
  leader.Step(Harness::Acknowledge(2, Term(1), 1));
  leader.messages.clear();
  for (int i = 0; i < 10; ++i) {
    leader.core().Propose({{.data = Buffer::Static("x")}});
  }
  const Output out = leader.core().TakeOutput();
  EXPECT_EQ(out.entries.size(), 10u);
  EXPECT_NE(out.persist_seq, 0u);
  size_t to_replicating = 0;
  for (const Message& message : out.messages) {
    to_replicating += message.to == MemberId(2) ? 1 : 0;
  }
  EXPECT_EQ(to_replicating, 1u);
}

TEST(CorePersistDeathTest, AcknowledgingAWriteThatWasNeverHandedOutAborts) {
  Harness member(Leading());
  EXPECT_DEATH(member.core().Persisted(1), "seq");
}

TEST(CoreRecoveryTest, AStoreAheadOfTheLogStandsForIt) {
  InitialState state;
  state.hard_state = {Term(2), MemberId(2), Index(3)};
  state.conf_state.voters = {MemberId(1), MemberId(2), MemberId(3)};
  state.compacted = Id(4, 9);
  state.applied = Index(9);
  Options options;
  options.id = MemberId(1);
  Core core(options, state);
  core.CheckInvariants();
  const CoreStatus status = core.GetStatus();
  EXPECT_EQ(status.term, Term(4));
  EXPECT_EQ(status.vote, kNobody);
  EXPECT_EQ(status.commit, Index(9));
  EXPECT_EQ(status.last, Id(4, 9));
}

TEST(CoreRecoveryTest, EntriesAlreadyAppliedMayBeLeftOut) {
  InitialState state;
  state.hard_state = {Term(3), kNobody, Index(5)};
  state.conf_state.voters = {MemberId(1)};
  state.term_starts = {Id(1, 1), Id(2, 3)};
  state.entries = {{.term = Term(3), .index = Index(5)}};
  state.applied = Index(4);
  Options options;
  options.id = MemberId(1);
  Core core(options, state);
  core.CheckInvariants();
  const Output out = core.TakeOutput();
  ASSERT_EQ(out.committed.size(), 1u);
  EXPECT_EQ(out.committed[0].index, Index(5));
}

TEST(CoreEtcdPeerTest, ARefusedVoteOfAPeerCarriesTheOwnTerm) {
  CoreSetup setup = Leading();
  setup.term = 4;
  setup.vote = 3;
  Harness member(setup);
  member.Step(Harness::AskVote(2, 4, Id(9, 9)));
  const Message answer = member.Sent(MessageType::kVoteResp).at(0);
  EXPECT_TRUE(answer.reject);
  EXPECT_EQ(answer.term, Term(4));
}

TEST(CoreEtcdPeerTest, AHeartbeatsContextIsEchoed) {
  Harness member(Leading());
  Message heartbeat = Harness::Reply(MessageType::kHeartbeat, 2, Term(1));
  heartbeat.context = Buffer::Static("etcd's");
  member.Step(heartbeat);
  EXPECT_EQ(member.Sent(MessageType::kHeartbeatResp).at(0).context.view(), "etcd's");
}

TEST(CoreEtcdPeerTest, AForwardedReadIsAnsweredWithItsOwnContext) {
  Harness leader(Leading());
  leader.Lead();
  leader.Step(Harness::Acknowledge(2, Term(1), 1));
  leader.messages.clear();
  Message question = Harness::Reply(MessageType::kReadIndex, 3, Term(0));
  question.entries.resize(1);
  question.entries[0].data = Buffer::Static("request");
  leader.Step(question);
  Message echo = Harness::Reply(MessageType::kHeartbeatResp, 2, Term(1));
  echo.context = leader.Sent(MessageType::kHeartbeat).at(0).context;
  leader.Step(echo);
  const Message answer = leader.Sent(MessageType::kReadIndexResp).at(0);
  EXPECT_EQ(answer.to, MemberId(3));
  EXPECT_EQ(answer.index, Index(1));
  EXPECT_EQ(answer.entries.at(0).data.view(), "request");
}

TEST(CoreEtcdPeerTest, ForwardedProposalsAndReadsCarryNoTerm) {
  Harness member(Leading());
  member.Step(Harness::Append(2, 1, Id(0, 0), {1}, 0));
  EXPECT_EQ(member.Propose("x").outcome, ProposeOutcome::kForwarded);
  const Message forward = member.Sent(MessageType::kProp).at(0);
  EXPECT_EQ(forward.to, MemberId(2));
  EXPECT_EQ(forward.term, Term(0));
  EXPECT_EQ(forward.entries.at(0).data.view(), "x");
  member.core().ReadIndex(1);
  member.Settle();
  EXPECT_EQ(member.Sent(MessageType::kReadIndex).at(0).term, Term(0));
}

TEST(CoreEtcdPeerTest, LocalMessageTypesFromOutsideDoNothing) {
  Harness leader(Leading());
  leader.Lead();
  for (const MessageType type :
       {MessageType::kHup, MessageType::kBeat, MessageType::kUnreachable, MessageType::kSnapStatus,
        MessageType::kCheckQuorum, MessageType::kForgetLeader}) {
    leader.Step(Harness::Reply(type, 2, Term(1)));
  }
  EXPECT_EQ(leader.core().role(), Role::kLeader);
}

TEST(CoreReadTest, RoundIdsAreNeverReusedNotEvenOverARestart) {
  const auto first_id = [](uint64_t seed) {
    CoreSetup setup = Leading();
    setup.options.seed = seed;
    Harness member(setup);
    member.Step(Harness::Append(2, 1, Id(0, 0), {1}, 0));
    member.core().ReadIndex(1);
    member.Settle();
    return std::string(member.Sent(MessageType::kReadIndex).at(0).entries.at(0).data.view());
  };
  EXPECT_NE(first_id(1), first_id(2));
}

TEST(CoreReadTest, OneOfFiveIsNoMajority) {
  CoreSetup setup = Leading();
  setup.voters = {1, 2, 3, 4, 5};
  Harness leader(setup);
  leader.core().Campaign();
  leader.Settle();
  for (const uint64_t voter : {2u, 3u}) {
    leader.Step(Harness::Reply(MessageType::kVoteResp, voter, Term(1)));
    leader.Step(Harness::Acknowledge(voter, Term(1), 1));
  }
  leader.Step(Harness::Acknowledge(2, Term(1), 1));
  ASSERT_EQ(leader.core().commit_index(), Index(1));
  leader.messages.clear();
  leader.core().ReadIndex(9);
  leader.Settle();
  Message echo = Harness::Reply(MessageType::kHeartbeatResp, 2, Term(1));
  echo.context = leader.Sent(MessageType::kHeartbeat).at(0).context;
  leader.Step(echo);
  leader.Step(echo);
  EXPECT_TRUE(leader.reads.empty());
  echo.from = MemberId(5);
  leader.Step(echo);
  EXPECT_EQ(leader.reads.size(), 1u);
}

TEST(CoreReadTest, PeersCannotFillTheMemoryWithReads) {
  Harness leader(Leading());
  leader.Lead();  // nothing committed yet, so reads wait
  Message question = Harness::Reply(MessageType::kReadIndex, 3, Term(0));
  question.entries.resize(1);
  for (size_t i = 0; i < Core::kRemoteReadsMax + 10; ++i) {
    leader.core().Step(question);
  }
  EXPECT_EQ(leader.core().GetStatus().reads_pending, Core::kRemoteReadsMax);
}

TEST(CoreReadTest, EveryTokenIsAnsweredWhenLeadershipIsLost) {
  Harness leader(Leading());
  leader.Lead();
  leader.core().ReadIndex(1);
  leader.Settle();
  leader.core().StepDown();
  leader.core().ReadIndex(2);
  leader.Settle();
  ASSERT_EQ(leader.reads.size(), 2u);
  EXPECT_EQ(leader.reads[0].outcome, ReadOutcome::kLeaderChanged);
  EXPECT_EQ(leader.reads[1].outcome, ReadOutcome::kNoLeader);
}

TEST(CoreNetworkTest, ALostLeaderIsReplacedBeforeTheElectionTimeout) {
  Harness member((CoreSetup()));  // the first of the voters by id but for the leader
  member.Step(Harness::Append(2, 1, Id(0, 0), {1}, 0));
  member.core().ReportDisconnected(MemberId(2));
  member.Tick(1);
  EXPECT_EQ(member.core().role(), Role::kPreCandidate);
}

TEST(CoreNetworkTest, TheLossOfAnotherFollowerStartsNothing) {
  Harness member((CoreSetup()));
  member.Step(Harness::Append(2, 1, Id(0, 0), {1}, 0));
  member.core().ReportDisconnected(MemberId(3));
  member.Tick(8);
  EXPECT_EQ(member.core().role(), Role::kFollower);
}

TEST(CoreNetworkTest, ALeaderThatSpeaksAgainIsNotLost) {
  Harness member((CoreSetup()));
  member.Step(Harness::Append(2, 1, Id(0, 0), {1}, 0));
  member.core().ReportDisconnected(MemberId(2));
  member.Step(Harness::Reply(MessageType::kHeartbeat, 2, Term(1)));
  member.Tick(8);
  EXPECT_EQ(member.core().role(), Role::kFollower);
}

TEST(CoreNetworkTest, AfterTheLossOfTheLeaderItsLeaseProtectsItNoMore) {
  Harness member((CoreSetup()));
  member.Step(Harness::Append(2, 1, Id(0, 0), {1}, 0));
  member.Step(Harness::AskVote(3, 2, Id(1, 1), /*pre_vote=*/true));
  EXPECT_TRUE(member.Sent(MessageType::kPreVoteResp).empty());
  member.core().ReportDisconnected(MemberId(2));
  member.Step(Harness::AskVote(3, 2, Id(1, 1), /*pre_vote=*/true));
  EXPECT_FALSE(member.Sent(MessageType::kPreVoteResp).at(0).reject);
}

TEST(CoreDiskTest, AStalledDiskEndsLeadershipAndKeepsFromCampaigning) {
  CoreSetup setup = Leading();
  setup.options.check_quorum = false;
  setup.options.disk_stall_ticks = 10;
  Harness leader(setup);
  leader.Lead();
  leader.disk_at_once = false;
  leader.Propose("x");
  leader.Tick(9);
  EXPECT_EQ(leader.core().role(), Role::kLeader);
  leader.Tick(1);
  EXPECT_EQ(leader.core().role(), Role::kFollower);
  leader.Tick(50);
  EXPECT_EQ(leader.core().role(), Role::kFollower);
  EXPECT_TRUE(leader.core().GetStatus().disk_stalled);
  leader.PersistOne();
  leader.Tick(20);
  EXPECT_EQ(leader.core().role(), Role::kCandidate);
}

TEST(CoreDiskTest, ASoleVoterStaysEvenThenSinceNobodyCouldTakeOver) {
  CoreSetup setup = Leading();
  setup.voters = {1};
  setup.options.disk_stall_ticks = 10;
  Harness leader(setup);
  leader.Lead();
  leader.disk_at_once = false;
  leader.Propose("x");
  leader.Tick(50);
  EXPECT_EQ(leader.core().role(), Role::kLeader);
}

TEST(CoreSnapshotTest, IsAskedForOnceUntilItIsSentOrFailed) {
  CoreSetup setup = Leading();
  setup.log = {1, 1, 1};
  setup.term = 1;
  setup.commit = 3;
  setup.applied = 3;
  Harness leader(setup);
  leader.core().CompactLog(Index(3));
  leader.Lead();
  Message refusal = Harness::Reply(MessageType::kAppResp, 3, Term(2), /*reject=*/true);
  refusal.index = Index(3);
  leader.Step(refusal);
  ASSERT_EQ(leader.snapshot_requests, std::vector<MemberId>{MemberId(3)});
  leader.Step(Harness::Reply(MessageType::kHeartbeatResp, 3, Term(2)));
  EXPECT_EQ(leader.snapshot_requests.size(), 1u);
  leader.core().ReportSnapshot(MemberId(3), false);
  leader.Step(Harness::Reply(MessageType::kHeartbeatResp, 3, Term(2)));
  EXPECT_EQ(leader.snapshot_requests.size(), 2u);
  leader.core().SendSnapshot(MemberId(3), {.meta = {.index = Index(3), .term = Term(1)}});
  leader.Settle();
  EXPECT_EQ(leader.Sent(MessageType::kSnap).size(), 1u);
  leader.Step(Harness::Acknowledge(2, Term(2), 4));
  leader.messages.clear();
  leader.Propose("x");
  EXPECT_EQ(leader.Sent(MessageType::kApp).size(), 1u);  // to member 2 alone
}

TEST(CoreSnapshotTest, OneThatDoesNotNameThisMemberIsIgnored) {
  Harness member(Leading());
  Message message = Harness::Reply(MessageType::kSnap, 2, Term(1));
  message.snapshot = Snapshot{
      .meta = {.conf_state = {.voters = {MemberId(2)}}, .index = Index(9), .term = Term(1)}};
  member.Step(message);
  EXPECT_TRUE(member.snapshots.empty());
  EXPECT_EQ(member.core().GetStatus().last, Id(0, 0));
}

TEST(CoreConfChangeTest, ChangesBelowASnapshotAreSkipped) {
  Harness member(Leading());
  Message message = Harness::Reply(MessageType::kSnap, 2, Term(1));
  message.snapshot = Snapshot{.meta = {.conf_state = {.voters = {MemberId(1), MemberId(2)}},
                                       .index = Index(9),
                                       .term = Term(1)}};
  member.Step(message);
  const ConfChangeV2 change{.changes = {{ConfChangeType::kRemoveNode, MemberId(2)}}};
  const StatusOr<ConfState> old = member.core().ApplyConfChange(Index(5), change);
  ASSERT_TRUE(old.ok());
  EXPECT_EQ(old->voters.size(), 2u);
  const StatusOr<ConfState> now = member.core().ApplyConfChange(Index(10), change);
  ASSERT_TRUE(now.ok());
  EXPECT_EQ(now->voters.size(), 1u);
}

TEST(CoreConfChangeTest, NobodyCampaignsWithACommittedChangeUnapplied) {
  CoreSetup setup = Leading();
  Harness member(setup);
  member.apply_at_once = false;
  Message append = Harness::Append(2, 1, Id(0, 0), {1}, 1);
  append.entries[0].type = EntryType::kConfChange;
  member.Step(append);
  member.Tick(50);
  EXPECT_EQ(member.core().role(), Role::kFollower);
  member.core().AppliedTo(Index(1));
  member.Tick(20);
  EXPECT_EQ(member.core().role(), Role::kCandidate);
}

TEST(CoreConfChangeTest, ANewLeaderCountsAnUncommittedChangeInItsLogAsPending) {
  Harness member(Leading());
  Message append = Harness::Append(2, 1, Id(0, 0), {1}, 0);
  append.entries[0].type = EntryType::kConfChange;
  member.Step(append);
  member.Tick(20);
  member.Step(Harness::Reply(MessageType::kVoteResp, 2, Term(2)));
  ASSERT_EQ(member.core().role(), Role::kLeader);
  member.messages.clear();
  const ConfChange change{.type = ConfChangeType::kAddNode, .node_id = MemberId(4)};
  member.core().Propose({{EntryType::kConfChange, EncodeConfChange(change)}});
  member.Settle();
  member.Step(Harness::Acknowledge(2, Term(2), 3));
  ASSERT_EQ(member.committed.size(), 3u);
  EXPECT_EQ(member.committed[2].type, EntryType::kNormal);
}

TEST(CoreConfChangeTest, ASmallerQuorumCommitsAndConfirmsWhatWaited) {
  Harness leader(Leading());
  leader.Lead();
  leader.Step(Harness::Acknowledge(2, Term(1), 1));
  leader.Propose("x");
  leader.core().ReadIndex(5);
  leader.Settle();
  EXPECT_EQ(leader.core().commit_index(), Index(1));
  ASSERT_TRUE(
      leader.core()
          .ApplyConfChange(Index(1), {.transition = ConfChangeTransition::kAuto,
                                      .changes = {{ConfChangeType::kRemoveNode, MemberId(3)}}})
          .ok());
  ASSERT_TRUE(
      leader.core()
          .ApplyConfChange(Index(1), {.changes = {{ConfChangeType::kRemoveNode, MemberId(2)}}})
          .ok());
  leader.Settle();
  EXPECT_EQ(leader.core().commit_index(), Index(2));
  ASSERT_EQ(leader.reads.size(), 1u);
  EXPECT_EQ(leader.reads[0].outcome, ReadOutcome::kOk);
}

TEST(CoreDeathTest, TwoLeadersInOneTermAbort) {
  Harness leader(Leading());
  leader.Lead();
  EXPECT_DEATH(leader.core().Step(Harness::Append(2, 1, Id(0, 0), {1}, 0)), "two leaders");
}

}  // namespace
}  // namespace mainstay::raft
