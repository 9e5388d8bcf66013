// Goal: events arrive ordered, unique, gap-free and whole, live and from history, quick or slow.
// Method: hand-made histories; the decoded answers.
#include "tests/unit/watch/harness.h"

namespace mainstay::watch {
namespace {

using testing::ElementsAre;

class HubDeliveryTest : public HubFixture {
 protected:
  HubDeliveryTest() { Start(); }
};

TEST_F(HubDeliveryTest, LiveEventsGoToMatchingWatchersOnly) {
  TestStream& s = Open();
  Create(s, {.key = "a"});
  Create(s, {.key = "b", .range_end = "d"});
  Create(s, {.key = "c", .range_end = ToEnd()});
  Run();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Next(s).created());
  }
  Put("a");
  Run();
  WatchResponse r = Next(s);
  EXPECT_EQ(r.watch_id(), 0);
  EXPECT_THAT(Events(r), ElementsAre("PUT a@2"));
  EXPECT_EQ(r.header().revision(), 2);
  Put("d");
  Run();
  EXPECT_EQ(Next(s).watch_id(), 2);
  Put("c");
  Run();
  EXPECT_EQ(Next(s).watch_id() + Next(s).watch_id(), 3);
  EXPECT_TRUE(Quiet(s));
}

TEST_F(HubDeliveryTest, ARevisionIsOneMessageInOpOrder) {
  TestStream& s = Open();
  CreateOk(s, {.key = "", .range_end = ToEnd()});
  Write({{"c", "1"}, {"a", "1"}, {"b", "1"}});
  Run();
  EXPECT_THAT(Events(Next(s)), ElementsAre("PUT c@2", "PUT a@2", "PUT b@2"));
  Write({{"a", std::nullopt}, {"b", std::nullopt}});
  Run();
  const WatchResponse r = Next(s);
  EXPECT_THAT(Events(r), ElementsAre("DEL a@3", "DEL b@3"));
  EXPECT_EQ(r.events(0).kv().create_revision(), 0);
  EXPECT_TRUE(Quiet(s));
}

TEST_F(HubDeliveryTest, StartZeroMeansFromNowAndFutureStartsWait) {
  Put("k");
  TestStream& s = Open();
  Create(s, {.key = "k"});
  Create(s, {.key = "k", .start_revision = 5});
  Run();
  EXPECT_EQ(Next(s).header().revision(), 2);
  EXPECT_TRUE(Next(s).created());
  EXPECT_TRUE(Quiet(s));
  for (int i = 0; i < 4; ++i) {
    Put("k");
    Run();
  }
  EXPECT_THAT(Events(Next(s)), ElementsAre("PUT k@3"));
  EXPECT_THAT(Events(Next(s)), ElementsAre("PUT k@4"));
  std::vector<int64_t> ids = {Next(s).watch_id(), Next(s).watch_id()};
  EXPECT_THAT(ids, testing::UnorderedElementsAre(0, 1)) << "revision 5";
}

TEST_F(HubDeliveryTest, FiltersLeaveNothingOrTheRest) {
  TestStream& s = Open();
  Create(s, {.key = "k", .no_put = true});
  Create(s, {.key = "k", .no_delete = true});
  Create(s, {.key = "k", .no_put = true, .no_delete = true});
  Run();
  for (int i = 0; i < 3; ++i) {
    Next(s);
  }
  Put("k");
  Run();
  EXPECT_EQ(Next(s).watch_id(), 1);
  Delete("k");
  Run();
  EXPECT_EQ(Next(s).watch_id(), 0);
  EXPECT_TRUE(Quiet(s));
}

TEST_F(HubDeliveryTest, PrevKvIsThereForAllButCreations) {
  TestStream& s = Open();
  CreateOk(s, {.key = "k", .prev_kv = true});
  Put("k", "one");
  Put("k", "two");
  Delete("k");
  Run();
  const WatchResponse r = Next(s);
  ASSERT_EQ(r.events_size(), 3);
  EXPECT_FALSE(r.events(0).has_prev_kv());
  EXPECT_EQ(r.events(1).prev_kv().value(), "one");
  EXPECT_EQ(r.events(2).prev_kv().value(), "two");
  EXPECT_EQ(r.events(2).prev_kv().version(), 2);
}

