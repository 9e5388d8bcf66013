// Goal: each rule of the Raft paper (figure 2, sections 5 to 8) and of the thesis (3.10, 4, 6, 9.6,
// 10.2.1) that the core has to keep, one test a claim.
// Method: one core, hand-made messages.
#include "raft/codec.h"
#include "tests/unit/raft/core_harness.h"

namespace mainstay::raft {
namespace {

using Harness = CoreHarness;

CoreSetup NoPreVote() {
  CoreSetup setup;
  setup.options.pre_vote = false;
  return setup;
}

// ---- Raft paper 5.1: terms
// ------------------------------------------------------------------------

TEST(RaftPaper51Test, AMemberThatSeesALaterTermFollowsIt) {
  Harness leader(NoPreVote());
  leader.Lead();
  leader.Step(Harness::Reply(MessageType::kHeartbeatResp, 2, Term(7)));
  EXPECT_EQ(leader.core().role(), Role::kFollower);
  EXPECT_EQ(leader.core().term(), Term(7));
}

TEST(RaftPaper51Test, MessagesOfOldTermsDoNothing) {
  CoreSetup setup = NoPreVote();
  setup.term = 5;
  Harness member(setup);
  member.Step(Harness::Append(2, 4, Id(0, 0), {4}, 1));
  EXPECT_EQ(member.core().leader(), kNobody);
  EXPECT_EQ(member.core().GetStatus().last, Id(0, 0));
  // It tells the old leader, which hears of the term in no other way.
  const std::vector<Message> answers = member.Sent(MessageType::kAppResp);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].term, Term(5));
}

// ---- Raft paper 5.2: elections
// --------------------------------------------------------------------

TEST(RaftPaper52Test, AFollowerStartsAnElectionAfterARandomTimeout) {
  int earliest = 1000;
  int latest = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    CoreSetup setup = NoPreVote();
    setup.options.seed = seed;
    Harness member(setup);
    int ticks = 0;
    while (member.core().role() == Role::kFollower) {
      member.Tick();
      ++ticks;
    }
    earliest = std::min(earliest, ticks);
    latest = std::max(latest, ticks);
  }
  EXPECT_EQ(earliest, 10);
  EXPECT_EQ(latest, 19);
}

TEST(RaftPaper52Test, ACandidateRaisesItsTermAndVotesForItself) {
  Harness member(NoPreVote());
  member.core().Campaign();
  member.Settle();
  const CoreStatus status = member.core().GetStatus();
  EXPECT_EQ(status.role, Role::kCandidate);
  EXPECT_EQ(status.term, Term(1));
  EXPECT_EQ(status.vote, MemberId(1));
  EXPECT_EQ(member.Sent(MessageType::kVote).size(), 2u);
}

TEST(RaftPaper52Test, AMemberVotesOncePerTermFirstComeFirstServed) {
  Harness member(NoPreVote());
  member.Step(Harness::AskVote(2, 1, Id(0, 0)));
  EXPECT_FALSE(member.Sent(MessageType::kVoteResp)[0].reject);
  member.Step(Harness::AskVote(3, 1, Id(0, 0)));
  EXPECT_TRUE(member.Sent(MessageType::kVoteResp)[0].reject);
  member.Step(Harness::AskVote(2, 1, Id(0, 0)));  // the same again
  EXPECT_FALSE(member.Sent(MessageType::kVoteResp)[0].reject);
}

TEST(RaftPaper52Test, AVoteIsRememberedOverARestart) {
  CoreSetup setup = NoPreVote();
  setup.term = 3;
  setup.vote = 2;
  Harness member(setup);
  member.Step(Harness::AskVote(3, 3, Id(0, 0)));
  EXPECT_TRUE(member.Sent(MessageType::kVoteResp)[0].reject);
}

TEST(RaftPaper52Test, ACandidateGivesWayToTheLeaderOfItsTerm) {
  Harness member(NoPreVote());
  member.core().Campaign();
  member.Settle();
  member.Step(Harness::Append(2, 1, Id(0, 0), {1}, 0));
  EXPECT_EQ(member.core().role(), Role::kFollower);
  EXPECT_EQ(member.core().leader(), MemberId(2));
}

