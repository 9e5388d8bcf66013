// Goal: the store's rules on the in-memory backend: revisions, transactions, history, compaction,
// hashes.
#include "mvcc/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "common/coding.h"

namespace mainstay::mvcc {
namespace {

class AnyLease : public LeaseLookup {
 public:
  bool Exists(LeaseId id) const override { return known.contains(id.value()); }
  std::set<int64_t> known{17};
};

class StoreTest : public testing::Test {
 protected:
  StoreTest() { Reopen(); }
  void Reopen() {
    store_ = nullptr;
    StatusOr<std::unique_ptr<Store>> opened =
        Store::Open(*backend_, {.record_cache_bytes = 1 << 20, .compaction_batch = 3});
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = *std::move(opened);
  }
  void Publish() {
    ASSERT_TRUE(backend_->Write(batch_, {Index(++applied_), Term(1)}).ok());
    batch_.Clear();
    store_->Publish([this](std::vector<EventBatch>&& events) {
      for (EventBatch& e : events) {
        events_.push_back(std::move(e));
      }
    });
  }
  int64_t Put(std::string_view key, std::string_view value, int64_t lease = 0) {
    WriteContext context{batch_, leases_, changes_};
    const auto out = store_->Put({.key = key, .value = value, .lease = LeaseId(lease)}, context);
    EXPECT_TRUE(out.ok());
    Publish();
    return out.ok() ? out->revision : 0;
  }
  int64_t Delete(std::string_view key, std::string_view end = "") {
    WriteContext context{batch_, leases_, changes_};
    const DeleteResult out = store_->DeleteRange({.key = key, .range_end = end}, context);
    Publish();
    return out.revision;
  }
  void CompactAll(int64_t revision) {
    EXPECT_EQ(store_->Compact(revision, batch_), Error::kOk);
    Publish();
    while (store_->compacting()) {
      store_->CompactSome(batch_);
      Publish();
    }
  }
  std::string Keys(const RangeRequest& request) {
    std::string out;
    const auto result = store_->View().Range(request);
    EXPECT_TRUE(result.ok());
    if (!result->ok()) {
      return "error";
    }
    for (const Buffer& kv : (*result)->kvs) {
      Record r;
      EXPECT_TRUE(DecodeRecord(kv.view(), &r));
      out += std::string(r.key) + "=" + std::string(r.value) + " ";
    }
    return out;
  }
  uint32_t Hash(int64_t at) {
    const auto hash = store_->View().HashKv(at);
    EXPECT_TRUE(hash.ok() && hash->ok());
    return (*hash)->hash;
  }

