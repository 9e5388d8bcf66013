// Goal: the driver moves proposals and reads through the core in order, answers each once, and
// keeps its promises about time, without a thread, a disk or a store. Method: its two neighbours
// are played by hand: "wal" acknowledges or does not, "apply" counts what arrives.
#include "server/raft_driver.h"

#include <gtest/gtest.h>

#include <map>

#include "raft/codec.h"
#include "server/entry_codec.h"
#include "tests/support/manual_executor.h"
#include "tests/unit/server/memory_log.h"

namespace mainstay::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr MemberId kSelf{7};

class Answers : public ReplySink {
 public:
  void Deliver(uint64_t a, uint64_t, Reply&& reply) override {
    EXPECT_FALSE(by_call.contains(a)) << "answered twice: " << a;
    by_call[a] = reply.error;
  }
  void Flush() override { ++flushes; }
  std::map<uint64_t, Error> by_call;
  int flushes = 0;
};

class RaftDriverTest : public ::testing::Test {
 protected:
  void Make(std::vector<MemberId> voters) {
    raft::Options core;
    core.id = kSelf;
    core.seed = 1;
    core.tail_bytes_max = tail_bytes_max_;
    core.apply_bytes_max = apply_bytes_max_;
    raft::InitialState initial;
    initial.conf_state.voters = std::move(voters);
    driver_ = std::make_unique<RaftDriver>(RaftDriver::Params{
        options_, clock_, metrics_, shared_, wal_, apply_, log_, pool_, nullptr, core, initial});
  }

  void Run() {
    while (driver_->RunOnce()) {
    }
  }
  // The disk acknowledges everything it was given.
  void Persist() {
    std::vector<WalItem> items;
    wal_.PopAll(&items);
    for (const WalItem& item : items) {
      EXPECT_TRUE(log_.Append(item.entries, item.hard_state).ok());
      EXPECT_TRUE(log_.Sync().ok());
      shared_.persisted_seq.store(item.seq);
    }
    Run();
  }
  // The store applies everything it was given.
  std::vector<ApplyItem> Apply() {
    std::vector<ApplyItem> items;
    apply_.PopAll(&items);
    for (const ApplyItem& item : items) {
      if (item.kind == ApplyItem::Kind::kEntry) {
        shared_.applied_index.store(item.entry.index.value());
      }
    }
    Run();
    return items;
  }
  void Lead() {
    Run();
    for (int i = 0; i < 5; ++i) {
      Persist();
      Apply();
    }
    ASSERT_TRUE(shared_.is_leader.load());
  }
  PendingProposal Request(uint64_t call) {
    PendingProposal p;
    p.waiter.id = 1000 + call;
    p.waiter.kind = 4;
    p.waiter.started = clock_.Now();
    p.waiter.deadline = clock_.Now() + options_.request_timeout();
    p.waiter.reply_to = {&answers_, call, 0};
    EntryHeader header;
    header.id = p.waiter.id;
    p.data = EncodeEntry(header, 4, "x");
    return p;
  }
  void Propose(uint64_t call) {
    PendingProposal p = Request(call);
    ASSERT_EQ(driver_->Propose({&p, 1}), 1u);
  }
  void Read(uint64_t call) {
    shared_.reads_pending.fetch_add(1);
    ASSERT_TRUE(driver_->Read(
        {{&answers_, call, 0}, clock_.Now(), clock_.Now() + options_.request_timeout()}));
  }
  void Pass(std::chrono::nanoseconds span) {
    for (std::chrono::nanoseconds t{0}; t < span; t += options_.heartbeat) {
      clock_.Advance(options_.heartbeat);
      Run();
    }
  }

  Options options_;
  testing::FakeClock clock_;
  MetricRegistry metrics_;
  SharedState shared_;
  WalQueue wal_{1 << 20};
  ApplyQueue apply_{1 << 20};
  Answers answers_;
  std::unique_ptr<RaftDriver> driver_;
  LogDisk disk_;
  MemoryLog log_{disk_};
  testing::ManualPool pool_;
  size_t tail_bytes_max_ = 32 << 20;
  size_t apply_bytes_max_ = 64 << 20;
};

TEST_F(RaftDriverTest, SoleVoterLeadsWithoutWaitingForATimeout) {
  Make({kSelf});
  Lead();
  EXPECT_EQ(shared_.leader.load(), kSelf.value());
  EXPECT_EQ(shared_.commit_index.load(), 1u) << "the empty entry of its term";
}

