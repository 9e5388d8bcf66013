// Goal: a view never changes while the store does: readers on other threads see one revision,
// whole. Method: one thread writes and compacts, three read whatever view is newest. Each revision
// r sets every key of a group
//         to the same text, so that a mixture of two revisions shows. Under ThreadSanitizer this is
//         the race test of the index.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "env/random.h"
#include "mvcc/store.h"

namespace mainstay::mvcc {
namespace {

class NoLeases : public LeaseLookup {
 public:
  bool Exists(LeaseId) const override { return false; }
};

constexpr int kKeys = 40;
constexpr int kRounds = 1500;

std::string KeyName(int i) {
  return "k" + std::to_string(100 + i);
}

void WriteRound(Store& store, backend::Backend& backend, int round, SeededRandom& random) {
  NoLeases leases;
  std::vector<LeaseChange> changes;
  backend::WriteBatch batch;
  WriteContext context{batch, leases, changes};
  std::vector<std::string> keys;
  const std::string value = "round " + std::to_string(round);
  TxnRequest txn;
  for (int i = 0; i < kKeys; ++i) {
    keys.push_back(KeyName(i));
  }
  for (const std::string& key : keys) {
    txn.success.push_back({PutRequest{.key = key, .value = value}});
  }
  ASSERT_TRUE(store.Txn(txn, context).ok());
  if (random.Below(4) == 0) {
    (void)store.Compact(std::max<int64_t>(store.revision() - 3, 1), batch);  // or compacted already
  }
  store.CompactSome(batch);
  ASSERT_TRUE(backend.Write(batch, {Index(static_cast<uint64_t>(round)), Term(1)}).ok());
  store.Publish([](std::vector<EventBatch>&&) {});
}

void ReadUntil(const Store& store, const std::atomic<bool>& stop, uint64_t seed, int* reads) {
  SeededRandom random(seed);
  while (!stop.load()) {
    const ReadView view = store.View();
    if (view.revision() < 2) {
      continue;
    }
    const int64_t behind = static_cast<int64_t>(random.Below(3));
    const int64_t at =
        std::max(view.revision() - behind, std::max<int64_t>(view.compact_revision(), 2));
    const auto found = view.Range({.key = "k", .range_end = "l", .revision = at});
    ASSERT_TRUE(found.ok() && found->ok());
    ASSERT_EQ((*found)->kvs.size(), static_cast<size_t>(kKeys));
    std::string value;
    for (const Buffer& kv : (*found)->kvs) {
      Record r;
      ASSERT_TRUE(DecodeRecord(kv.view(), &r));
      ASSERT_EQ(r.mod_revision, at);
      ASSERT_TRUE(value.empty() || value == r.value);
      value = r.value;
    }
    ASSERT_EQ(view.Count({"k", "l"}), kKeys);
    ASSERT_EQ(view.Count({KeyName(10), KeyName(20)}), 10);
    ++*reads;
  }
}

TEST(ReadersTest, EachSeesOneRevisionWhole) {
  const auto backend = backend::NewMemoryBackend();
  auto store = Store::Open(*backend, {.record_cache_bytes = 2048, .compaction_batch = 50}).value();
  std::atomic<bool> stop = false;
  int reads[3] = {};
  std::vector<std::thread> readers;
  for (uint64_t i = 0; i < 3; ++i) {
    readers.emplace_back([&, i] { ReadUntil(*store, stop, i, &reads[i]); });
  }
  SeededRandom random(9);
  for (int round = 1; round <= kRounds; ++round) {
    WriteRound(*store, *backend, round, random);
  }
  stop = true;
  for (std::thread& reader : readers) {
    reader.join();
  }
  for (const int n : reads) {
    EXPECT_GT(n, 0);
  }
}

}  // namespace
}  // namespace mainstay::mvcc
