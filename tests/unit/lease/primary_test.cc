// Goal: deadlines, renewals and checkpoints of a leader, by monotonic time alone.
// Method: a fake clock moved by hand.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "env/random.h"
#include "lease/deadlines.h"
#include "lease/lessor.h"
#include "tests/unit/lease/lessor_fixture.h"

namespace mainstay::lease {
namespace {

using Outcome = RenewResult::Outcome;
using testing::ElementsAre;

class PrimaryTest : public LessorFixture {
 protected:
  void Lead() { lessor_->Promote(Term(5), Time::zero(), now_); }
};

TEST(DeadlinesTest, FiresAtTheFirstBorderAtOrAfter) {
  Deadlines wheel;
  wheel.Add({LeaseId(1), 0}, milliseconds(250));
  wheel.Add({LeaseId(2), 0}, milliseconds(200));
  wheel.Add({LeaseId(3), 0}, milliseconds(50));
  EXPECT_FALSE(wheel.PopDue(milliseconds(99)).has_value());
  EXPECT_EQ(wheel.PopDue(milliseconds(250))->id, LeaseId(3));
  EXPECT_EQ(wheel.PopDue(milliseconds(250))->id, LeaseId(2));
  EXPECT_FALSE(wheel.PopDue(milliseconds(299)).has_value());
  EXPECT_EQ(wheel.PopDue(milliseconds(300))->id, LeaseId(1));
  EXPECT_TRUE(wheel.empty());
}

TEST_F(PrimaryTest, FollowersExpireNothingAndRefuseRenewals) {
  MustGrant(1, 10);
  now_ += seconds(100'000);
  EXPECT_THAT(Expired(), ElementsAre());
  EXPECT_EQ(lessor_->Renew(LeaseId(1), now_).outcome, Outcome::kNotPrimary);
  EXPECT_EQ(lessor_->primary_term(), std::nullopt);
}

TEST_F(PrimaryTest, ExpiresAfterItsTtlAndNotBefore) {
  Lead();
  MustGrant(1, 10);
  now_ += milliseconds(9999);
  EXPECT_THAT(Expired(), ElementsAre());
  EXPECT_EQ(Remaining(1), 0) << "whole seconds, truncated";
  now_ += milliseconds(101);
  EXPECT_THAT(Expired(), ElementsAre(LeaseId(1)));
  EXPECT_THAT(Expired(), ElementsAre()) << "its revocation is on the way";
  now_ += milliseconds(6999);
  EXPECT_THAT(Expired(), ElementsAre()) << "less than a slot before the retry";
  now_ += milliseconds(100);
  EXPECT_THAT(Expired(), ElementsAre(LeaseId(1))) << "retried";
  MustRevoke(1);
  now_ += seconds(70);
  EXPECT_THAT(Expired(), ElementsAre());
}

// C29: an hour forward or back on the wall is no time at all; only the monotonic clock is asked.
TEST_F(PrimaryTest, C29OnlyMonotonicTimeCounts) {
  Lead();
  MustGrant(1, 60);
  for (int s = 0; s <= 60; ++s) {
    const int64_t left = Remaining(1);
    EXPECT_EQ(left, 60 - s);
    EXPECT_THAT(Expired(), testing::SizeIs(s == 60 ? 1 : 0));
    now_ += seconds(1);
  }
  EXPECT_EQ(Remaining(1), 0) << "never negative";
}

TEST_F(PrimaryTest, RenewGivesTheGrantedTtlAndMovesTheEnd) {
  Lead();
  MustGrant(1, 10);
  for (int i = 0; i < 100; ++i) {
    now_ += seconds(9);
    const RenewResult result = lessor_->Renew(LeaseId(1), now_);
    EXPECT_EQ(result.outcome, Outcome::kRenewed);
    EXPECT_EQ(result.granted_ttl_seconds, 10);
    EXPECT_THAT(Expired(), ElementsAre());
  }
  now_ += milliseconds(10'000);
  EXPECT_THAT(Expired(), ElementsAre(LeaseId(1)));
  EXPECT_EQ(lessor_->Renew(LeaseId(2), now_).outcome, Outcome::kNotFound);
}

TEST_F(PrimaryTest, RenewOfAnExpiredLeaseWaitsForItsRevocation) {
  Lead();
  MustGrant(1, 10);
  now_ += seconds(10);
  EXPECT_EQ(lessor_->Renew(LeaseId(1), now_).outcome, Outcome::kExpiredWaiting);
  int called = 0;
  ASSERT_TRUE(lessor_->WaitSettled(LeaseId(1), [&] {
    ++called;
    EXPECT_FALSE(lessor_->Exists(LeaseId(1))) << "no lock is held meanwhile";
  }));
  EXPECT_EQ(called, 0);
  MustRevoke(1);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(lessor_->Renew(LeaseId(1), now_).outcome, Outcome::kNotFound);
  ASSERT_TRUE(lessor_->WaitSettled(LeaseId(1), [&] { called += 10; })) << "settled already";
  EXPECT_EQ(called, 11);
}

TEST_F(PrimaryTest, DemotionTellsThoseWhoWait) {
  Lead();
  MustGrant(1, 10);
  int called = 0;
  ASSERT_TRUE(lessor_->WaitSettled(LeaseId(1), [&] { ++called; }));
  lessor_->Demote();
  EXPECT_EQ(called, 1);
  EXPECT_EQ(lessor_->Renew(LeaseId(1), now_).outcome, Outcome::kNotPrimary);
  now_ += seconds(1000);
  EXPECT_THAT(Expired(), ElementsAre());
}

TEST_F(PrimaryTest, WaitersAreBounded) {
  Restart({.renew_waiters_max = 2});
  Lead();
  MustGrant(1, 10);
  EXPECT_TRUE(lessor_->WaitSettled(LeaseId(1), [] {}));
  EXPECT_TRUE(lessor_->WaitSettled(LeaseId(1), [] {}));
  EXPECT_FALSE(lessor_->WaitSettled(LeaseId(1), [] { FAIL(); }));
}

TEST_F(PrimaryTest, PromotionGivesTheFullTtlPlusTheExtension) {
  MustGrant(1, 10);
  now_ += seconds(500);
  lessor_->Promote(Term(6), seconds(1), now_);
  EXPECT_EQ(lessor_->primary_term(), Term(6));
  now_ += milliseconds(10'999);
  EXPECT_THAT(Expired(), ElementsAre());
  now_ += milliseconds(101);
  EXPECT_THAT(Expired(), ElementsAre(LeaseId(1)));
}

TEST_F(PrimaryTest, PromotionTakesTheCheckpointedRemainder) {
  MustGrant(1, 1000);
  ApplyCheckpoint(1, 30);
  Restart();
  lessor_->Promote(Term(1), seconds(1), now_);
  now_ += milliseconds(31'000);
  EXPECT_THAT(Expired(), ElementsAre(LeaseId(1)));
}

TEST_F(PrimaryTest, ReusedIdDoesNotInheritTheOldEnd) {
  Lead();
  MustGrant(1, 10);
  MustRevoke(1);
  MustGrant(1, 100);
  now_ += seconds(50);
  EXPECT_THAT(Expired(), ElementsAre());
  now_ += seconds(51);
  EXPECT_THAT(Expired(), ElementsAre(LeaseId(1)));
}

TEST_F(PrimaryTest, RoundsAreBoundedAndEarliestComeFirst) {
  Lead();
  for (int i = 1; i <= 1200; ++i) {
    MustGrant(i, i <= 600 ? 10 : 5);
  }
  now_ += seconds(20);
  const std::vector<LeaseId> first = Expired();
  EXPECT_EQ(first.size(), 500U);
  EXPECT_TRUE(std::all_of(first.begin(), first.end(), [](LeaseId id) { return id.value() > 600; }));
  EXPECT_EQ(Expired().size(), 500U);
  EXPECT_EQ(Expired().size(), 200U);
  EXPECT_EQ(Expired().size(), 0U);
}

TEST_F(PrimaryTest, PileUpIsSpreadBelowTheRevokeRate) {
  for (int i = 1; i <= 3000; ++i) {
    MustGrant(i, 10);
  }
  lessor_->Promote(Term(2), seconds(1), now_);
  std::map<int64_t, size_t> per_second;
  for (int half = 0; half < 60; ++half) {
    now_ += milliseconds(500);
    for (const LeaseId id : Expired()) {
      ++per_second[half / 2];
      MustRevoke(id.value());
    }
  }
  size_t all = 0;
  for (const auto& [second, count] : per_second) {
    EXPECT_LE(count, 760U) << "second " << second;
    all += count;
  }
  EXPECT_EQ(all, 3000U);
}

TEST_F(PrimaryTest, LeasesComeByTimeLeft) {
  Lead();
  MustGrant(1, 30);
  MustGrant(2, 10);
  MustGrant(3, 20);
  EXPECT_THAT(lessor_->Leases(), ElementsAre(LeaseId(2), LeaseId(3), LeaseId(1)));
  now_ += seconds(5);
  lessor_->Renew(LeaseId(2), now_);
  lessor_->Renew(LeaseId(1), now_);
  EXPECT_THAT(lessor_->Leases(), ElementsAre(LeaseId(2), LeaseId(3), LeaseId(1)));
  lessor_->Demote();
  EXPECT_THAT(lessor_->Leases(), ElementsAre(LeaseId(1), LeaseId(2), LeaseId(3)));
}

TEST_F(PrimaryTest, CheckpointsOnlyBehindTheGate) {
  Lead();
  MustGrant(1, 10'000);
  now_ += seconds(1000);
  EXPECT_TRUE(lessor_->DueCheckpoints(now_, 1000).empty());
  EXPECT_FALSE(lessor_->NeedsCheckpointClear(LeaseId(1)));
}

TEST_F(PrimaryTest, CheckpointsEveryIntervalForLongLeases) {
  Restart({.checkpoints = true});
  Lead();
  MustGrant(1, 1000);
  MustGrant(2, 200);
  EXPECT_TRUE(lessor_->DueCheckpoints(now_, 1000).empty());
  now_ += seconds(300);
  const auto due = lessor_->DueCheckpoints(now_, 1000);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].id, LeaseId(1));
  EXPECT_EQ(due[0].remaining_ttl_seconds, 700);
  EXPECT_TRUE(lessor_->DueCheckpoints(now_, 1000).empty());
  ApplyCheckpoint(1, 700);
  EXPECT_TRUE(lessor_->NeedsCheckpointClear(LeaseId(1)));
  now_ += seconds(300);
  EXPECT_EQ(lessor_->DueCheckpoints(now_, 1000).size(), 1U);
  // A renewal puts the next one off; the clear that goes before it is applied like any checkpoint.
  ApplyCheckpoint(1, 0);
  EXPECT_FALSE(lessor_->NeedsCheckpointClear(LeaseId(1)));
  lessor_->Renew(LeaseId(1), now_);
  now_ += seconds(299);
  EXPECT_TRUE(lessor_->DueCheckpoints(now_, 1000).empty());
  now_ += milliseconds(1100);
  EXPECT_EQ(lessor_->DueCheckpoints(now_, 1000).size(), 1U);
}

// A twin that keeps each deadline in a map and looks at all of them.
TEST_F(PrimaryTest, RandomLifeEqualsANaiveTwin) {
  const uint64_t seed = SystemRandom().Next64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  SeededRandom random(seed);
  Lead();
  std::map<int64_t, std::pair<int64_t, Time>> twin;  // id -> TTL, deadline
  for (int step = 0; step < 20'000; ++step) {
    now_ += milliseconds(random.Below(300));
    const auto id = static_cast<int64_t>(random.Below(100)) - 50;
    if (id == 0) {
      continue;
    }
    const bool known = twin.contains(id);
    if (random.Below(3) == 0) {
      const auto ttl = static_cast<int64_t>(2 + random.Below(20));
      ASSERT_EQ(Grant(id, ttl).ok(), !known);
      if (!known) {
        twin[id] = {ttl, now_ + seconds(ttl)};
      }
    } else if (known) {
      const bool expired = twin[id].second <= now_;
      const RenewResult result = lessor_->Renew(LeaseId(id), now_);
      ASSERT_EQ(result.outcome, expired ? Outcome::kExpiredWaiting : Outcome::kRenewed);
      if (!expired) {
        twin[id].second = now_ + seconds(twin[id].first);
      }
    }
    for (const LeaseId due : lessor_->ExpiredLeases(now_, 1000)) {
      ASSERT_TRUE(twin.contains(due.value()));
      ASSERT_LE(twin[due.value()].second, now_) << "never early";
      MustRevoke(due.value());
      twin.erase(due.value());
    }
    for (const auto& [other, state] : twin) {
      ASSERT_GT(state.second, now_ - Deadlines::kSlot) << "late by less than a slot";
    }
  }
}

}  // namespace
}  // namespace mainstay::lease