TEST_F(RaftDriverTest, ProposalReachesApplyWithItsWaiterOnlyAfterTheSync) {
  Make({kSelf});
  Lead();
  Propose(1);
  Run();
  EXPECT_TRUE(Apply().empty()) << "not on disk yet, so not committed";
  Persist();
  const std::vector<ApplyItem> items = Apply();
  ASSERT_EQ(items.size(), 1u);
  ASSERT_TRUE(items[0].waiter.has_value());
  EXPECT_EQ(items[0].waiter->reply_to.a, 1u);
  EXPECT_EQ(PeekRequestId(items[0].entry.data.view()), 1001u);
  EXPECT_TRUE(answers_.by_call.empty()) << "answering is apply's";
}

TEST_F(RaftDriverTest, ProposalsKeepTheirOrder) {
  Make({kSelf});
  Lead();
  for (uint64_t call = 1; call <= 100; ++call) {
    Propose(call);
    if (call % 7 == 0) {
      Run();
    }
  }
  Run();
  Persist();
  const std::vector<ApplyItem> items = Apply();
  ASSERT_EQ(items.size(), 100u);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(items[i].waiter->reply_to.a, i + 1);
    EXPECT_EQ(items[i].entry.index.value(), 2 + i);
  }
}

TEST_F(RaftDriverTest, WithoutALeaderProposalsWaitAndThenSayDeadlineExceeded) {
  Make({kSelf, MemberId(8), MemberId(9)});
  Run();
  Propose(1);
  Pass(options_.request_timeout() - milliseconds(200));
  EXPECT_TRUE(answers_.by_call.empty());
  Pass(milliseconds(500));
  EXPECT_EQ(answers_.by_call[1], Error::kContextDeadlineExceeded);
}

TEST_F(RaftDriverTest, AcceptedButNeverDurableSaysTimeout) {
  Make({kSelf});
  Lead();
  Propose(1);
  Pass(options_.request_timeout() + milliseconds(200));
  EXPECT_EQ(answers_.by_call[1], Error::kTimeout);
  Persist();
  const std::vector<ApplyItem> items = Apply();
  ASSERT_EQ(items.size(), 1u) << "it may still be applied";
  EXPECT_FALSE(items[0].waiter.has_value()) << "but it is not answered again";
}

TEST_F(RaftDriverTest, ProposalJustBeforeALeadIsBlamedOnTheLostLeader) {
  Make({kSelf});
  options_.initial_election_tick_advance = false;
  PendingProposal early = Request(1);
  early.waiter.deadline = clock_.Now() + seconds(60);
  ASSERT_EQ(driver_->Propose({&early, 1}), 1u);
  // A sole voter that has to wait for its election timeout; then its disk hangs.
  Pass(milliseconds(1500));
  for (int i = 0; i < 30 && !shared_.is_leader.load(); ++i) {
    Pass(milliseconds(100));
    Persist();
  }
  ASSERT_TRUE(shared_.is_leader.load());
  Pass(seconds(61));
  EXPECT_EQ(answers_.by_call[1], Error::kTimeoutDueToLeaderFail);
}

TEST_F(RaftDriverTest, FencedProposalIsRefusedInAnotherTerm) {
  Make({kSelf});
  Lead();
  const Term term(shared_.term.load());
  PendingProposal stale = Request(1);
  stale.only_term = term.Next();
  PendingProposal fresh = Request(2);
  fresh.only_term = term;
  std::vector<PendingProposal> both;
  both.push_back(std::move(stale));
  both.push_back(std::move(fresh));
  ASSERT_EQ(driver_->Propose(both), 2u);
  Run();
  EXPECT_EQ(answers_.by_call[1], Error::kNotLeader);
  Persist();
  const std::vector<ApplyItem> items = Apply();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].waiter->reply_to.a, 2u);
}

TEST_F(RaftDriverTest, ReadsOfOneRoundReachApplyTogether) {
  Make({kSelf});
  Lead();
  Read(1);
  Read(2);
  Run();
  const std::vector<ApplyItem> items = Apply();
  ASSERT_EQ(items.size(), 1u);
  ASSERT_EQ(items[0].kind, ApplyItem::Kind::kReads);
  EXPECT_EQ(items[0].reads->index.value(), shared_.commit_index.load());
  EXPECT_EQ(items[0].reads->reads.size(), 2u);
}

