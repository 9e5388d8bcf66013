// Goal: what a watch reads from mvcc's history equals what it would have been fed live, and
// compaction shows as the hub expects it.
// Method: a real store over the memory backend; one stream follows live, others start in the past,
// with a log too small to help them.
#include "watch/store_history.h"

#include "tests/unit/watch/harness.h"

namespace mainstay::watch {
namespace {

using testing::ElementsAre;

class AnyLease : public mvcc::LeaseLookup {
 public:
  bool Exists(LeaseId) const override { return true; }
};

class StoreHistoryTest : public testing::Test {
 protected:
  StoreHistoryTest() {
    store_ = *mvcc::Store::Open(*backend_, {});
    hub_ = std::make_unique<Hub>(Hub::Params{.options = {.log_bytes_max = 0},
                                             .header = header_,
                                             .history = history_,
                                             .clock = clock_,
                                             .random = random_,
                                             .metrics = registry_,
                                             .revision = store_->View().revision()});
  }
  void Commit(const std::function<void(mvcc::WriteContext&)>& write) {
    backend::WriteBatch batch;
    std::vector<mvcc::LeaseChange> changes;
    mvcc::WriteContext context{batch, leases_, changes};
    write(context);
    ASSERT_TRUE(backend_->Write(batch, {Index(++index_), Term(1)}).ok());
    store_->Publish([&](std::vector<mvcc::EventBatch>&& batches) {
      if (!batches.empty()) {
        const int64_t revision = batches.back().revision;
        hub_->Publish(std::move(batches), revision);
      }
    });
  }
  void Put(const std::string& key, const std::string& value) {
    Commit([&](mvcc::WriteContext& c) {
      EXPECT_TRUE(store_->Put({.key = key, .value = value}, c).ok());
    });
  }
  void Delete(const std::string& key, const std::string& end = "") {
    Commit([&](mvcc::WriteContext& c) { store_->DeleteRange({.key = key, .range_end = end}, c); });
  }
  void Compact(int64_t revision, bool physical) {
    Commit(
        [&](mvcc::WriteContext& c) { EXPECT_EQ(store_->Compact(revision, c.batch), Error::kOk); });
    while (physical && store_->compacting()) {
      Commit([&](mvcc::WriteContext& c) { store_->CompactSome(c.batch); });
    }
  }
  // All answers of a watch after its created one.
  std::vector<WatchResponse> Watch(int64_t start, bool prev_kv = false) {
    auto sink = std::make_shared<TestSink>();
    const StreamId stream = *hub_->OpenStream(sink);
    EXPECT_TRUE(hub_->Create(
        stream, {.key = "", .range_end = ToEnd(), .start_revision = start, .prev_kv = prev_kv}));
    Run();
    hub_->CloseStream(stream);
    Run();
    return {sink->responses.begin() + 1, sink->responses.end()};
  }
  void Run() {
    while (hub_->shard_task(0).RunOnce()) {
    }
  }

  FakeClock clock_;
  FakeHeader header_;
  AnyLease leases_;
  SeededRandom random_{1};
  MetricRegistry registry_;
  std::unique_ptr<backend::MemoryBackend> backend_ = backend::NewMemoryBackend();
  uint64_t index_ = 0;
  std::unique_ptr<mvcc::Store> store_;
  StoreHistory history_{[this] { return store_->View(); }};  // the store is made later
  std::unique_ptr<Hub> hub_;
};

std::vector<std::string> Joined(const std::vector<WatchResponse>& responses) {
  std::vector<std::string> out;
  for (const WatchResponse& r : responses) {
    for (const auto& e : r.events()) {
      out.push_back(e.SerializeAsString());
    }
  }
  return out;
}

TEST_F(StoreHistoryTest, HistoryEqualsLive) {
  const uint64_t seed = SystemRandom().Next64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  SeededRandom random(seed);
  auto live = std::make_shared<TestSink>();
  const StreamId stream = *hub_->OpenStream(live);
  ASSERT_TRUE(hub_->Create(stream, {.key = "", .range_end = ToEnd(), .prev_kv = true}));
  Run();
  live->responses.clear();
  const auto key = [&] { return std::string(1, static_cast<char>('a' + random.Below(8))); };
  for (int i = 0; i < 1500; ++i) {
    const std::string a = key();
    if (random.Below(4) == 0) {
      Delete(a, random.Below(2) == 0 ? "" : key());
    } else if (random.Below(4) == 0) {
      Commit([&](mvcc::WriteContext& c) {
        mvcc::TxnRequest txn;
        const std::string b = a + "x";
        txn.success.push_back(mvcc::Op{mvcc::PutRequest{.key = a, .value = "t"}});
        txn.success.push_back(mvcc::Op{mvcc::PutRequest{.key = b, .value = "t"}});
        EXPECT_TRUE(store_->Txn(txn, c).ok());
      });
    } else {
      Put(a, std::string(random.Below(50), 'v'));
    }
    Run();
    hub_->OnDrained(stream, std::exchange(live->unwritten, 0));
  }
  Run();
  const std::vector<std::string> want = Joined({live->responses.begin(), live->responses.end()});
  EXPECT_GT(want.size(), 1000U);
  EXPECT_EQ(Joined(Watch(2, true)), want);
}

// C04 over the real store, before and after the rows are gone.
TEST_F(StoreHistoryTest, C04CompactionExactlyAtTheStartRevision) {
  Put("k", "1");
  Put("k", "2");
  Put("k", "3");
  Delete("k");    // 5
  Put("k", "4");  // 6
  Compact(5, false);
  for (const bool removed : {false, true}) {
    while (removed && store_->compacting()) {
      Commit([&](mvcc::WriteContext& c) { store_->CompactSome(c.batch); });
    }
    const auto got = Watch(5);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_THAT(Events(got[0]), ElementsAre("DEL k@5", "PUT k@6"));
  }
}

TEST_F(StoreHistoryTest, C11BelowTheCompactedRevision) {
  for (int i = 0; i < 100; ++i) {
    Put("k", "v");
  }
  Compact(50, true);
  const auto got = Watch(10);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_TRUE(got[0].canceled());
  EXPECT_EQ(got[0].compact_revision(), 50);
  EXPECT_EQ(Joined(Watch(50)).size(), 52U);
}

TEST_F(StoreHistoryTest, C10PrevKvAtTheCompactedRevisionIsNeverSilentlyMissing) {
  Put("x", "1");
  Put("x", "2");
  Delete("x");  // 4
  Put("y", "1");
  Compact(4, true);
  const auto at = Watch(4, true);
  ASSERT_GE(at.size(), 1U);
  if (!at[0].canceled()) {
    ASSERT_EQ(at[0].events(0).type(), mvccpb::Event::DELETE);
    EXPECT_EQ(at[0].events(0).prev_kv().value(), "2");
  } else {
    EXPECT_GT(at[0].compact_revision(), 0);
  }
  EXPECT_THAT(Events(Watch(5, true).at(0)), ElementsAre("PUT y@5"));
}

TEST_F(StoreHistoryTest, AskedAheadOfTheStoreGivesAnEmptyChunk) {
  Put("k", "1");
  StoreHistory history(*store_);
  const auto chunk = history.Read({.from = 3, .to = 9, .bytes_max = 100});
  ASSERT_TRUE(chunk.ok());
  EXPECT_EQ(chunk->last_revision, 2);
  EXPECT_TRUE(chunk->batches.empty());
}

}  // namespace
}  // namespace mainstay::watch