TEST(RaftPaper52Test, AMajorityOfRefusalsEndsTheCandidacy) {
  Harness member(NoPreVote());
  member.core().Campaign();
  member.Settle();
  member.Step(Harness::Reply(MessageType::kVoteResp, 2, Term(1), /*reject=*/true));
  EXPECT_EQ(member.core().role(), Role::kCandidate);
  member.Step(Harness::Reply(MessageType::kVoteResp, 3, Term(1), /*reject=*/true));
  EXPECT_EQ(member.core().role(), Role::kFollower);
}

TEST(RaftPaper52Test, ALeaderSendsHeartbeats) {
  Harness leader(NoPreVote());
  leader.Lead();
  leader.messages.clear();
  leader.Tick();
  EXPECT_EQ(leader.Sent(MessageType::kHeartbeat).size(), 2u);
}

// ---- Raft paper 5.3: replication
// ------------------------------------------------------------------

TEST(RaftPaper53Test, ALeaderAppendsAndSendsToAll) {
  Harness leader(NoPreVote());
  leader.Lead();
  leader.Step(Harness::Acknowledge(2, Term(1), 1));
  leader.Step(Harness::Acknowledge(3, Term(1), 1));
  leader.messages.clear();
  const ProposeResult result = leader.Propose("x");
  EXPECT_EQ(result.outcome, ProposeOutcome::kAccepted);
  EXPECT_EQ(result.first, Index(2));
  const std::vector<Message> appends = leader.Sent(MessageType::kApp);
  ASSERT_EQ(appends.size(), 2u);
  EXPECT_EQ(appends[0].index, Index(1));
  EXPECT_EQ(appends[0].log_term, Term(1));
  EXPECT_EQ(appends[0].entries.size(), 1u);
}

TEST(RaftPaper53Test, AnEntryIsCommittedByAMajorityAndSoAreThoseBefore) {
  Harness leader(NoPreVote());
  leader.Lead();
  leader.Propose("x");
  leader.Propose("y");
  EXPECT_EQ(leader.core().commit_index(), Index(0));
  leader.Step(Harness::Acknowledge(3, Term(1), 3));
  EXPECT_EQ(leader.core().commit_index(), Index(3));
  EXPECT_EQ(leader.committed.size(), 3u);
}

TEST(RaftPaper53Test, AFollowerRefusesWhatDoesNotFollowItsLog) {
  CoreSetup setup = NoPreVote();
  setup.log = {1, 1, 2};
  setup.term = 2;
  Harness member(setup);
  member.Step(Harness::Append(2, 3, Id(3, 3), {3}, 0));
  const std::vector<Message> answers = member.Sent(MessageType::kAppResp);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].reject);
  EXPECT_EQ(answers[0].index, Index(3));
  EXPECT_EQ(answers[0].reject_hint, Index(3));
  EXPECT_EQ(answers[0].log_term, Term(2));
}

TEST(RaftPaper53Test, AFollowerReplacesConflictingEntries) {
  CoreSetup setup = NoPreVote();
  setup.log = {1, 1, 1};
  setup.term = 1;
  Harness member(setup);
  member.Step(Harness::Append(2, 2, Id(1, 1), {2}, 0));
  EXPECT_EQ(member.core().GetStatus().last, Id(2, 2));
  const std::vector<Message> answers = member.Sent(MessageType::kAppResp);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].index, Index(2));
}

TEST(RaftPaper53Test, AFollowerCommitsNoFurtherThanTheAppendReaches) {
  CoreSetup setup = NoPreVote();
  setup.log = {1, 1, 1};
  setup.term = 1;
  Harness member(setup);
  // Entries 2 and 3 may differ from the leader's, which commits up to 3.
  member.Step(Harness::Append(2, 2, Id(1, 1), {}, 3));
  EXPECT_EQ(member.core().commit_index(), Index(1));
}

TEST(RaftPaper53Test, ALateAppendDoesNotTakeBackEntries) {
  Harness member(NoPreVote());
  member.Step(Harness::Append(2, 1, Id(0, 0), {1, 1, 1}, 0));
  member.Step(Harness::Append(2, 1, Id(0, 0), {1}, 0));
  EXPECT_EQ(member.core().GetStatus().last, Id(1, 3));
}

