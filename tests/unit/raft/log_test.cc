// Goal: the log view keeps terms, tail and duties right through appends, conflicts, snapshots,
// compaction and writes in flight.
// Method: examples on a Log alone, and a random comparison of term lookups with a plain list.
#include "raft/log.h"

#include <gtest/gtest.h>

#include "raft/random.h"

namespace mainstay::raft {
namespace {

Options Limits() {
  Options options;
  options.id = MemberId(1);
  return options;
}

std::vector<Entry> Entries(uint64_t first, std::initializer_list<uint64_t> terms, size_t size = 1) {
  std::vector<Entry> out;
  for (uint64_t term : terms) {
    out.push_back({.term = Term(term),
                   .index = Index(first + out.size()),
                   .data = Buffer::Copy(std::string(size, 'd'))});
  }
  return out;
}

Log Make(std::initializer_list<uint64_t> terms,
         uint64_t commit = 0,
         uint64_t applied = 0,
         const Options& options = Limits()) {
  InitialState initial;
  initial.hard_state.commit = Index(commit);
  initial.entries = Entries(1, terms);
  initial.applied = Index(applied);
  return Log(options, &initial);
}

EntryId Id(uint64_t term, uint64_t index) {
  return {Term(term), Index(index)};
}

TEST(LogTest, KnowsTheTermOfEveryEntry) {
  const Log log = Make({1, 1, 3, 3, 4});
  EXPECT_EQ(log.TermAt(Index(0)), Term(0));
  EXPECT_EQ(log.TermAt(Index(2)), Term(1));
  EXPECT_EQ(log.TermAt(Index(3)), Term(3));
  EXPECT_EQ(log.TermAt(Index(5)), Term(4));
  EXPECT_EQ(log.TermAt(Index(6)), std::nullopt);
  EXPECT_EQ(log.last_id(), Id(4, 5));
}

TEST(LogTest, UpToDateMeansLaterTermThenLonger) {
  const Log log = Make({1, 2, 2});
  EXPECT_TRUE(log.IsUpToDate(Id(3, 1)));
  EXPECT_TRUE(log.IsUpToDate(Id(2, 3)));
  EXPECT_TRUE(log.IsUpToDate(Id(2, 4)));
  EXPECT_FALSE(log.IsUpToDate(Id(2, 2)));
  EXPECT_FALSE(log.IsUpToDate(Id(1, 9)));
}

TEST(LogTest, AppendAfterAnUnknownEntryIsRefused) {
  Log log = Make({1, 1});
  EXPECT_FALSE(log.MaybeAppend(Id(1, 3), Entries(4, {1})));
  EXPECT_FALSE(log.MaybeAppend(Id(2, 2), Entries(3, {2})));
  EXPECT_EQ(log.last_index(), Index(2));
}

TEST(LogTest, ConflictsAreReplacedAgreementIsKept) {
  Log log = Make({1, 1, 2, 2});
  EXPECT_TRUE(log.MaybeAppend(Id(1, 1), Entries(2, {1, 2})));
  EXPECT_EQ(log.last_index(), Index(4));  // entry 4 was not contradicted
  EXPECT_TRUE(log.MaybeAppend(Id(1, 2), Entries(3, {3})));
  EXPECT_EQ(log.last_id(), Id(3, 3));
  EXPECT_EQ(log.persisted(), Index(2));
  log.CheckInvariants();
}

TEST(LogDeathTest, ACommittedEntryIsNeverReplaced) {
  Log log = Make({1, 1, 1}, 2);
  EXPECT_DEATH(log.MaybeAppend(Id(1, 1), Entries(2, {2})), "committed entry would be overwritten");
}

TEST(LogDeathTest, RecoveryThatLostCommittedEntriesIsNoticed) {
  EXPECT_DEATH(Make({1, 1}, 3), "ends before the commit index");
}

TEST(LogTest, HintsSkipTermsThatCannotMatch) {
  const Log log = Make({1, 1, 4, 4, 6, 6});
  EXPECT_EQ(log.LastNotAbove(Index(6), Term(5)), Id(4, 4));
  EXPECT_EQ(log.LastNotAbove(Index(6), Term(3)), Id(1, 2));
  EXPECT_EQ(log.LastNotAbove(Index(3), Term(9)), Id(4, 3));
  EXPECT_EQ(log.LastNotAbove(Index(99), Term(9)), Id(6, 6));
  EXPECT_EQ(log.LastNotAbove(Index(6), Term(0)), Id(0, 0));
}

TEST(LogTest, EntriesAreHandedToTheDiskOnce) {
  Log log = Make({});
  log.Append(Entries(1, {1, 1}));
  EXPECT_EQ(log.TakeUnstaged().size(), 2u);
  EXPECT_TRUE(log.TakeUnstaged().empty());
  log.RecordWrite(1);
  EXPECT_EQ(log.persisted(), Index(0));
  log.Persisted(1);
  EXPECT_EQ(log.persisted(), Index(2));
}

TEST(LogTest, AnOldWriteDoesNotStandForWhatReplacedIt) {
  Log log = Make({1});
  log.MaybeAppend(Id(1, 1), Entries(2, {1, 1}));
  log.TakeUnstaged();
  log.RecordWrite(1);
  log.MaybeAppend(Id(1, 2), Entries(3, {2, 2}));  // replaces entry 3 while the write runs
  log.TakeUnstaged();
  log.RecordWrite(2);
  log.Persisted(1);
  EXPECT_EQ(log.persisted(), Index(2));
  log.Persisted(2);
  EXPECT_EQ(log.persisted(), Index(4));
}

TEST(LogTest, ApplyWaitsForCommitAndForTheOwnDisk) {
  Log log = Make({});
  log.Append(Entries(1, {1, 1, 1}));
  log.TakeUnstaged();
  log.RecordWrite(1);
  log.CommitTo(Index(2));
  EXPECT_TRUE(log.TakeCommitted().empty());
  log.Persisted(1);
  EXPECT_EQ(log.TakeCommitted().size(), 2u);
  EXPECT_TRUE(log.TakeCommitted().empty());
}

TEST(LogTest, ApplyNeedNotWaitForTheDiskWhereThatIsAllowed) {
  Options options = Limits();
  options.apply_before_persisted = true;
  Log log = Make({}, 0, 0, options);
  log.Append(Entries(1, {1}));
  log.CommitTo(Index(1));
  EXPECT_EQ(log.TakeCommitted().size(), 1u);
}

TEST(LogTest, WhatApplyHoldsIsBounded) {
  Options options = Limits();
  options.apply_bytes_max = 2 * (Entry::kOverheadBytes + 1);
  Log log = Make({1, 1, 1, 1, 1}, 5, 0, options);
  EXPECT_EQ(log.TakeCommitted().size(), 2u);
  EXPECT_FALSE(log.has_committed());
  log.AppliedTo(Index(2));
  EXPECT_EQ(log.TakeCommitted().size(), 2u);
}

TEST(LogTest, MemoryHoldsOnlyTheTailAndWhatDiskLacks) {
  Options options = Limits();
  options.tail_bytes_max = 2 * (Entry::kOverheadBytes + 1);
  Log log = Make({1, 1, 1, 1, 1}, 5, 5, options);
  EXPECT_EQ(log.memory_begin(), Index(4));
  log.Append(Entries(6, {2, 2, 2}));
  log.TakeCommitted();
  EXPECT_EQ(log.memory_begin(), Index(6));  // the new ones stay until disk and quorum have them
  EXPECT_EQ(log.TermAt(Index(1)), Term(1));
  log.CheckInvariants();
}

TEST(LogTest, ApplyAsksForWhatMemoryNoLongerHolds) {
  Options options = Limits();
  options.tail_bytes_max = 0;
  Log log = Make({1, 1, 1}, 3, 0, options);
  EXPECT_TRUE(log.TakeCommitted().empty());
  const std::optional<LogRequest> request = log.NeededForApply(MemberId(1));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->first, Index(1));
  EXPECT_EQ(request->end, Index(4));
  log.HandLoaded(Entries(1, {1, 1}));
  EXPECT_EQ(log.handed(), Index(2));
  EXPECT_EQ(log.NeededForApply(MemberId(1))->first, Index(3));
}

TEST(LogTest, ASnapshotReplacesEverything) {
  Log log = Make({1, 1}, 1);
  log.Restore({.index = Index(9), .term = Term(3)});
  EXPECT_EQ(log.last_id(), Id(3, 9));
  EXPECT_EQ(log.TermAt(Index(9)), Term(3));
  EXPECT_EQ(log.TermAt(Index(2)), std::nullopt);
  EXPECT_TRUE(log.MaybeAppend(Id(3, 9), Entries(10, {3})));
  log.CheckInvariants();
}

TEST(LogTest, CompactionKeepsTheTermJustBelow) {
  Log log = Make({1, 2, 2, 3}, 4, 4);
  log.Compact(Index(2));
  EXPECT_EQ(log.compacted(), Id(2, 2));
  EXPECT_EQ(log.TermAt(Index(1)), std::nullopt);
  EXPECT_EQ(log.TermAt(Index(2)), Term(2));
  EXPECT_EQ(log.TermAt(Index(3)), Term(2));
  log.CheckInvariants();
  log.Compact(Index(4));
  EXPECT_EQ(log.last_id(), Id(3, 4));
  log.CheckInvariants();
}

TEST(LogTest, KnowsOfUnappliedConfChanges) {
  Log log = Make({1});
  std::vector<Entry> change = Entries(2, {1});
  change[0].type = EntryType::kConfChange;
  log.Append(std::move(change));
  EXPECT_FALSE(log.HasUnappliedConfChange());  // not committed
  log.TakeUnstaged();
  log.RecordWrite(1);
  log.Persisted(1);
  log.CommitTo(Index(2));
  EXPECT_TRUE(log.HasUnappliedConfChange());
  log.TakeCommitted();
  log.AppliedTo(Index(2));
  EXPECT_FALSE(log.HasUnappliedConfChange());
}

TEST(LogTest, CountsUncommittedPayload) {
  Log log = Make({1, 1}, 1);
  EXPECT_EQ(log.uncommitted_bytes(), 1u);
  log.Append(Entries(3, {1, 1}, 10));
  EXPECT_EQ(log.uncommitted_bytes(), 21u);
  log.CommitTo(Index(3));
  EXPECT_EQ(log.uncommitted_bytes(), 10u);
}

TEST(LogTest, TermLookupsAgreeWithAPlainList) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SeededJitter random(seed);
    Log log = Make({});
    std::vector<uint64_t> terms{0};
    uint64_t compacted = 0;
    for (int step = 0; step < 12; ++step) {
      const uint64_t term = terms.back() + random.Below(3);
      if (random.Below(4) != 0 && term > 0) {
        // Right after the end, or replacing some of it.
        const uint64_t keep = compacted + random.Below(terms.size() - compacted);
        std::vector<Entry> entries = Entries(keep + 1, {term, term, term + 1});
        ASSERT_TRUE(log.MaybeAppend(Id(terms[keep], keep), std::move(entries)));
        if (log.last_index() == Index(keep + 3)) {
          terms.resize(keep + 1);
          terms.insert(terms.end(), {term, term, term + 1});
        }
        log.TakeUnstaged();
        log.RecordWrite(static_cast<uint64_t>(step));
        log.Persisted(static_cast<uint64_t>(step));
      } else {
        compacted += random.Below(terms.size() - compacted);
        log.CommitTo(Index(compacted));
        log.TakeCommitted();
        log.AppliedTo(Index(compacted));
        log.Compact(Index(compacted));
      }
      log.CheckInvariants();
      for (uint64_t i = compacted; i < terms.size(); ++i) {
        ASSERT_EQ(log.TermAt(Index(i)), Term(terms[i])) << "seed " << seed;
      }
      ASSERT_EQ(log.last_index(), Index(terms.size() - 1)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace mainstay::raft