  std::unique_ptr<backend::MemoryBackend> backend_ = backend::NewMemoryBackend();
  std::unique_ptr<Store> store_;
  backend::WriteBatch batch_;
  AnyLease leases_;
  std::vector<LeaseChange> changes_;
  std::vector<EventBatch> events_;
  uint64_t applied_ = 0;
};

TEST_F(StoreTest, FirstWriteIsRevisionTwo) {
  EXPECT_EQ(store_->View().revision(), 1);
  EXPECT_EQ(Put("foo", "bar"), 2);
  EXPECT_EQ(store_->View().revision(), 2);
}

TEST_F(StoreTest, RecordBytesAreEtcds) {
  Put("foo", "bar");
  EXPECT_EQ(Hex(store_->View().Get("foo", 2)->view()),
            "0a03666f6f100218022001"
            "2a03626172");
}

// Vectors of a real etcd 3.7.1 (etcd-files.md 3).
TEST_F(StoreTest, HashesAreEtcds) {
  EXPECT_EQ(Hash(0), 1084519789u);
  Put("foo", "bar");
  Put("k", "v", 17);
  Delete("foo");
  EXPECT_EQ(Hash(2), 3305255506u);
  EXPECT_EQ(Hash(3), 1497393236u);
  EXPECT_EQ(Hash(4), 718558968u);
  EXPECT_EQ(store_->Compact(3, batch_), Error::kOk);
  Publish();
  EXPECT_EQ(Hash(4), 1078105330u);  // before the rows are gone
  // What a compaction stores: the hash with the watermark of before it.
  EXPECT_EQ(store_->View().HashKvWith(3, -1)->hash, 1497393236u);
  EXPECT_EQ(store_->View().HashKvWith(4, 3)->hash, 1078105330u);
  EXPECT_EQ(store_->View().HashKvWith(4, -1)->hash, 718558968u);
  CompactAll(4);
  EXPECT_EQ(Hash(0), 2881044257u);
  Put("z", "z");
  EXPECT_EQ(Hash(5), 2018980031u);
}

TEST_F(StoreTest, PutDeletePutStartsANewLife) {
  Put("a", "1");
  Put("a", "2");
  EXPECT_EQ(Delete("a"), 4);
  EXPECT_EQ(Delete("a"), 4);  // nothing to delete takes no revision
  EXPECT_EQ(Put("a", "3"), 5);
  Record r;
  const Buffer now = *store_->View().Get("a", 5);
  ASSERT_TRUE(DecodeRecord(now.view(), &r));
  EXPECT_EQ(r.create_revision, 5);
  EXPECT_EQ(r.version, 1);
  EXPECT_EQ(Keys({.key = "a", .revision = 3}), "a=2 ");
  EXPECT_EQ(Keys({.key = "a", .revision = 4}), "");
}

// C20.
TEST_F(StoreTest, RangesAreHalfOpen) {
  for (const std::string_view key : {"a", "a\xff", "b", "\xff", "\xff\xff"}) {
    Put(key, "");
  }
  const std::string_view zero("\0", 1);
  EXPECT_EQ(Keys({.key = "a\xff", .range_end = "b"}), "a\xff= ");
  EXPECT_EQ(Keys({.key = "\xff", .range_end = zero}), "\xff= \xff\xff= ");
  EXPECT_EQ(Keys({.key = "b", .range_end = "a"}), "");
  EXPECT_EQ(Keys({.key = "a", .range_end = "a"}), "");
  EXPECT_EQ(store_->View().Count({zero, zero}), 5);
  EXPECT_EQ(store_->View().Count({"a", "b"}), 2);
  EXPECT_EQ(store_->View().Count({"b", "a"}), 0);
}

// C17.
TEST_F(StoreTest, CountIgnoresFiltersAndLimit) {
  Put("/k1", "");
  const int64_t second = Put("/k2", "");
  const RangeRequest request{.key = "/k", .range_end = "/l", .min_mod_revision = second};
  const auto out = store_->View().Range(request);
  EXPECT_EQ((*out)->count, 2);
  EXPECT_EQ((*out)->kvs.size(), 1u);
}

TEST_F(StoreTest, TxnEvaluatesOnThePreState) {
  TxnRequest nested_request;
  nested_request.compare.push_back({.target = CompareTarget::kVersion, .key = "a"});
  nested_request.success.push_back({PutRequest{.key = "b", .value = "pre"}});
  nested_request.failure.push_back({PutRequest{.key = "b", .value = "post"}});
  TxnRequest txn;
  txn.success.push_back({PutRequest{.key = "a", .value = "1"}});
  txn.success.push_back({std::make_unique<TxnRequest>(std::move(nested_request))});
  txn.success.push_back({RangeRequest{.key = "b"}});
  WriteContext context{batch_, leases_, changes_};
  const auto out = store_->Txn(txn, context);
  ASSERT_TRUE(out.ok());
  Publish();
  EXPECT_EQ(out->revision, 2);
  EXPECT_EQ(Keys({.key = "b"}), "b=pre ");
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_EQ(events_[0].events.size(), 2u);
}

TEST_F(StoreTest, TxnFailsWhole) {
  Put("k", "v");
  for (const int64_t revision : {int64_t{100}, int64_t{1} << 40}) {
    TxnRequest txn;
    txn.success.push_back({PutRequest{.key = "m", .value = "x"}});
    txn.success.push_back({RangeRequest{.key = "k", .revision = revision}});
    WriteContext context{batch_, leases_, changes_};
    EXPECT_EQ(store_->Txn(txn, context).error(), Error::kFutureRev);
  }
  TxnRequest txn;
  txn.success.push_back({PutRequest{.key = "m", .value = "x"}});
  txn.success.push_back({PutRequest{.key = "n", .value = "x", .lease = LeaseId(99)}});
  WriteContext context{batch_, leases_, changes_};
  EXPECT_EQ(store_->Txn(txn, context).error(), Error::kLeaseNotFound);
  Publish();
  EXPECT_EQ(store_->View().revision(), 2);
  EXPECT_EQ(Keys({.key = "m"}), "");
}

// C16.
TEST_F(StoreTest, RevisionStaysAfterCompactingTombstonesAndRestart) {
  for (int i = 0; i < 300; ++i) {
    Put("key" + std::to_string(i), "v");
  }
  int64_t last = 0;
  for (int i = 296; i < 300; ++i) {
    last = Delete("key" + std::to_string(i));
  }
  ASSERT_EQ(store_->Compact(last, batch_), Error::kOk);
  Publish();
  store_->CompactSome(batch_);
  Publish();  // in the middle
  Reopen();
  EXPECT_EQ(store_->revision(), last);
  EXPECT_TRUE(store_->compacting());
  while (store_->compacting()) {
    ASSERT_TRUE(store_->CompactSome(batch_));
    Publish();
  }
  Reopen();
  EXPECT_EQ(store_->revision(), last);
  EXPECT_EQ(Put("next", "v"), last + 1);
  EXPECT_EQ(store_->View().Count({"key", "kez"}), 296);
}

// C22 and C04: what is kept, at and around tombstones.
TEST_F(StoreTest, CompactionKeepsTheNewestAndTheTombstoneAtTheWatermark) {
  Put("k", "1");
  Put("k", "2");
  Put("k", "3");
  const int64_t removed = Delete("k");
  const int64_t again = Put("k", "4");
  CompactAll(removed);
  const auto history = store_->View().ReadHistory(removed, again, 1 << 20, 1000, false);
  ASSERT_TRUE(history.ok() && history->ok());
  ASSERT_EQ((*history)->batches.size(), 2u);
  EXPECT_EQ((*history)->batches[0].events[0].type, Event::Type::kDelete);
  EXPECT_EQ((*history)->batches[1].events[0].type, Event::Type::kPut);
  EXPECT_EQ(store_->View().ReadHistory(removed - 1, again, 1 << 20, 1000, false)->error(),
            Error::kCompacted);
  EXPECT_EQ(store_->View().CheckRevision(removed), Error::kOk);
  EXPECT_EQ(store_->View().CheckRevision(removed - 1), Error::kCompacted);
  EXPECT_EQ(store_->Compact(removed, batch_), Error::kCompacted);
  EXPECT_EQ(store_->Compact(again + 1, batch_), Error::kFutureRev);
}

TEST_F(StoreTest, AViewOutlivesCompaction) {
  for (int i = 0; i < 20; ++i) {
    Put("k", std::to_string(i));
  }
  const ReadView old = store_->View();
  ASSERT_EQ(store_->Compact(21, batch_), Error::kOk);
  Publish();
  EXPECT_FALSE(store_->CompactSome(batch_));  // the old view may still read what would go
  Record r;
  const Buffer bytes = *old.Get("k", 5);
  ASSERT_TRUE(DecodeRecord(bytes.view(), &r));
  EXPECT_EQ(r.value, "3");
}

TEST_F(StoreTest, LeaseChangesAreTold) {
  Put("a", "1", 17);
  Put("a", "2", 17);
  Put("a", "3");
  Put("a", "4", 17);
  Delete("a");
  ASSERT_EQ(changes_.size(), 4u);
  EXPECT_EQ(changes_[0].to, LeaseId(17));
  EXPECT_EQ(changes_[1].from, LeaseId(17));
  EXPECT_EQ(changes_[1].to, LeaseId(0));
  EXPECT_EQ(changes_[3].to, LeaseId(0));
}

TEST_F(StoreTest, LogicalSizeIsExactAcrossRestart) {
  for (int i = 0; i < 50; ++i) {
    Put("key" + std::to_string(i % 7), std::string(static_cast<size_t>(i), 'x'));
  }
  Delete("key3");
  CompactAll(30);
  const int64_t size = store_->logical_bytes();
  Reopen();
  EXPECT_EQ(store_->logical_bytes(), size);
}

}  // namespace
}  // namespace mainstay::mvcc