TEST(RaftPaper53Test, MalformedAppendsAreDropped) {
  Harness member(NoPreVote());
  Message gap = Harness::Append(2, 1, Id(0, 0), {1, 1}, 0);
  gap.entries[1].index = Index(5);
  member.Step(gap);
  member.Step(Harness::Append(2, 1, Id(0, 0), {9}, 0));  // from a term to come
  EXPECT_EQ(member.core().GetStatus().last, Id(0, 0));
}

// ---- Raft paper 5.4: safety
// -----------------------------------------------------------------------

TEST(RaftPaper541Test, AVoteGoesOnlyToAnUpToDateLog) {
  const auto refuses = [](EntryId last) {
    CoreSetup setup = NoPreVote();
    setup.log = {1, 2, 2};
    setup.term = 2;
    Harness member(setup);
    member.Step(Harness::AskVote(2, 9, last));
    return member.Sent(MessageType::kVoteResp)[0].reject;
  };
  EXPECT_FALSE(refuses(Id(2, 3)));
  EXPECT_FALSE(refuses(Id(3, 1)));
  EXPECT_TRUE(refuses(Id(2, 2)));
  EXPECT_TRUE(refuses(Id(1, 10)));
}

TEST(RaftPaper542Test, AnEntryOfAnEarlierTermIsNotCommittedByCounting) {
  CoreSetup setup = NoPreVote();
  setup.log = {1, 2};
  setup.term = 3;
  Harness leader(setup);
  leader.Lead();  // term 4; its own entry is number 3
  leader.Step(Harness::Acknowledge(2, Term(4), 2));
  leader.Step(Harness::Acknowledge(3, Term(4), 2));
  EXPECT_EQ(leader.core().commit_index(), Index(0));
  leader.Step(Harness::Acknowledge(2, Term(4), 3));
  EXPECT_EQ(leader.core().commit_index(), Index(3));
}

TEST(RaftPaper542Test, ANewLeaderBeginsWithAnEmptyEntryOfItsTerm) {
  Harness leader(NoPreVote());
  leader.Lead();
  const std::vector<Message> appends = leader.Sent(MessageType::kApp);
  ASSERT_EQ(appends.size(), 2u);
  ASSERT_EQ(appends[0].entries.size(), 1u);
  EXPECT_EQ(appends[0].entries[0].id(), Id(1, 1));
  EXPECT_TRUE(appends[0].entries[0].data.empty());
}

// ---- Raft paper 7 and 8
// ---------------------------------------------------------------------------

TEST(RaftPaper7Test, ASnapshotReplacesALogThatDoesNotReachIt) {
  CoreSetup setup = NoPreVote();
  setup.log = {1};
  setup.term = 1;
  Harness member(setup);
  Message message = Harness::Reply(MessageType::kSnap, 2, Term(2));
  message.snapshot = Snapshot{.meta = {.conf_state = {.voters = {MemberId(1), MemberId(2)}},
                                       .index = Index(10),
                                       .term = Term(2)}};
  member.Step(message);
  ASSERT_EQ(member.snapshots.size(), 1u);
  EXPECT_EQ(member.core().GetStatus().last, Id(2, 10));
  EXPECT_EQ(member.core().GetStatus().conf_state.voters.size(), 2u);
  EXPECT_EQ(member.Sent(MessageType::kAppResp).back().index, Index(10));
}

TEST(RaftPaper7Test, ASnapshotOfWhatTheLogHoldsOnlyMovesTheCommitIndex) {
  CoreSetup setup = NoPreVote();
  setup.log = {1, 1, 1};
  setup.term = 1;
  Harness member(setup);
  Message message = Harness::Reply(MessageType::kSnap, 2, Term(1));
  message.snapshot = Snapshot{.meta = {.conf_state = {.voters = {MemberId(1), MemberId(2)}},
                                       .index = Index(2),
                                       .term = Term(1)}};
  member.Step(message);
  EXPECT_TRUE(member.snapshots.empty());
  EXPECT_EQ(member.core().commit_index(), Index(2));
  EXPECT_EQ(member.core().GetStatus().last, Id(1, 3));
}

