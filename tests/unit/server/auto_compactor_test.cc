// Goal: automatic compaction happens when and to where etcd's rules say (operations 8.6), on
// leaders only. Method: a model clock steps from tick to tick; the revision is the minute, so the
// target tells its own age.
#include "server/auto_compactor.h"

#include <gtest/gtest.h>

#include <vector>

namespace mainstay::server {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

struct Compaction {
  int64_t minute;
  int64_t revision;
  bool operator==(const Compaction&) const = default;
};

int64_t MinuteOf(MonoTime t) {
  return std::chrono::duration_cast<minutes>(t).count();
}

// Runs until `end`; revision = minute + 1000; leader from minute `leads_from` on.
std::vector<Compaction> RunClock(const Options& options, MonoTime end, int64_t leads_from = 0) {
  std::vector<Compaction> out;
  AutoCompactor compactor(options, MonoTime{0});
  for (MonoTime now{0}; now <= end; now = compactor.next_tick()) {
    const int64_t revision = 1000 + MinuteOf(now);
    if (auto target = compactor.Tick(now, revision, MinuteOf(now) >= leads_from)) {
      out.push_back({MinuteOf(now), *target});
      compactor.Done(*target, true, now);
    }
    if (compactor.next_tick() == kNever) {
      break;
    }
  }
  return out;
}

Options Periodic(std::chrono::nanoseconds retention) {
  Options o;
  o.auto_compaction_mode = AutoCompactionMode::kPeriodic;
  o.auto_compaction_retention = retention;
  return o;
}

TEST(AutoCompactorTest, LongPeriodWaitsItOutThenGoesHourly) {
  const auto got = RunClock(Periodic(hours(10)), hours(13));
  ASSERT_GE(got.size(), 4u);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].minute, 600 + 60 * static_cast<int64_t>(i));
    EXPECT_NEAR(static_cast<double>(got[i].minute - (got[i].revision - 1000)), 600, 6)
        << "the target is about ten hours old";
  }
}

TEST(AutoCompactorTest, ShortPeriodCompactsEveryPeriod) {
  const auto got = RunClock(Periodic(minutes(10)), minutes(45));
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(got[0], (Compaction{10, 1000}));
  EXPECT_EQ(got[1].minute, 20);
  EXPECT_EQ(got[3].minute, 40);
}

TEST(AutoCompactorTest, NewLeaderHasAFullWindow) {
  const auto got = RunClock(Periodic(minutes(10)), minutes(33), 32);
  ASSERT_FALSE(got.empty());
  EXPECT_EQ(got[0].minute, 32);
  EXPECT_GE(got[0].revision, 1020);
}

TEST(AutoCompactorTest, FailureIsRetriedAtTheNextTick) {
  AutoCompactor compactor(Periodic(minutes(10)), MonoTime{0});
  MonoTime now{0};
  std::optional<int64_t> target;
  while (!(target = compactor.Tick(now, 1000 + MinuteOf(now), true))) {
    now = compactor.next_tick();
  }
  EXPECT_EQ(MinuteOf(now), 10);
  EXPECT_EQ(compactor.Tick(compactor.next_tick(), 2000, true), std::nullopt) << "one at a time";
  compactor.Done(*target, false, now);
  EXPECT_TRUE(compactor.Tick(compactor.next_tick(), 2000, true).has_value());
}

TEST(AutoCompactorTest, UnchangedRevisionIsNotCompactedAgain) {
  AutoCompactor compactor(Periodic(minutes(10)), MonoTime{0});
  int count = 0;
  for (MonoTime now{0}; now < hours(5); now = compactor.next_tick()) {
    if (auto target = compactor.Tick(now, 7, true)) {
      ++count;
      compactor.Done(*target, true, now);
    }
  }
  EXPECT_EQ(count, 1);
}

TEST(AutoCompactorTest, RevisionModeKeepsThatMany) {
  Options o;
  o.auto_compaction_mode = AutoCompactionMode::kRevision;
  o.auto_compaction_revisions = 1003;
  const auto got = RunClock(o, minutes(20));
  // Minute 5: 1005 - 1003 = 2; minute 10: 7; ...
  const std::vector<Compaction> want = {{5, 2}, {10, 7}, {15, 12}, {20, 17}};
  EXPECT_EQ(got, want);
}

TEST(AutoCompactorTest, ZeroRetentionIsOff) {
  EXPECT_TRUE(RunClock(Periodic(minutes(0)), hours(5)).empty());
  AutoCompactor off(Options{}, MonoTime{0});
  EXPECT_EQ(off.next_tick(), kNever);
}

}  // namespace
}  // namespace mainstay::server