TEST_F(RaftDriverTest, ReadsWithoutALeaderTimeOut) {
  Make({kSelf, MemberId(8), MemberId(9)});
  Run();
  Read(1);
  Pass(options_.request_timeout() + milliseconds(300));
  EXPECT_EQ(answers_.by_call[1], Error::kTimeout);
  EXPECT_EQ(shared_.reads_pending.load(), 0u);
}

TEST_F(RaftDriverTest, InlineReadsBeginWithTheFirstEntryOfTheTerm) {
  Make({kSelf});
  Run();
  EXPECT_EQ(shared_.inline_reads_from.load(), 0u);
  Lead();
  EXPECT_EQ(shared_.inline_reads_from.load(), 1u);
}

TEST_F(RaftDriverTest, ConfChangeIsAnsweredAndEndsInlineReads) {
  Make({kSelf});
  Lead();
  raft::ConfChange add;
  add.id = 5;
  add.type = raft::ConfChangeType::kAddNode;
  add.node_id = MemberId(8);
  PendingProposal p;
  p.type = raft::EntryType::kConfChange;
  p.data = raft::EncodeConfChange(add);
  p.waiter.id = 5;
  p.waiter.reply_to = {&answers_, 9, 0};
  ASSERT_EQ(driver_->Propose({&p, 1}), 1u);
  Run();
  Persist();
  std::vector<ApplyItem> items;
  apply_.PopAll(&items);
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].waiter->reply_to.a, 9u);
  driver_->Configure({raft::ToV2(add), items[0].entry.index});
  Run();
  std::optional<StatusOr<raft::ConfState>> answer = driver_->TakeConfAnswer();
  ASSERT_TRUE(answer.has_value());
  ASSERT_TRUE(answer->ok());
  EXPECT_EQ((*answer)->voters, (std::vector<MemberId>{kSelf, MemberId(8)}));
  EXPECT_EQ(shared_.inline_reads_from.load(), 0u);
}

TEST_F(RaftDriverTest, PauseOfTheProcessIsNotMadeUpForInTicks) {
  Make({kSelf, MemberId(8), MemberId(9)});
  Run();
  clock_.Advance(seconds(100));
  Run();
  std::vector<WalItem> items;
  wal_.PopAll(&items);
  EXPECT_TRUE(items.empty()) << "one late tick is no reason to campaign";
  EXPECT_EQ(driver_->NextWake(), clock_.Now() + options_.heartbeat);
}

TEST_F(RaftDriverTest, StoppingAnswersEverythingThatWaits) {
  Make({kSelf, MemberId(8), MemberId(9)});
  Run();
  Propose(1);
  Run();
  Propose(2);
  Read(3);
  driver_->FailAll(Error::kStopped);
  EXPECT_EQ(answers_.by_call.size(), 3u);
  for (const auto& [call, error] : answers_.by_call) {
    EXPECT_EQ(error, Error::kStopped) << call;
  }
  EXPECT_GE(answers_.flushes, 1);
}

TEST_F(RaftDriverTest, EntriesThatMemoryLetGoAreReadBackForApply) {
  tail_bytes_max_ = 500;
  apply_bytes_max_ = 500;
  Make({kSelf});
  Lead();
  for (uint64_t call = 1; call <= 200; ++call) {
    Propose(call);
  }
  Run();
  Persist();
  uint64_t next = 2;
  for (int round = 0; round < 1000 && next < 202; ++round) {
    for (const ApplyItem& item : Apply()) {
      EXPECT_EQ(item.entry.index.value(), next++);
      ASSERT_TRUE(item.waiter.has_value());
      EXPECT_EQ(PeekRequestId(item.entry.data.view()), item.waiter->id);
    }
    pool_.Run();
    Run();
  }
  EXPECT_EQ(next, 202u);
}

TEST_F(RaftDriverTest, FullInboxTakesAsManyAsFit) {
  Make({kSelf});
  std::vector<PendingProposal> many(kProposalsPendingMax + 10);
  EXPECT_EQ(driver_->Propose(many), kProposalsPendingMax);
}

}  // namespace
}  // namespace mainstay::server