TEST(RaftPaper8Test, AReadIsConfirmedByAMajorityAfterItWasAsked) {
  Harness leader(NoPreVote());
  leader.Lead();
  leader.Step(Harness::Acknowledge(2, Term(1), 1));
  leader.messages.clear();
  leader.core().ReadIndex(77);
  leader.Settle();
  EXPECT_TRUE(leader.reads.empty());
  Message echo = Harness::Reply(MessageType::kHeartbeatResp, 2, Term(1));
  leader.Step(echo);  // the answer to an earlier heartbeat
  EXPECT_TRUE(leader.reads.empty());
  leader.messages.clear();
  leader.Tick();
  echo.context = leader.Sent(MessageType::kHeartbeat)[0].context;
  leader.Step(echo);
  ASSERT_EQ(leader.reads.size(), 1u);
  EXPECT_EQ(leader.reads[0].token, 77u);
  EXPECT_EQ(leader.reads[0].outcome, ReadOutcome::kOk);
  EXPECT_EQ(leader.reads[0].index, Index(1));
}

TEST(RaftPaper8Test, ANewLeaderAnswersNoReadBeforeItCommittedInItsTerm) {
  CoreSetup setup = NoPreVote();
  setup.voters = {1};
  Harness alone(setup);
  alone.disk_at_once = false;
  alone.core().Campaign();
  alone.Settle();
  alone.PersistOne();
  ASSERT_EQ(alone.core().role(), Role::kLeader);
  alone.core().ReadIndex(1);
  alone.Settle();
  EXPECT_TRUE(alone.reads.empty());
  alone.PersistOne();
  ASSERT_EQ(alone.reads.size(), 1u);
  EXPECT_EQ(alone.reads[0].index, Index(1));
}

// ---- Thesis
// ---------------------------------------------------------------------------------------

TEST(RaftThesis310Test, TheSuccessorIsToldToCampaignOnceItHasTheWholeLog) {
  Harness leader(NoPreVote());
  leader.Lead();
  leader.core().TransferLeader(MemberId(2));
  leader.Settle();
  EXPECT_TRUE(leader.Sent(MessageType::kTimeoutNow).empty());
  EXPECT_EQ(leader.Propose("x").outcome, ProposeOutcome::kTransferring);
  leader.Step(Harness::Acknowledge(2, Term(1), 1));
  EXPECT_EQ(leader.Sent(MessageType::kTimeoutNow).size(), 1u);
}

TEST(RaftThesis310Test, TheSuccessorSkipsThePreVote) {
  CoreSetup setup;  // pre-vote on
  setup.id = 2;
  Harness member(setup);
  member.Step(Harness::Append(1, 1, Id(0, 0), {1}, 0));
  member.Step(Harness::Reply(MessageType::kTimeoutNow, 1, Term(1)));
  EXPECT_EQ(member.core().role(), Role::kCandidate);
  EXPECT_EQ(member.Sent(MessageType::kVote)[0].context.view(), kCampaignTransfer);
}

TEST(RaftThesis41Test, ASecondConfChangeBeforeTheFirstIsAppliedBecomesAnEmptyEntry) {
  Harness leader(NoPreVote());
  leader.apply_at_once = false;
  leader.Lead();
  leader.Step(Harness::Acknowledge(2, Term(1), 1));
  leader.core().AppliedTo(Index(1));
  leader.messages.clear();
  const ConfChange add{.type = ConfChangeType::kAddNode, .node_id = MemberId(4)};
  const Proposal change{EntryType::kConfChange, EncodeConfChange(add)};
  leader.core().Propose({change});
  leader.core().Propose({change});
  leader.Settle();
  const std::vector<Message> appends = leader.Sent(MessageType::kApp);
  ASSERT_FALSE(appends.empty());
  ASSERT_EQ(appends[0].entries.size(), 2u);
  EXPECT_EQ(appends[0].entries[0].type, EntryType::kConfChange);
  EXPECT_EQ(appends[0].entries[1].type, EntryType::kNormal);
  EXPECT_TRUE(appends[0].entries[1].data.empty());
}

TEST(RaftThesis421Test, ALearnerDoesNotCampaign) {
  CoreSetup setup = NoPreVote();
  setup.id = 4;
  setup.learners = {4};
  Harness learner(setup);
  learner.Tick(100);
  learner.core().Campaign();
  EXPECT_EQ(learner.core().role(), Role::kFollower);
  EXPECT_EQ(learner.core().term(), Term(0));
}