TEST_F(HubDeliveryTest, PrevKvComesFromHistoryWhenTheLogHasNone) {
  live_prev_ = false;
  TestStream& s = Open();
  CreateOk(s, {.key = "k", .prev_kv = true});
  Write({{"j", "0"}, {"k", "one"}});
  Write({{"k", "two"}});
  Run();
  Put("k", "three");
  Run();
  std::vector<std::string> prevs;
  while (!Quiet(s)) {
    for (const WatchResponse r = Next(s); const auto& e : r.events()) {
      prevs.push_back(e.has_prev_kv() ? e.prev_kv().value() : "-");
    }
  }
  EXPECT_THAT(prevs, ElementsAre("-", "one", "two"));
  EXPECT_GT(store_.reads, 0);
}

TEST_F(HubDeliveryTest, BigValuesAreReferencedNotCopied) {
  TestStream& s = Open();
  CreateOk(s, {.key = "k", .prev_kv = true});
  Put("k", std::string(100'000, 'x'));
  Put("k", std::string(100'000, 'y'));
  Run();
  const WatchResponse r = Next(s);
  EXPECT_EQ(r.events(1).kv().value(), std::string(100'000, 'y'));
  EXPECT_EQ(r.events(1).prev_kv().value(), std::string(100'000, 'x'));
}

TEST_F(HubDeliveryTest, HistoryComesInBoundedMessagesThenLive) {
  Start({.log_bytes_max = 0});
  for (int i = 0; i < 2500; ++i) {
    Put(i % 2 == 0 ? "k" : "other");
  }
  TestStream& s = Open();
  Create(s, {.key = "k", .start_revision = 2});
  Run();
  Put("k");
  Run();
  EXPECT_TRUE(Next(s).created());
  int64_t expected = 2;
  int messages = 0;
  while (!Quiet(s)) {
    const WatchResponse r = Next(s);
    ++messages;
    EXPECT_LE(r.events_size(), 500) << "1000 revisions";
    for (const auto& e : r.events()) {
      EXPECT_EQ(e.kv().mod_revision(), expected);
      expected += 2;
    }
    if (messages <= 3) {
      EXPECT_EQ(r.header().revision(), 2501) << "the store's revision when it was read";
    }
  }
  EXPECT_EQ(expected, 2504);
  EXPECT_EQ(messages, 4);
}

// C04: the revision that a compaction names can still be watched, its delete included
// (etcd-io/etcd#18089).
TEST_F(HubDeliveryTest, C04CompactionExactlyAtTheStartRevision) {
  for (const bool from_log : {true, false}) {
    store_ = FakeStore();
    Start({.log_bytes_max = from_log ? 1U << 20 : 0});
    TestStream& s = Open();
    Put("k");
    Put("k");
    Put("k");
    Delete("k");  // 5
    Put("k");     // 6
    store_.Compact(5);
    CreateOk(s, {.key = "k", .start_revision = 5});
    EXPECT_THAT(Events(Next(s)), ElementsAre("DEL k@5", "PUT k@6"));
    EXPECT_TRUE(Quiet(s));
    streams_.clear();
  }
}

// The log is for who falls behind while it watches; without any stream it would only hold memory.
TEST_F(HubDeliveryTest, WithoutStreamsTheLogKeepsNothingAndNothingIsLost) {
  Put("k");  // 2
  Put("k");  // 3
  TestStream& s = Open();
  Put("k");  // 4: kept
  CreateOk(s, {.key = "k", .start_revision = 4});
  EXPECT_THAT(Events(Next(s)), ElementsAre("PUT k@4"));
  EXPECT_EQ(store_.reads, 0);
  CreateOk(s, {.key = "k", .start_revision = 2});
  EXPECT_THAT(Events(Next(s)), ElementsAre("PUT k@2", "PUT k@3", "PUT k@4"));
  EXPECT_GT(store_.reads, 0);
  EXPECT_TRUE(Quiet(s));
}

// A stream that opens while a revision is published may come too late for the log to keep it: its
// watcher is behind, also while the store does not show that revision yet.
TEST_F(HubDeliveryTest, ARevisionThatTheLogDidNotKeepComesFromHistory) {
  TestStream& s = Open();
  CreateOk(s, {.key = "k"});
  store_.set_visible(1);
  store_.Write({{"k", "v"}});
  hub_->Reset(2);  // as Publish() does that saw no stream
  Run();
  EXPECT_TRUE(Quiet(s));
  store_.set_visible(INT64_MAX);
  Advance(std::chrono::seconds(1));
  Run();
  EXPECT_THAT(Events(Next(s)), ElementsAre("PUT k@2"));
  Put("k");
  Run();
  EXPECT_THAT(Events(Next(s)), ElementsAre("PUT k@3"));
  EXPECT_TRUE(Quiet(s));
}

// C10: what a client did not read yet is compacted: prev_kv is there, or the watch is cancelled
// (etcd-io/etcd#10681).
TEST_F(HubDeliveryTest, C10PredecessorIsKeptForUndeliveredEvents) {
  for (const bool log_keeps : {true, false}) {
    store_ = FakeStore();
    Start({.log_bytes_max = log_keeps ? 1U << 20 : 0, .stream_bytes_max = 1000});
    TestStream& s = Open();
    s.slow = true;
    CreateOk(s, {.key = "x", .prev_kv = true});
    Put("x", std::string(2000, 'f'));  // takes all credit
    Run();
    Put("x", "second");  // 3
    Delete("x");         // 4
    Run();
    Put("y");
    store_.Compact(4);
    Run();
    EXPECT_EQ(Next(s).events_size(), 1);
    EXPECT_TRUE(Quiet(s));
    Drain(s);
    Run();
    bool deleted = false;
    bool cancelled = false;
    while (!Quiet(s)) {
      const WatchResponse r = Next(s);
      cancelled |= r.canceled() && r.compact_revision() > 0;
      for (const auto& e : r.events()) {
        EXPECT_TRUE(e.has_prev_kv() || e.kv().version() == 1);
        deleted |= e.type() == mvccpb::Event::DELETE;
      }
    }
    EXPECT_NE(deleted, cancelled);
    EXPECT_EQ(deleted, log_keeps);
    streams_.clear();
  }
}

TEST_F(HubDeliveryTest, MissingPredecessorAtTheCompactedRevisionCancelsAPrevKvWatch) {
  Start({.log_bytes_max = 0});
  Put("k", "1");
  Put("k", "2");  // 3
  Put("k", "3");
  store_.Compact(3);
  TestStream& s = Open();
  CreateOk(s, {.key = "k", .start_revision = 3, .prev_kv = true});
  const WatchResponse r = Next(s);
  EXPECT_TRUE(r.canceled());
  EXPECT_EQ(r.compact_revision(), 4) << "from where a client can go on";
  CreateOk(s, {.key = "k", .start_revision = 4, .prev_kv = true});
  EXPECT_EQ(Next(s).events(0).prev_kv().value(), "2");
}

TEST_F(HubDeliveryTest, ASlowStreamHoldsBoundedBytesAndLosesNothing) {
  Start({.log_bytes_max = 10'000, .stream_bytes_max = 20'000});
  TestStream& slow = Open();
  TestStream& quick = Open();
  slow.slow = true;
  CreateOk(slow, {.key = "k"});
  CreateOk(quick, {.key = "k"});
  size_t most = 0;
  for (int i = 0; i < 1000; ++i) {
    Put("k", std::string(1000, 'x'));
    Run();
    most = std::max(most, slow.sink->unwritten);
  }
  EXPECT_EQ(quick.sink->responses.size(), 1000U) << "others do not wait";
  EXPECT_LT(most, 25'000U);
  EXPECT_EQ(Metric("etcd_debugging_mvcc_slow_watcher_total"), 1);
  EXPECT_GT(Metric("etcd_debugging_mvcc_pending_events_total"), 0);
  int64_t last = 1;
  while (last < 1001) {
    Drain(slow);
    Run();
    ASSERT_FALSE(Quiet(slow));
    while (!Quiet(slow)) {
      for (const WatchResponse r = Next(slow); const auto& e : r.events()) {
        ASSERT_EQ(e.kv().mod_revision(), ++last);
      }
    }
  }
  Drain(slow);
  Run();
  EXPECT_EQ(Metric("etcd_debugging_mvcc_slow_watcher_total"), 0);
  EXPECT_EQ(Metric("etcd_debugging_mvcc_pending_events_total"), 0);
}

TEST_F(HubDeliveryTest, ASlowStreamWhoseHistoryIsCompactedIsCancelled) {
  Start({.log_bytes_max = 0, .stream_bytes_max = 1000});
  TestStream& s = Open();
  s.slow = true;
  CreateOk(s, {.key = "k"});
  for (int i = 0; i < 50; ++i) {
    Put("k", std::string(500, 'x'));
    Run();
  }
  store_.Compact(45);
  Drain(s);
  Run();
  int64_t last = 1;
  WatchResponse r;
  while (!Quiet(s)) {
    r = Next(s);
    for (const auto& e : r.events()) {
      EXPECT_EQ(e.kv().mod_revision(), ++last);
    }
  }
  EXPECT_TRUE(r.canceled());
  EXPECT_EQ(r.compact_revision(), 45);
  EXPECT_LT(last, 45);
}

TEST_F(HubDeliveryTest, FragmentsStayBelowTheLimitAndAreContiguous) {
  TestStream& s = Open({.fragment_bytes = 10'000});
  Create(s, {.key = "", .range_end = ToEnd(), .fragment = true});
  Create(s, {.key = "", .range_end = ToEnd()});
  Run();
  Next(s);
  Next(s);
  s.sink->sizes.clear();
  std::vector<Op> ops;
  for (int i = 0; i < 30; ++i) {
    ops.push_back({"k" + std::to_string(100 + i), std::string(i == 7 ? 20'000 : 1000, 'x')});
  }
  Write(ops);
  Run();
  int events = 0;
  bool more = true;
  for (size_t i = 0; more; ++i) {
    const WatchResponse r = Next(s);
    EXPECT_EQ(r.watch_id(), 0);
    EXPECT_EQ(r.header().revision(), 2);
    EXPECT_TRUE(s.sink->sizes[i] < 10'000 || r.events_size() == 1);
    events += r.events_size();
    more = r.fragment();
  }
  EXPECT_EQ(events, 30);
  const WatchResponse whole = Next(s);
  EXPECT_EQ(whole.events_size(), 30);
  EXPECT_FALSE(whole.fragment());
}

TEST_F(HubDeliveryTest, OneBigEventIsNotMarkedAsFragment) {
  TestStream& s = Open({.fragment_bytes = 1000});
  CreateOk(s, {.key = "k", .fragment = true});
  Put("k", std::string(5000, 'x'));
  Run();
  EXPECT_FALSE(Next(s).fragment());
  EXPECT_TRUE(Quiet(s));
}

// C08: a snapshot from the leader replaces the store; watches go on from where they were.
TEST_F(HubDeliveryTest, C08ResetContinuesWithoutRepeatOrGap) {
  TestStream& s = Open();
  CreateOk(s, {.key = "k"});
  Create(s, {.key = "k", .start_revision = 5000});
  Put("k");
  Run();
  for (int i = 0; i < 2000; ++i) {
    store_.Write({{"k", "v"}});  // on the others only
  }
  hub_->Reset(store_.revision());
  Run();
  Put("k");
  Run();
  int64_t last = 1;
  while (!Quiet(s)) {
    const WatchResponse r = Next(s);
    for (const auto& e : r.events()) {
      EXPECT_EQ(e.kv().mod_revision(), ++last);
    }
  }
  EXPECT_EQ(last, 2003);
  store_.Compact(2003);
  for (int i = 0; i < 10; ++i) {
    store_.Write({{"k", "v"}});
  }
  store_.Compact(2010);
  hub_->Reset(store_.revision());
  Run();
  const WatchResponse r = Next(s);
  EXPECT_TRUE(r.canceled());
  EXPECT_EQ(r.compact_revision(), 2010);
  EXPECT_TRUE(Quiet(s));
}

TEST_F(HubDeliveryTest, HistoryIsReadOnThePoolAndOthersGoOnMeanwhile) {
  FakePool pool;
  Start({.log_bytes_max = 0}, &pool);
  for (int i = 0; i < 10; ++i) {
    Put("k");
  }
  TestStream& s = Open();
  TestStream& live = Open();
  CreateOk(live, {.key = "k"});
  pool.full = true;
  CreateOk(s, {.key = "k", .start_revision = 2});
  EXPECT_TRUE(Quiet(s));
  pool.full = false;
  EXPECT_LE(hub_->shard_task(0).NextWake(), clock_.now + std::chrono::milliseconds(10));
  Advance(std::chrono::milliseconds(10));
  Run();
  ASSERT_EQ(pool.pending.size(), 1U);
  Put("k");
  Run();
  EXPECT_THAT(Events(Next(live)), ElementsAre("PUT k@12"));
  EXPECT_TRUE(Quiet(s));
  while (pool.RunOne()) {
    Run();
  }
  int64_t last = 1;
  while (!Quiet(s)) {
    for (const WatchResponse r = Next(s); const auto& e : r.events()) {
      EXPECT_EQ(e.kv().mod_revision(), ++last);
    }
  }
  EXPECT_EQ(last, 12);
}

TEST_F(HubDeliveryTest, AReadThatOutlivesItsWatcherHarmsNobody) {
  FakePool pool;
  Start({.log_bytes_max = 0}, &pool);
  Put("k");
  Put("k");
  TestStream& s = Open();
  CreateOk(s, {.key = "k", .start_revision = 2});
  hub_->CloseStream(s.id);
  s.slow = true;
  Run();
  EXPECT_TRUE(pool.RunOne());
  Run();
  EXPECT_TRUE(Quiet(s));
  TestStream& t = Open();
  CreateOk(t, {.key = "k", .start_revision = 2});
  hub_ = nullptr;
  EXPECT_TRUE(pool.RunOne()) << "and the hub may be gone too";
}

TEST_F(HubDeliveryTest, AStoreThatIsBehindIsAskedAgain) {
  Start({.log_bytes_max = 0});
  Put("k");
  Put("k");
  store_.set_visible(1);
  TestStream& s = Open();
  CreateOk(s, {.key = "k", .start_revision = 2});
  EXPECT_TRUE(Quiet(s));
  store_.set_visible(INT64_MAX);
  Advance(std::chrono::milliseconds(10));
  Run();
  EXPECT_THAT(Events(Next(s)), ElementsAre("PUT k@2", "PUT k@3"));
}

TEST_F(HubDeliveryTest, UnreadableHistoryEndsTheStream) {
  Start({.log_bytes_max = 0});
  Put("k");
  Put("k");
  store_.fail = Error::kCorrupt;
  TestStream& s = Open();
  TestStream& other = Open();
  CreateOk(other, {.key = "k"});
  Create(s, {.key = "k", .start_revision = 2});
  Run();
  EXPECT_EQ(s.sink->failed, Error::kCorrupt);
  Put("k");
  Run();
  EXPECT_EQ(Next(other).events_size(), 1);
}

TEST_F(HubDeliveryTest, OneFarBehindDoesNotHoldUpTheNearlySynced) {
  Start({.log_bytes_max = 0, .chunk_revisions_max = 10});
  for (int i = 0; i < 5000; ++i) {
    Put("k");
  }
  TestStream& far = Open();
  TestStream& near = Open();
  Create(far, {.key = "k", .start_revision = 2});
  Create(near, {.key = "k", .start_revision = 4990});
  for (int i = 0; i < 20; ++i) {
    hub_->shard_task(0).RunOnce();
  }
  int events = 0;
  for (const WatchResponse& r : near.sink->responses) {
    events += r.events_size();
  }
  EXPECT_EQ(events, 12) << "after a few steps, not after 500";
}

TEST_F(HubDeliveryTest, ManyUnsyncedWatchersShareChunks) {
  Start({.log_bytes_max = 0});
  for (int i = 0; i < 3000; ++i) {
    Put("k" + std::to_string(i % 3000));
  }
  TestStream& s = Open();
  for (int i = 0; i < 3000; ++i) {
    Create(s, {.key = "k" + std::to_string(i), .start_revision = 2});
  }
  Run();
  size_t events = 0;
  while (!Quiet(s)) {
    events += static_cast<size_t>(Next(s).events_size());
  }
  EXPECT_EQ(events, 3000U);
  EXPECT_LT(store_.reads, 10);
}

TEST_F(HubDeliveryTest, ThreadsOfTheExecutorDeliver) {
  auto executor = NewThreadExecutor(SystemClock());
  Start({.shards = 2});
  struct CountingSink : StreamSink {
    void Send(BufferChain body) override {
      bytes.fetch_add(body.size());
      messages.fetch_add(1);
      messages.notify_all();
    }
    void Fail(Error) override {}
    std::atomic<size_t> bytes{0};
    std::atomic<int> messages{0};
  };
  auto a = std::make_shared<CountingSink>();
  auto b = std::make_shared<CountingSink>();
  const StreamId first = *hub_->OpenStream(a);
  hub_->Start(*executor);
  const StreamId second = *hub_->OpenStream(b);
  ASSERT_TRUE(hub_->Create(first, {.key = "k"}));
  ASSERT_TRUE(hub_->Create(second, {.key = "k"}));
  a->messages.wait(0);
  b->messages.wait(0);
  Put("k");
  a->messages.wait(1);
  b->messages.wait(1);
  hub_->OnDrained(first, a->bytes);
  hub_->CloseStream(first);
  hub_->CloseStream(second);
  hub_ = nullptr;
  EXPECT_EQ(a->messages, 2);
}

}  // namespace
}  // namespace mainstay::watch
