// Goal: progress messages are true bookmarks and come when grpc-api.md 3.7 says.
// Method: a fake clock; manual requests before, during and after catching up.
#include "tests/unit/watch/harness.h"

namespace mainstay::watch {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

class HubProgressTest : public HubFixture {
 protected:
  HubProgressTest() { Start(); }
};

TEST_F(HubProgressTest, ManualIsAnsweredForTheWholeStream) {
  Put("x");
  TestStream& s = Open();
  CreateOk(s, {.key = "k"});
  CreateOk(s, {.key = "l"});
  Progress(s);
  Run();
  const WatchResponse r = Next(s);
  EXPECT_TRUE(IsProgress(r));
  EXPECT_EQ(r.watch_id(), -1);
  EXPECT_EQ(r.header().revision(), 2);
  EXPECT_TRUE(Quiet(s)) << "one for all watchers";
}

TEST_F(HubProgressTest, ManualWithoutWatchersIsNotAnswered) {
  TestStream& s = Open();
  Progress(s);
  Run();
  CreateOk(s, {.key = "k"});
  EXPECT_TRUE(Quiet(s));
}

// C01: a bookmark follows every event that it covers (etcd-io/etcd#15220).
TEST_F(HubProgressTest, C01ManualNeverOvertakesEvents) {
  Start({.log_bytes_max = 20'000});
  for (int i = 0; i < 5000; ++i) {
    Put("k" + std::to_string(i));
  }
  TestStream& s = Open();
  s.slow = true;
  Create(s, {.key = "", .range_end = ToEnd(), .start_revision = 1});
  Progress(s);
  int64_t last = 1;
  int answers = 0;
  for (int i = 0; i < 2000; ++i) {
    Put("w");
    if (i % 40 == 0) {
      Progress(s);
    }
    hub_->shard_task(0).RunOnce();
    if (i % 3 == 0) {
      Drain(s);
    }
    while (!Quiet(s)) {
      const WatchResponse r = Next(s);
      for (const auto& e : r.events()) {
        ASSERT_EQ(e.kv().mod_revision(), ++last);
      }
      if (IsProgress(r)) {
        ++answers;
        ASSERT_EQ(r.watch_id(), -1);
        ASSERT_EQ(r.header().revision(), last);
      }
      ASSERT_NE(r.header().revision(), 0);
    }
  }
  EXPECT_GT(answers, 0);
  EXPECT_EQ(last, store_.revision());
}

// C02: an answer comes without any event of the watch (etcd-io/etcd#17507).
TEST_F(HubProgressTest, C02AnswerWithoutAnyMatchingEvent) {
  Start({.log_bytes_max = 0});
  for (int i = 0; i < 3000; ++i) {
    Put("other");
  }
  for (const int64_t start : {store_.revision(), int64_t{2}, int64_t{0}}) {
    TestStream& s = Open();
    Create(s, {.key = "quiet", .start_revision = start});
    Progress(s);
    Put("other");
    Run();
    EXPECT_TRUE(Next(s).created());
    const WatchResponse r = Next(s);
    EXPECT_TRUE(IsProgress(r));
    EXPECT_GE(r.header().revision(), store_.revision() - 1);
  }
}

TEST_F(HubProgressTest, ManualWaitsUntilAllAreSyncedThenAnswersOnce) {
  FakePool pool;
  Start({.log_bytes_max = 0}, &pool);
  Put("k");
  Put("k");
  TestStream& s = Open();
  CreateOk(s, {.key = "k"});
  CreateOk(s, {.key = "k", .start_revision = 2});
  Progress(s);
  Progress(s);
  Run();
  EXPECT_TRUE(Quiet(s));
  while (pool.RunOne()) {
    Run();
  }
  EXPECT_EQ(Next(s).events_size(), 2);
  EXPECT_TRUE(IsProgress(Next(s)));
  EXPECT_TRUE(Quiet(s));
}

TEST_F(HubProgressTest, AFutureStartBlocksBothKinds) {
  Start({.progress_interval = minutes(1)});
  TestStream& s = Open();
  CreateOk(s, {.key = "k", .start_revision = 4, .progress_notify = true});
  CreateOk(s, {.key = "k", .progress_notify = true});
  Progress(s);
  Run();
  EXPECT_TRUE(Quiet(s));
  Advance(minutes(2));
  Run();
  EXPECT_EQ(Next(s).watch_id(), 1) << "periodic looks at each watcher";
  EXPECT_TRUE(Quiet(s));
  Put("x");
  Put("x");
  Run();
  EXPECT_TRUE(Quiet(s));
  Put("x");
  Run();
  const WatchResponse r = Next(s);
  EXPECT_EQ(r.watch_id(), -1);
  EXPECT_EQ(r.header().revision(), 4);
  Advance(minutes(2));
  Run();
  EXPECT_EQ(Next(s).watch_id() + Next(s).watch_id(), 1);
}

TEST_F(HubProgressTest, CancellingTheFutureWatcherUnblocks) {
  TestStream& s = Open();
  CreateOk(s, {.key = "k"});
  CreateOk(s, {.key = "k", .start_revision = 100});
  Progress(s);
  Run();
  EXPECT_TRUE(Quiet(s));
  Cancel(s, 1);
  Run();
  EXPECT_TRUE(Next(s).canceled());
  EXPECT_TRUE(IsProgress(Next(s)));
}

// A prev_kv watch whose predecessors come from the disk is hardly ever synced while others write;
// kube-apiserver's consistent reads wait for its bookmarks all the same.
TEST_F(HubProgressTest, SteadyWritesDoNotStarveManualProgress) {
  FakePool pool;
  live_prev_ = false;
  Start({}, &pool);
  TestStream& s = Open();
  CreateOk(s, {.key = "k", .prev_kv = true});
  Put("k");
  int64_t last = 1;
  int answers = 0;
  for (int i = 0; i < 100; ++i) {
    const int64_t asked_at = store_.revision();
    Put("k");
    Progress(s);
    Run();
    Put("k");
    Run();
    pool.RunOne();
    Run();
    while (!Quiet(s)) {
      const WatchResponse r = Next(s);
      for (const auto& e : r.events()) {
        EXPECT_EQ(e.kv().mod_revision(), ++last);
      }
      if (IsProgress(r)) {
        ++answers;
        EXPECT_EQ(r.header().revision(), last);
        EXPECT_GE(r.header().revision(), asked_at - 3);
      }
    }
  }
  EXPECT_GT(answers, 30);
}

// etcd mutes the stream there; a cancelled watch concerns nobody any more.
TEST_F(HubProgressTest, AWatchCancelledByCompactionDoesNotMuteTheStream) {
  for (int i = 0; i < 10; ++i) {
    Put("k");
  }
  store_.Compact(8);
  TestStream& s = Open();
  CreateOk(s, {.key = "k", .start_revision = 3});
  EXPECT_TRUE(Next(s).canceled());
  CreateOk(s, {.key = "k"});
  Progress(s);
  Run();
  EXPECT_TRUE(IsProgress(Next(s)));
}

TEST_F(HubProgressTest, PeriodicComesPerWatcherWithJitterWhenIdle) {
  Start({.progress_interval = minutes(10)});
  TestStream& s = Open();
  CreateOk(s, {.key = "k", .progress_notify = true});
  CreateOk(s, {.key = "k"});
  Put("x");
  Advance(minutes(10) - milliseconds(1));
  Run();
  EXPECT_TRUE(Quiet(s));
  Advance(minutes(1) + milliseconds(1));  // a tenth more at most
  Run();
  const WatchResponse r = Next(s);
  EXPECT_TRUE(IsProgress(r));
  EXPECT_EQ(r.watch_id(), 0);
  EXPECT_EQ(r.header().revision(), 2);
  EXPECT_TRUE(Quiet(s));
}

TEST_F(HubProgressTest, PeriodicIsSkippedAfterEventsSinceTheLastTick) {
  Start({.progress_interval = minutes(10)});
  TestStream& s = Open();
  CreateOk(s, {.key = "k", .progress_notify = true});
  Put("k");
  Run();
  EXPECT_EQ(Next(s).events_size(), 1);
  Advance(minutes(11));
  Run();
  EXPECT_TRUE(Quiet(s));
  Advance(minutes(11));
  Run();
  EXPECT_TRUE(IsProgress(Next(s)));
}

TEST_F(HubProgressTest, JitterSpreadsStreams) {
  Start({.progress_interval = minutes(10)});
  for (int i = 0; i < 100; ++i) {
    CreateOk(Open(), {.key = "k", .progress_notify = true});
  }
  int steps_with_some = 0;
  size_t total = 0;
  Advance(minutes(10));
  for (int i = 0; i <= 60; ++i) {
    Run();
    size_t now = 0;
    for (const auto& s : streams_) {
      now += s->sink->responses.size();
    }
    steps_with_some += now > total ? 1 : 0;
    total = now;
    Advance(std::chrono::seconds(1));
  }
  EXPECT_EQ(total, 100U);
  EXPECT_GT(steps_with_some, 20);
}

TEST_F(HubProgressTest, ZeroIntervalIsTenMinutes) {
  Start({.progress_interval = milliseconds(0)});
  TestStream& s = Open();
  CreateOk(s, {.key = "k", .progress_notify = true});
  Advance(minutes(10) - milliseconds(1));
  Run();
  EXPECT_TRUE(Quiet(s));
  Advance(minutes(1) + milliseconds(1));
  Run();
  EXPECT_TRUE(IsProgress(Next(s)));
}

TEST_F(HubProgressTest, IntervalHasAFloor) {
  Start({.progress_interval = milliseconds(1)});
  TestStream& s = Open();
  CreateOk(s, {.key = "k", .progress_notify = true});
  Advance(milliseconds(99));
  Run();
  EXPECT_TRUE(Quiet(s));
  EXPECT_GE(hub_->shard_task(0).NextWake(), clock_.now + milliseconds(1));
  Advance(milliseconds(12));
  Run();
  EXPECT_TRUE(IsProgress(Next(s)));
}

}  // namespace
}  // namespace mainstay::watch