TEST(RaftThesis421Test, ALearnerThatIsAskedMayVote) {
  // By the asker's newer configuration it may be a voter.
  CoreSetup setup = NoPreVote();
  setup.id = 4;
  setup.learners = {4};
  Harness learner(setup);
  learner.Step(Harness::AskVote(2, 1, Id(0, 0)));
  EXPECT_FALSE(learner.Sent(MessageType::kVoteResp)[0].reject);
}

TEST(RaftThesis423Test, AMemberThatHearsItsLeaderIgnoresCandidates) {
  Harness member(NoPreVote());
  member.Step(Harness::Append(2, 1, Id(0, 0), {1}, 0));
  member.Step(Harness::AskVote(3, 5, Id(5, 9)));
  EXPECT_TRUE(member.Sent(MessageType::kVoteResp).empty());
  EXPECT_EQ(member.core().term(), Term(1));
  Message transfer = Harness::AskVote(3, 5, Id(5, 9));
  transfer.context = Buffer::Static(kCampaignTransfer);
  member.Step(transfer);
  EXPECT_FALSE(member.Sent(MessageType::kVoteResp)[0].reject);
}

TEST(RaftThesis62Test, ALeaderWithoutAMajorityStepsDown) {
  Harness leader(NoPreVote());
  leader.Lead();
  leader.Tick(9);
  EXPECT_EQ(leader.core().role(), Role::kLeader);
  leader.Tick(1);
  EXPECT_EQ(leader.core().role(), Role::kFollower);
}

TEST(RaftThesis96Test, APreVoteChangesNobodysTerm) {
  CoreSetup setup;
  Harness member(setup);
  member.Step(Harness::AskVote(2, 8, Id(0, 0), /*pre_vote=*/true));
  const std::vector<Message> answers = member.Sent(MessageType::kPreVoteResp);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_FALSE(answers[0].reject);
  EXPECT_EQ(answers[0].term, Term(8));
  EXPECT_EQ(member.core().term(), Term(0));
  EXPECT_EQ(member.core().GetStatus().vote, kNobody);
}

TEST(RaftThesis96Test, APreCandidateWithoutAMajorityKeepsItsTerm) {
  Harness member((CoreSetup()));
  member.Tick(200);
  EXPECT_EQ(member.core().role(), Role::kPreCandidate);
  EXPECT_EQ(member.core().term(), Term(0));
}

TEST(RaftThesis96Test, APreVoteOfAnOldTermIsRefusedWithTheNewOne) {
  CoreSetup setup;
  setup.term = 5;
  Harness member(setup);
  member.Step(Harness::AskVote(2, 3, Id(9, 9), /*pre_vote=*/true));
  const std::vector<Message> answers = member.Sent(MessageType::kPreVoteResp);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].reject);
  EXPECT_EQ(answers[0].term, Term(5));
}

TEST(RaftThesis1021Test, ALeaderSendsBeforeItsOwnDiskHasTheEntry) {
  Harness leader(NoPreVote());
  leader.Lead();
  leader.Step(Harness::Acknowledge(2, Term(1), 1));
  leader.messages.clear();
  leader.disk_at_once = false;
  leader.Propose("x");
  EXPECT_FALSE(leader.Sent(MessageType::kApp).empty());
  EXPECT_EQ(leader.core().commit_index(), Index(1));
}

TEST(RaftThesis1021Test, AMajorityWithoutTheLeadersDiskCommits) {
  Harness leader(NoPreVote());
  leader.Lead();
  leader.Step(Harness::Acknowledge(2, Term(1), 1));
  leader.disk_at_once = false;
  leader.Propose("x");
  leader.Step(Harness::Acknowledge(2, Term(1), 2));
  EXPECT_EQ(leader.core().commit_index(), Index(1));
  leader.Step(Harness::Acknowledge(3, Term(1), 2));
  EXPECT_EQ(leader.core().commit_index(), Index(2));
  EXPECT_EQ(leader.committed.size(), 1u);  // applied when its own disk has it
  leader.PersistOne();
  EXPECT_EQ(leader.committed.size(), 2u);
}

}  // namespace
}  // namespace mainstay::raft
