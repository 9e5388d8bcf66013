// Goal: the replicated lease table and its rows follow etcd's rules and depend on no clock.
// Method: grants, revokes and attachments as they are applied; restarts from the rows.
#include "lease/lessor.h"

#include <gmock/gmock.h>

#include <cstdint>

#include "common/coding.h"
#include "env/random.h"
#include "tests/unit/lease/lessor_fixture.h"

namespace mainstay::lease {
namespace {

using testing::ElementsAre;

class LessorTest : public LessorFixture {};

std::string RowKey(int64_t id) {
  std::string out;
  AppendBE64(&out, static_cast<uint64_t>(id));
  return out;
}

TEST(MinTtlTest, OneAndAHalfElectionTimeoutsRoundedUp) {
  EXPECT_EQ(MinTtlSeconds(10, milliseconds(100)), 2);
  EXPECT_EQ(MinTtlSeconds(10, milliseconds(500)), 8);
  EXPECT_EQ(MinTtlSeconds(5, milliseconds(100)), 1) << "7 ticks: the halving is in integers";
  EXPECT_EQ(MinTtlSeconds(2, milliseconds(1000)), 3);
}

TEST_F(LessorTest, GrantRules) {
  EXPECT_EQ(*Grant(7, 60), 60);
  EXPECT_EQ(Grant(7, 60).error(), Error::kLeaseExist);
  EXPECT_EQ(Grant(7, kTtlMaxSeconds + 1).error(), Error::kLeaseTtlTooLarge)
      << "tested before exists";
  EXPECT_EQ(*Grant(8, kTtlMaxSeconds), kTtlMaxSeconds);
  EXPECT_EQ(*Grant(9, 1), 2);
  EXPECT_EQ(*Grant(10, 0), 2);
  EXPECT_EQ(*Grant(11, -5), 2);
  EXPECT_EQ(lessor_->EffectiveTtl(-5), 2);
}

TEST_F(LessorTest, RowIsEtcdsBytes) {
  MustGrant(300, 60);
  EXPECT_EQ(rows_.Get("lease", RowKey(300)), std::string("\x08\xAC\x02\x10\x3C", 5));
  ApplyCheckpoint(300, 17);
  EXPECT_EQ(rows_.Get("lease", RowKey(300)), std::string("\x08\xAC\x02\x10\x3C\x18\x11", 7));
  ApplyCheckpoint(300, 9, /*persist=*/false);
  EXPECT_EQ(rows_.Get("lease", RowKey(300)), std::string("\x08\xAC\x02\x10\x3C\x18\x11", 7));
  MustRevoke(300);
  EXPECT_EQ(rows_.Get("lease", RowKey(300)), std::nullopt);
}

// C25: negative ids are as good as others, through a restart too (etcd-io/etcd#12535).
TEST_F(LessorTest, C25NegativeIdsSurviveARestart) {
  ASSERT_TRUE(Grant(-1, 60).ok());
  ASSERT_TRUE(Grant(INT64_MIN, 60).ok());
  EXPECT_EQ(Grant(-1, 60).error(), Error::kLeaseExist);
  Attach("k", -1);
  Restart();
  lessor_->LoadAttachment("k", LeaseId(-1));
  EXPECT_TRUE(lessor_->Exists(LeaseId(-1)));
  EXPECT_TRUE(lessor_->Exists(LeaseId(INT64_MIN)));
  EXPECT_THAT(lessor_->Leases(), ElementsAre(LeaseId(INT64_MIN), LeaseId(-1)));
  EXPECT_THAT(lessor_->Keys(LeaseId(-1)), ElementsAre("k"));
  lessor_->Promote(Term(1), seconds(1), now_);
  now_ += seconds(62);
  EXPECT_THAT(Expired(), testing::UnorderedElementsAre(LeaseId(INT64_MIN), LeaseId(-1)));
  EXPECT_THAT(*Revoke(-1), ElementsAre("k"));
}

// C24: the keys that a revoke deletes are what decides on a revision.
TEST_F(LessorTest, C24RevokeGivesTheKeysThatAreLeftAscending) {
  MustGrant(1, 60);
  EXPECT_TRUE((*Revoke(1)).empty());
  EXPECT_EQ(Revoke(1).error(), Error::kLeaseNotFound);
  MustGrant(2, 60);
  Attach("b", 2);
  Attach("c", 2);
  Attach("a", 2);
  lessor_->Detach("b", LeaseId(2));
  EXPECT_THAT(*Revoke(2), ElementsAre("a", "c"));
  lessor_->Detach("a", LeaseId(2));  // the deletes of the revoke report it again
}

TEST_F(LessorTest, AKeyHangsOnItsNewestLeaseOnly) {
  MustGrant(1, 60);
  MustGrant(2, 60);
  lessor_->Reattach("k", LeaseId(0), LeaseId(1));
  lessor_->Reattach("k", LeaseId(1), LeaseId(2));
  EXPECT_THAT(lessor_->Keys(LeaseId(1)), ElementsAre());
  EXPECT_THAT(lessor_->Keys(LeaseId(2)), ElementsAre("k"));
  lessor_->Reattach("k", LeaseId(2), LeaseId(0));
  EXPECT_THAT(lessor_->Keys(LeaseId(2)), ElementsAre());
}

TEST_F(LessorTest, LoadRaisesShortTtlsAndIgnoresStrayAttachments) {
  MustGrant(5, 3);
  Restart({.min_ttl_seconds = 8});
  lessor_->LoadAttachment("k", LeaseId(99));
  bool primary = true;
  const auto got = lessor_->GetTimeToLive(LeaseId(5), true, now_, &primary);
  EXPECT_EQ(got->granted_ttl_seconds, 8);
  EXPECT_FALSE(primary);
  EXPECT_EQ(got->remaining_ttl_seconds, 0);
}

TEST_F(LessorTest, MalformedRowsAreDataLoss) {
  EXPECT_FALSE(lessor_->LoadRow(RowKey(1), "\x08").ok());
  EXPECT_FALSE(lessor_->LoadRow(RowKey(1), "\x08\x02\x10\x3C").ok())
      << "the key names another lease";
  EXPECT_FALSE(lessor_->LoadRow("short", "\x08\x01\x10\x3C").ok());
  EXPECT_FALSE(lessor_->LoadRow(RowKey(0), "\x10\x3C").ok());
}

TEST_F(LessorTest, TimeToLiveOfUnknownLease) {
  bool primary = true;
  EXPECT_FALSE(lessor_->GetTimeToLive(LeaseId(1), true, now_, &primary).has_value());
}

// Invariant I1: what is applied does not depend on who leads or when.
TEST_F(LessorTest, RowsDoNotDependOnTheClock) {
  const uint64_t seed = SystemRandom().Next64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  MetricRegistry registry;
  Lessor other({}, registry);
  test::Rows other_rows;
  other.Promote(Term(3), seconds(1), now_);
  SeededRandom random(seed);
  for (int i = 0; i < 3000; ++i) {
    now_ += milliseconds(random.Below(2000));
    const auto id = static_cast<int64_t>(1 + random.Below(50));
    const std::string key = "k" + std::to_string(random.Below(20));
    switch (random.Below(4)) {
      case 0: {
        const auto mine = Grant(id, static_cast<int64_t>(random.Below(100)));
        other_rows.Write([&](backend::WriteBatch& batch) {
          const auto theirs = other.Grant(LeaseId(id), mine.ok() ? *mine : 1, now_ * 2, batch);
          EXPECT_EQ(mine.error(), theirs.error());
        });
        break;
      }
      case 1: {
        const auto mine = Revoke(id);
        other_rows.Write([&](backend::WriteBatch& batch) {
          const auto theirs = other.Revoke(LeaseId(id), batch);
          ASSERT_EQ(mine.error(), theirs.error());
          if (mine.ok()) {
            EXPECT_EQ(*mine, *theirs);
          }
        });
        break;
      }
      case 2:
        Attach(key, id);
        other.Reattach(key, LeaseId(0), LeaseId(id));
        break;
      default:
        other.Renew(LeaseId(id), now_);
        other.ExpiredLeases(now_, 10);
    }
  }
  std::vector<std::string> mine, theirs;
  const auto list = [](std::vector<std::string>* out) {
    return [out](std::string_view key, std::string_view value) {
      out->push_back(Hex(key) + "=" + Hex(value));
    };
  };
  rows_.ForEach("lease", list(&mine));
  other_rows.ForEach("lease", list(&theirs));
  EXPECT_EQ(mine, theirs);
  EXPECT_FALSE(mine.empty());
}

}  // namespace
}  // namespace mainstay::lease
