// Goal: Watch and Lease over real gRPC, and the cases C01, C02, C04, C06, C11, C24, C25, C57.
// Method: an in-process member and gRPC C++ stubs.
#include <thread>

#include "tests/integration/rpc/client.h"

namespace mainstay::testing {
namespace {

using grpc::StatusCode;
constexpr const char* kCompactedText = "etcdserver: mvcc: required revision has been compacted";

class WatchTest : public RpcTest {};
class LeaseTest : public RpcTest {};

TEST_F(WatchTest, EventsComeInOrderAndFiltersAndCancelWork) {
  WatchStream stream(*watch_);
  stream.Create("a", 0, "c");
  const pb::WatchResponse created = stream.Next();
  EXPECT_TRUE(created.created());
  EXPECT_EQ(created.watch_id(), 0);
  EXPECT_EQ(created.header().revision(), 1);
  Put("a", "1");
  Put("b", "2");
  Delete("a");
  std::vector<std::string> events;
  while (events.size() < 3) {
    const pb::WatchResponse next = stream.Next();
    for (const auto& event : next.events()) {
      events.push_back((event.type() == mvccpb::Event::PUT ? "put " : "delete ") +
                       event.kv().key());
    }
  }
  EXPECT_EQ(events, (std::vector<std::string>{"put a", "put b", "delete a"}));
  stream.Cancel(77);  // unknown: no answer
  stream.Cancel(0);
  const pb::WatchResponse canceled = stream.Next();
  EXPECT_TRUE(canceled.canceled());
  EXPECT_EQ(canceled.watch_id(), 0);
  EXPECT_EQ(canceled.cancel_reason(), "");
}

TEST_F(WatchTest, AHalfClosedStreamStillGetsEvents) {
  WatchStream stream(*watch_);
  stream.Create("a", 0);
  EXPECT_TRUE(stream.Next().created());
  stream.HalfClose();
  Put("a", "1");
  EXPECT_EQ(stream.Next().events(0).kv().value(), "1");
}

TEST_F(WatchTest, RefusedCreatesLeaveTheStreamUsable) {
  WatchStream stream(*watch_);
  stream.Create("b", 0, "a");
  pb::WatchResponse refused = stream.Next();
  EXPECT_TRUE(refused.created() && refused.canceled());
  EXPECT_EQ(refused.watch_id(), -1);
  EXPECT_EQ(refused.cancel_reason(), "mvcc: watcher range is empty");
  stream.Create("a", 0, "", 5);
  EXPECT_EQ(stream.Next().watch_id(), 5);
  stream.Create("a", 0, "", 5);
  refused = stream.Next();
  EXPECT_TRUE(refused.created() && refused.canceled());
  EXPECT_EQ(refused.cancel_reason(), "mvcc: duplicate watch ID provided on the WatchStream");
  Put("a", "1");
  EXPECT_EQ(stream.Next().watch_id(), 5);
}

TEST_F(WatchTest, C01ProgressNeverOvertakesEvents) {
  for (int i = 0; i < 2000; ++i) {
    Put("k" + std::to_string(i % 50), "v");
  }
  WatchStream stream(*watch_);
  stream.Create("k", 1, "l");
  std::thread writer([this] {
    for (int i = 0; i < 200; ++i) {
      Put("k" + std::to_string(i % 50), "w");
    }
  });
  for (int i = 0; i < 51; ++i) {
    stream.Progress();
  }
  int64_t seen = 0;
  int64_t progress = 0;
  int created = 0;
  while (seen < 2201 || progress == 0) {
    const pb::WatchResponse response = stream.Next();
    created += response.created() ? 1 : 0;
    if (response.watch_id() == -1) {
      progress = response.header().revision();
      EXPECT_GT(progress, 0);
      EXPECT_GE(seen, std::min<int64_t>(progress, 2201)) << "progress overtook events";
    }
    for (const auto& event : response.events()) {
      EXPECT_EQ(event.kv().mod_revision(), std::max<int64_t>(seen, 1) + 1);
      seen = event.kv().mod_revision();
    }
    if (seen == 2201 && progress == 0) {
      stream.Progress();
    }
  }
  EXPECT_EQ(created, 1);
  writer.join();
}

TEST_F(WatchTest, C02ProgressOnAWatchWithoutEventsIsAnswered) {
  Put("other", "1");
  Put("other", "2");
  for (int64_t start : {int64_t{3}, int64_t{1}}) {
    WatchStream stream(*watch_);
    stream.Create("quiet", start);
    EXPECT_TRUE(stream.Next().created());
    // Dropped while the watch is not synced: ask until it is.
    for (int i = 0; i < 5; ++i) {
      stream.Progress();
      Put("other", "x");
    }
    const pb::WatchResponse progress = stream.Next();
    EXPECT_EQ(progress.watch_id(), -1);
    EXPECT_EQ(progress.events_size(), 0);
    EXPECT_GE(progress.header().revision(), 3);
  }
}

TEST_F(WatchTest, C04ADeleteAtTheCompactRevisionIsDelivered) {
  for (int i = 0; i < 3; ++i) {
    Put("k", std::to_string(i));
  }
  Delete("k");
  Put("k", "again");
  for (bool physical : {false, true}) {
    if (!physical) {
      ASSERT_EQ(Compact(5), kFine);
    } else {
      member_.Stop();
      member_.Start();
      Reconnect();
    }
    WatchStream stream(*watch_);
    stream.Create("k", 5);
    EXPECT_TRUE(stream.Next().created());
    std::vector<std::pair<int, int64_t>> events;
    while (events.size() < 2) {
      const pb::WatchResponse next = stream.Next();
      for (const auto& event : next.events()) {
        events.emplace_back(event.type(), event.kv().mod_revision());
      }
    }
    EXPECT_EQ(events[0], std::make_pair(static_cast<int>(mvccpb::Event::DELETE), int64_t{5}));
    EXPECT_EQ(events[1], std::make_pair(static_cast<int>(mvccpb::Event::PUT), int64_t{6}));
  }
}

TEST_F(WatchTest, C06ANegativeStartIsRefusedAndHarmsNobody) {
  for (int i = 0; i < 500; ++i) {
    Put("k", "v");
  }
  WatchStream stream(*watch_);
  stream.Create("k", 2);
  stream.Create("k", -1);
  stream.Create("k", -2);
  int refused = 0;
  int64_t seen = 1;
  while (seen < 501 || refused < 2) {
    const pb::WatchResponse response = stream.Next();
    if (response.canceled()) {
      ++refused;
      EXPECT_TRUE(response.created());
      EXPECT_EQ(response.watch_id(), -1);
      EXPECT_EQ(response.cancel_reason(), kCompactedText);
    }
    for (const auto& event : response.events()) {
      ASSERT_EQ(event.kv().mod_revision(), ++seen);
    }
  }
}

TEST_F(WatchTest, C11BelowTheCompactRevisionIsCreatedThenCancelled) {
  for (int i = 0; i < 100; ++i) {
    Put("k", "v");
  }
  ASSERT_EQ(Compact(50), kFine);
  WatchStream stream(*watch_);
  stream.Create("k", 10);
  EXPECT_TRUE(stream.Next().created());
  const pb::WatchResponse canceled = stream.Next();
  EXPECT_TRUE(canceled.canceled());
  EXPECT_EQ(canceled.compact_revision(), 50);
  EXPECT_EQ(canceled.header().revision(), 0);
  EXPECT_EQ(canceled.events_size(), 0);
  stream.Create("k", 101);
  EXPECT_TRUE(stream.Next().created());
  EXPECT_EQ(stream.Next().events(0).kv().mod_revision(), 101);
}

TEST_F(WatchTest, C57GaugesReturnToZero) {
  for (int i = 0; i < 10; ++i) {
    Put("k", "v");
  }
  ASSERT_EQ(Compact(8), kFine);
  for (int i = 0; i < 200; ++i) {
    WatchStream stream(*watch_);
    stream.Create("k", 2);
    EXPECT_TRUE(stream.Next().created());
    if (i % 2 == 0) {
      stream.Cancel(0);
    }
  }
  // The server learns of closed streams by and by.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  bool rest = false;
  while (!rest && std::chrono::steady_clock::now() < end) {
    const std::string text = member_.MetricsText();
    EXPECT_EQ(text.find("watcher_total -"), std::string::npos);
    rest = text.find("etcd_debugging_mvcc_watcher_total 0\n") != std::string::npos &&
           text.find("etcd_debugging_mvcc_watch_stream_total 0\n") != std::string::npos &&
           text.find("etcd_debugging_mvcc_slow_watcher_total 0\n") != std::string::npos &&
           text.find("etcd_debugging_mvcc_pending_events_total 0\n") != std::string::npos;
    std::this_thread::yield();
  }
  EXPECT_TRUE(rest) << member_.MetricsText();
}

TEST_F(LeaseTest, GrantAttachTimeToLiveRevoke) {
  pb::LeaseGrantResponse granted;
  ASSERT_EQ(Grant(0, 60, &granted), kFine);
  EXPECT_GT(granted.id(), 0);
  EXPECT_EQ(granted.ttl(), 60);
  Put("k", "v", granted.id());
  pb::LeaseTimeToLiveRequest ask;
  ask.set_id(granted.id());
  ask.set_keys(true);
  pb::LeaseTimeToLiveResponse ttl;
  ASSERT_EQ(Call(*lease_, &pb::Lease::Stub::LeaseTimeToLive, ask, &ttl), kFine);
  EXPECT_GT(ttl.ttl(), 50);
  EXPECT_EQ(ttl.grantedttl(), 60);
  ASSERT_EQ(ttl.keys_size(), 1);
  EXPECT_EQ(ttl.keys(0), "k");
  pb::LeaseLeasesResponse leases;
  ASSERT_EQ(Call(*lease_, &pb::Lease::Stub::LeaseLeases, pb::LeaseLeasesRequest(), &leases), kFine);
  ASSERT_EQ(leases.leases_size(), 1);
  EXPECT_EQ(leases.leases(0).id(), granted.id());
  EXPECT_EQ(Revoke(granted.id()), kFine);
  EXPECT_EQ(Get("k").count(), 0);
  EXPECT_EQ(Revoke(granted.id()),
            (Outcome{StatusCode::NOT_FOUND, "etcdserver: requested lease not found"}));
  ASSERT_EQ(Call(*lease_, &pb::Lease::Stub::LeaseTimeToLive, ask, &ttl), kFine);
  EXPECT_EQ(ttl.ttl(), -1);
  EXPECT_EQ(ttl.grantedttl(), 0);
}

TEST_F(LeaseTest, KeepAliveAnswersInOrderAndEndsWithTheClient) {
  pb::LeaseGrantResponse granted;
  ASSERT_EQ(Grant(7, 60, &granted), kFine);
  grpc::ClientContext context;
  SetDeadline(&context);
  auto stream = lease_->LeaseKeepAlive(&context);
  for (int i = 0; i < 20; ++i) {
    pb::LeaseKeepAliveRequest request;
    request.set_id(i % 2 == 0 ? 7 : 8);
    ASSERT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  for (int i = 0; i < 20; ++i) {
    pb::LeaseKeepAliveResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.id(), i % 2 == 0 ? 7 : 8);
    EXPECT_EQ(response.ttl(), i % 2 == 0 ? 60 : 0) << "a lost lease is an answer with TTL 0";
  }
  pb::LeaseKeepAliveResponse none;
  EXPECT_FALSE(stream->Read(&none));
  EXPECT_EQ(Of(stream->Finish()), kFine);
}

TEST_F(LeaseTest, C24RevokingALeaseWithoutKeysTakesNoRevision) {
  pb::LeaseGrantResponse granted;
  ASSERT_EQ(Grant(1, 60, &granted), kFine);
  ASSERT_EQ(Revoke(1), kFine);
  EXPECT_EQ(Get("a").header().revision(), 1);
  ASSERT_EQ(Grant(2, 60, &granted), kFine);
  for (const char* key : {"a", "b", "c"}) {
    Put(key, "", 2);
  }
  Delete("b");
  WatchStream stream(*watch_);
  stream.Create("a", 0, "d");
  EXPECT_TRUE(stream.Next().created());
  ASSERT_EQ(Revoke(2), kFine);
  EXPECT_EQ(Get("a").header().revision(), 6);
  const pb::WatchResponse response = stream.Next();
  ASSERT_EQ(response.events_size(), 2);
  EXPECT_EQ(response.events(0).kv().key(), "a");
  EXPECT_EQ(response.events(1).kv().key(), "c");
  EXPECT_EQ(response.events(0).kv().mod_revision(), 6);
  EXPECT_EQ(response.events(1).kv().mod_revision(), 6);
}

TEST_F(LeaseTest, C25AnyIdWorksAndSurvivesARestart) {
  pb::LeaseGrantResponse granted;
  for (int64_t id : {int64_t{-1}, INT64_MIN}) {
    ASSERT_EQ(Grant(id, 600, &granted), kFine);
    EXPECT_EQ(granted.id(), id);
    Put("k" + std::to_string(id), "", id);
  }
  EXPECT_EQ(Grant(-1, 600, &granted),
            (Outcome{StatusCode::FAILED_PRECONDITION, "etcdserver: lease already exists"}));
  EXPECT_EQ(Grant(9, 9000000001, &granted),
            (Outcome{StatusCode::OUT_OF_RANGE, "etcdserver: too large lease TTL"}));
  ASSERT_EQ(Grant(10, -5, &granted), kFine);
  EXPECT_GE(granted.ttl(), 1) << "raised to the minimum";
  member_.Stop();
  member_.Start();
  Reconnect();
  for (int64_t id : {int64_t{-1}, INT64_MIN}) {
    pb::LeaseTimeToLiveRequest ask;
    ask.set_id(id);
    ask.set_keys(true);
    pb::LeaseTimeToLiveResponse ttl;
    ASSERT_EQ(Call(*lease_, &pb::Lease::Stub::LeaseTimeToLive, ask, &ttl), kFine);
    EXPECT_EQ(ttl.grantedttl(), 600);
    EXPECT_EQ(ttl.keys_size(), 1);
    Put("more", "", id);
  }
}

}  // namespace
}  // namespace mainstay::testing
