// Goal: creating, refusing and cancelling watches answers as grpc-api.md 3.2 - 3.5 says.
// Method: one hub, requests by hand, the decoded answers.
#include "tests/unit/watch/harness.h"

namespace mainstay::watch {
namespace {

using testing::ElementsAre;

class HubCreateTest : public HubFixture {
 protected:
  HubCreateTest() { Start(); }
};

constexpr char kCompacted[] = "etcdserver: mvcc: required revision has been compacted";

TEST_F(HubCreateTest, CreatedAnswerHasIdAndFullHeader) {
  TestStream& s = Open();
  Put("x");
  Create(s, {.key = "k"});
  Run();
  const WatchResponse r = Next(s);
  EXPECT_TRUE(r.created());
  EXPECT_FALSE(r.canceled());
  EXPECT_EQ(r.watch_id(), 0);
  EXPECT_EQ(r.header().cluster_id(), 0xc1U);
  EXPECT_EQ(r.header().member_id(), 0x8e9e05c52164694dU);
  EXPECT_EQ(r.header().raft_term(), 7U);
  EXPECT_EQ(r.header().revision(), 2);
  EXPECT_TRUE(Quiet(s));
}

TEST_F(HubCreateTest, IdsCountFromZeroPerStreamAndAreNotReused) {
  TestStream& a = Open();
  TestStream& b = Open();
  for (int i = 0; i < 3; ++i) {
    Create(a, {.key = "k"});
  }
  Create(b, {.key = "k"});
  Cancel(a, 2);
  Create(a, {.key = "k"});
  Run();
  EXPECT_EQ(Next(a).watch_id(), 0);
  EXPECT_EQ(Next(a).watch_id(), 1);
  EXPECT_EQ(Next(a).watch_id(), 2);
  EXPECT_TRUE(Next(a).canceled());
  EXPECT_EQ(Next(a).watch_id(), 3);
  EXPECT_EQ(Next(b).watch_id(), 0);
}

TEST_F(HubCreateTest, ClientIdsAreSkippedRefusedTwiceAndFreeAfterCancel) {
  TestStream& s = Open();
  Create(s, {.key = "k", .watch_id = 1});
  Create(s, {.key = "k"});
  Create(s, {.key = "k"});
  Create(s, {.key = "k", .watch_id = 2});
  Cancel(s, 1);
  Create(s, {.key = "k", .watch_id = 1});
  Create(s, {.key = "k", .watch_id = -7});
  Run();
  EXPECT_EQ(Next(s).watch_id(), 1);
  EXPECT_EQ(Next(s).watch_id(), 0);
  EXPECT_EQ(Next(s).watch_id(), 2) << "1 is taken by the client";
  const WatchResponse refused = Next(s);
  EXPECT_EQ(refused.watch_id(), -1);
  EXPECT_TRUE(refused.created() && refused.canceled());
  EXPECT_EQ(refused.cancel_reason(), "mvcc: duplicate watch ID provided on the WatchStream");
  EXPECT_EQ(refused.compact_revision(), 0);
  EXPECT_EQ(refused.header().revision(), 1);
  EXPECT_TRUE(Next(s).canceled());
  EXPECT_EQ(Next(s).watch_id(), 1);
  EXPECT_EQ(Next(s).watch_id(), -7);
}

TEST_F(HubCreateTest, RefusalsAreAnsweredInOrderAndLeaveTheStreamUsable) {
  TestStream& s = Open();
  Create(s, {.key = "b", .range_end = "a"});
  Create(s, {.key = "b", .range_end = "b"});
  Create(s, {.key = "k",
             .refused = "rpc error: code = PermissionDenied desc = etcdserver: permission denied"});
  Create(s, {.key = "k"});
  Run();
  for (const char* reason :
       {"mvcc: watcher range is empty", "mvcc: watcher range is empty",
        "rpc error: code = PermissionDenied desc = etcdserver: permission denied"}) {
    const WatchResponse r = Next(s);
    EXPECT_TRUE(r.created() && r.canceled());
    EXPECT_EQ(r.watch_id(), -1);
    EXPECT_EQ(r.cancel_reason(), reason);
  }
  EXPECT_EQ(Next(s).watch_id(), 0) << "refused creates take no id";
  Put("k");
  Run();
  EXPECT_THAT(Events(Next(s)), ElementsAre("PUT k@2"));
}

// C06: a negative start revision is refused and harms nobody else (etcd-io/etcd#20693).
TEST_F(HubCreateTest, C06NegativeStartIsRefusedAndOthersLoseNothing) {
  for (int i = 0; i < 1000; ++i) {
    Put("k" + std::to_string(i % 10));
  }
  TestStream& s = Open();
  Create(s, {.key = "", .range_end = ToEnd(), .start_revision = 2});
  Create(s, {.key = "k", .start_revision = -1});
  Create(s, {.key = "k", .start_revision = -2});
  Run();
  EXPECT_EQ(Next(s).watch_id(), 0);
  int refused = 0;
  int64_t last = 1;
  while (!Quiet(s)) {
    const WatchResponse r = Next(s);
    if (r.created()) {
      EXPECT_TRUE(r.canceled());
      EXPECT_EQ(r.watch_id(), -1);
      EXPECT_EQ(r.cancel_reason(), kCompacted);
      ++refused;
    }
    for (const auto& e : r.events()) {
      EXPECT_EQ(e.kv().mod_revision(), ++last);
    }
  }
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(last, 1001);
}

TEST_F(HubCreateTest, CancelAnswersOnceAndUnknownIdsNever) {
  TestStream& s = Open();
  CreateOk(s, {.key = "k"});
  Cancel(s, 5);
  Cancel(s, 0);
  Cancel(s, 0);
  Run();
  const WatchResponse r = Next(s);
  EXPECT_TRUE(r.canceled());
  EXPECT_FALSE(r.created());
  EXPECT_EQ(r.watch_id(), 0);
  EXPECT_EQ(r.cancel_reason(), "");
  EXPECT_EQ(r.compact_revision(), 0);
  EXPECT_EQ(r.header().revision(), 1);
  Put("k");
  Run();
  EXPECT_TRUE(Quiet(s));
}

// C11: below the compacted revision: created, then cancelled, no event, the stream lives on.
TEST_F(HubCreateTest, C11BelowCompactedIsCreatedThenCancelled) {
  for (int i = 0; i < 100; ++i) {
    Put("k");
  }
  store_.Compact(50);
  TestStream& s = Open();
  Create(s, {.key = "k", .start_revision = 10});
  Run();
  EXPECT_TRUE(Next(s).created());
  const WatchResponse r = Next(s);
  EXPECT_TRUE(r.canceled());
  EXPECT_FALSE(r.created());
  EXPECT_EQ(r.watch_id(), 0);
  EXPECT_EQ(r.compact_revision(), 50);
  EXPECT_EQ(r.cancel_reason(), "");
  EXPECT_EQ(r.header().revision(), 0);
  EXPECT_EQ(r.header().cluster_id(), 0xc1U);
  EXPECT_TRUE(Quiet(s));
  Create(s, {.key = "k", .watch_id = 1});
  Create(s, {.key = "k", .start_revision = 101});
  Put("k");
  Run();
  EXPECT_EQ(Next(s).watch_id(), 1);
  EXPECT_EQ(Next(s).watch_id(), 2) << "the dead id 0 is not given again";
  Cancel(s, 0);
  Run();
  bool cancelled = false;
  while (!Quiet(s)) {
    const WatchResponse later = Next(s);
    cancelled |= later.canceled() && later.watch_id() == 0;
  }
  EXPECT_TRUE(cancelled) << "the client may still cancel it";
}

// C57: whatever the order of creates on a compacted revision, cancels and closes: never negative.
TEST_F(HubCreateTest, C57GaugesNeverGoNegative) {
  for (int i = 0; i < 100; ++i) {
    Put("k");
  }
  store_.Compact(50);
  const std::vector<std::string> names = {
      "etcd_debugging_mvcc_watcher_total", "etcd_debugging_mvcc_watch_stream_total",
      "etcd_debugging_mvcc_slow_watcher_total", "etcd_debugging_mvcc_pending_events_total"};
  for (int round = 0; round < 400; ++round) {
    TestStream& s = Open();
    s.slow = round % 3 == 0;
    for (int i = 0; i < 10; ++i) {
      Create(s, {.key = "k", .start_revision = i % 2 == 0 ? 10 : 60});
      if (round % 2 == 0) {
        Cancel(s, i);
      }
    }
    if (round % 4 != 0) {
      Run();
    }
    for (const std::string& name : names) {
      EXPECT_GE(Metric(name), 0) << name;
    }
    hub_->CloseStream(s.id);
    Cancel(s, 3);
    s.slow = true;
    Run();
    for (const std::string& name : names) {
      EXPECT_EQ(Metric(name), 0) << name;
    }
    streams_.clear();
  }
  EXPECT_GT(Metric("etcd_debugging_mvcc_events_total"), 0);
}

TEST_F(HubCreateTest, RequestsOfASlowStreamWaitAndAreBounded) {
  Start({.stream_bytes_max = 2000, .stream_requests_max = 10});
  TestStream& s = Open();
  s.slow = true;
  CreateOk(s, {.key = "k"});
  Put("k", std::string(3000, 'x'));
  Run();
  EXPECT_EQ(Next(s).events_size(), 1);
  for (int i = 0; i < 10; ++i) {
    Create(s, {.key = "k"});
  }
  Run();
  EXPECT_TRUE(Quiet(s)) << "no credit";
  Drain(s);
  Run();
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(Next(s).watch_id(), i) << "answered in order once there is credit";
  }
  Put("k", std::string(3000, 'x'));
  for (int i = 0; i < 11; ++i) {
    Run();
    Create(s, {.key = "k"});
  }
  Run();
  EXPECT_EQ(s.sink->failed, Error::kTooManyRequests);
}

TEST_F(HubCreateTest, AFullInboxRefuses) {
  Start({.inbox_max = 3});
  TestStream& s = Open();
  EXPECT_TRUE(hub_->Create(s.id, {.key = "k"}));
  EXPECT_TRUE(hub_->Create(s.id, {.key = "k"}));
  EXPECT_FALSE(hub_->Create(s.id, {.key = "k"}));
  EXPECT_FALSE(hub_->OpenStream(std::make_shared<TestSink>()).has_value());
  hub_->CloseStream(s.id);  // never refused
  Run();
  EXPECT_EQ(Metric("etcd_debugging_mvcc_watch_stream_total"), 0);
}

}  // namespace
}  // namespace mainstay::watch
