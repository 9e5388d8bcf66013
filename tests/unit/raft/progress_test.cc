// Goal: a follower's progress moves between its states as the protocol says.
// Method: examples; tests/property/raft/progress_test.cc has the random ones.
#include "raft/progress.h"

#include <gtest/gtest.h>

namespace mainstay::raft {
namespace {

Progress Replicating(uint64_t match, size_t count_max = 3) {
  Progress progress(Index(match + 1), count_max, 100);
  progress.MaybeUpdate(Index(match));
  progress.BecomeReplicate();
  return progress;
}

TEST(ProgressTest, ProbingSendsOneAppendAtATime) {
  Progress progress(Index(5), 3, 100);
  EXPECT_FALSE(progress.paused());
  progress.Sent(2, 10, Index(0));
  EXPECT_TRUE(progress.paused());
  EXPECT_EQ(progress.next(), Index(5));
  progress.Resume();
  EXPECT_FALSE(progress.paused());
}

TEST(ProgressTest, ReplicatingRunsAheadUntilTheWindowIsFull) {
  Progress progress = Replicating(4, 2);
  progress.Sent(2, 10, Index(0));
  EXPECT_EQ(progress.next(), Index(7));
  EXPECT_FALSE(progress.paused());
  progress.Sent(1, 10, Index(0));
  EXPECT_TRUE(progress.paused());
  EXPECT_TRUE(progress.MaybeUpdate(Index(6)));
  EXPECT_FALSE(progress.paused());
  EXPECT_EQ(progress.window().count(), 1u);
}

TEST(ProgressTest, WindowIsBoundedInBytesToo) {
  Progress progress = Replicating(4, 100);
  progress.Sent(1, 99, Index(0));
  EXPECT_FALSE(progress.paused());
  progress.Sent(1, 500, Index(0));
  EXPECT_TRUE(progress.paused());
}

TEST(ProgressTest, AnEmptyAppendTakesNoPlaceInTheWindow) {
  Progress progress = Replicating(4);
  progress.Sent(0, 0, Index(0));
  EXPECT_EQ(progress.window().count(), 0u);
  EXPECT_EQ(progress.next(), Index(5));
}

TEST(ProgressTest, StaleAcknowledgementsAreNoNews) {
  Progress progress = Replicating(4);
  EXPECT_FALSE(progress.MaybeUpdate(Index(4)));
  EXPECT_FALSE(progress.MaybeUpdate(Index(2)));
  EXPECT_EQ(progress.match(), Index(4));
}

TEST(ProgressTest, StaleRefusalsAreIgnored) {
  Progress replicating = Replicating(4);
  EXPECT_FALSE(replicating.MaybeDecrease(Index(4), Index(0)));
  Progress probing(Index(10), 3, 0);
  EXPECT_FALSE(probing.MaybeDecrease(Index(5), Index(4)));
  EXPECT_TRUE(probing.MaybeDecrease(Index(9), Index(3)));
  EXPECT_EQ(probing.next(), Index(4));
}

TEST(ProgressTest, ARefusalNeverGoesBelowWhatMatches) {
  Progress probing(Index(10), 3, 0);
  probing.MaybeUpdate(Index(6));
  EXPECT_TRUE(probing.MaybeDecrease(Index(9), Index(0)));
  EXPECT_EQ(probing.next(), Index(7));
}

TEST(ProgressTest, NothingIsSentWhileASnapshotIsOnItsWay) {
  Progress progress(Index(1), 3, 0);
  progress.BecomeSnapshot(Index(10));
  EXPECT_TRUE(progress.paused());
  progress.Resume();
  EXPECT_TRUE(progress.paused());
  progress.CheckInvariants();
  progress.BecomeProbe();
  EXPECT_EQ(progress.next(), Index(11));
}

TEST(ProgressTest, ALostSnapshotIsForgotten) {
  Progress progress(Index(4), 3, 0);
  progress.MaybeUpdate(Index(3));
  progress.BecomeSnapshot(Index(10));
  progress.SnapshotFailed();
  EXPECT_EQ(progress.state(), ProgressState::kProbe);
  EXPECT_EQ(progress.next(), Index(4));
}

TEST(ProgressTest, KnowsWhichCommitIndexTheFollowerHasHeardOf) {
  Progress progress = Replicating(4);
  progress.Sent(2, 0, Index(100));
  EXPECT_EQ(progress.commit_sent(), Index(6));  // a follower commits no further than it was sent
  progress.BecomeProbe();
  EXPECT_EQ(progress.commit_sent(), Index(4));  // the append may be lost
}

TEST(InflightWindowDeathTest, AddingToAFullWindowAborts) {
  InflightWindow window(1, 0);
  window.Add(Index(1), 1);
  EXPECT_DEATH(window.Add(Index(2), 1), "full");
}

}  // namespace
}  // namespace mainstay::raft
