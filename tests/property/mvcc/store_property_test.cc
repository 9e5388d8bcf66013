// Goal: whatever is done to the store, it is the naive twin: results, every kept revision, history,
// hashes, sizes. Method: seeded random histories of puts, deletes, nested transactions, lease
// revocations and compactions in batches
//         of random size; the store is closed and opened again, or loses what the backend had not
//         flushed and replays its log; on the in-memory backend and on RocksDB. MVCC_SEED=n repeats
//         one seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <variant>

#include "common/crc32c.h"
#include "env/random.h"
#include "mvcc/store.h"
#include "tests/property/mvcc/twin.h"

namespace mainstay::mvcc {
namespace {

std::string DescribeBuffer(const Buffer& kv) {
  Record r;
  EXPECT_TRUE(DecodeRecord(kv.view(), &r));
  return Describe(TwinKv{std::string(r.key), std::string(r.value), r.create_revision,
                         r.mod_revision, r.version, r.lease.value()});
}

std::string DescribeRange(const RangeResult& range) {
  std::string out = "range " + std::to_string(range.count) + (range.more ? "+ " : " ");
  for (const Buffer& kv : range.kvs) {
    out += DescribeBuffer(kv);
  }
  return out;
}

std::string DescribePut(const PutResult& put) {
  return "put " + (put.prev_kv.empty() ? "" : DescribeBuffer(put.prev_kv));
}

std::string DescribeDelete(const DeleteResult& result) {
  std::string out = "del " + std::to_string(result.deleted) + " ";
  for (const Buffer& kv : result.prev_kvs) {
    out += DescribeBuffer(kv);
  }
  return out;
}

std::string DescribeTxn(const TxnResult& txn) {
  std::string out = txn.succeeded ? "yes\n" : "no\n";
  for (const OpResult& op : txn.responses) {
    if (const auto* range = std::get_if<RangeResult>(&op.result)) {
      out += DescribeRange(*range);
    } else if (const auto* put = std::get_if<PutResult>(&op.result)) {
      out += DescribePut(*put);
    } else if (const auto* remove = std::get_if<DeleteResult>(&op.result)) {
      out += DescribeDelete(*remove);
    } else {
      out += "[" + DescribeTxn(*std::get<std::unique_ptr<TxnResult>>(op.result)) + "]";
    }
    out += "\n";
  }
  return out;
}

struct Revoke {
  std::vector<std::string> keys;
};
struct CompactOp {
  int64_t revision = 0;
};
using Change = std::variant<PutRequest, DeleteRangeRequest, TxnRequest, Revoke, CompactOp>;

// Requests point at strings of this pool, which outlives them.
class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {
    for (const char* key : {"a", "aa", "ab", "b", "b\xff", "ba", "c", "ca", "d", "\xff"}) {
      keys_.emplace_back(key);
    }
    keys_.push_back(std::string("a\0b", 3));
    keys_.push_back(std::string("b\0", 2));
    for (size_t i = 0; i < 12; ++i) {
      values_.push_back(std::string(i * i, static_cast<char>('A' + i)));
    }
  }
  uint64_t Below(uint64_t n) { return random_.Below(n); }
  bool Rarely() { return Below(8) == 0; }

  Change Next(int64_t revision, int64_t compacted) {
    switch (Below(12)) {
      case 0:
      case 1:
        return Delete();
      case 2:
      case 3:
      case 4:
        return Txn(revision, 0);
      case 5:
        return Rarely() ? Change(Revoke{{keys_[0], keys_[3], keys_[6]}}) : Change(Put());
      case 6:
        return Rarely() ? Change(CompactOp{AnyRevision(revision, compacted)}) : Change(Put());
      default:
        return Put();
    }
  }
  RangeRequest Range(int64_t revision, int64_t compacted) {
    RangeRequest out;
    Interval(&out.key, &out.range_end);
    out.limit = static_cast<int64_t>(Below(3) == 0 ? Below(5) : 0);
    out.revision = Below(2) == 0 ? AnyRevision(revision, compacted) : 0;
    out.sort_order = static_cast<SortOrder>(Below(3));
    out.sort_target = static_cast<SortTarget>(Below(5));
    out.keys_only = Rarely();
    out.count_only = Rarely();
    for (int64_t* filter : {&out.min_mod_revision, &out.max_mod_revision, &out.min_create_revision,
                            &out.max_create_revision}) {
      *filter = Rarely() ? AnyRevision(revision, 0) : 0;
    }
    return out;
  }

 private:
  std::string_view Key() { return keys_[Below(keys_.size())]; }
  std::string_view Value() { return values_[Below(values_.size())]; }
  int64_t AnyRevision(int64_t revision, int64_t compacted) {
    const int64_t low = std::max<int64_t>(compacted - 1, 1);
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(revision - low + 3)));
  }
  void Interval(std::string_view* key, std::string_view* end) {
    *key = Key();
    switch (Below(4)) {
      case 0:
        *end = std::string_view("\0", 1);
        break;
      case 1:
      case 2:
        *end = Key();
        break;
      default:
        *end = {};
    }
  }
  PutRequest Put() {
    PutRequest out{.key = Key(), .value = Value()};
    out.lease = LeaseId(static_cast<int64_t>(Below(3) == 0 ? 7 + Below(3) : 0));
    out.prev_kv = Below(2) == 0;
    if (Rarely()) {
      out.ignore_value = true;
      out.value = {};
    }
    if (Rarely()) {
      out.ignore_lease = true;
      out.lease = {};
    }
    return out;
  }
  DeleteRangeRequest Delete() {
    DeleteRangeRequest out;
    Interval(&out.key, &out.range_end);
    out.prev_kv = Below(2) == 0;
    return out;
  }
  Compare AnyCompare(int64_t revision) {
    Compare out;
    Interval(&out.key, &out.range_end);
    out.result = static_cast<CompareResult>(Below(4));
    out.target = static_cast<CompareTarget>(Below(5));
    if (out.target == CompareTarget::kValue) {
      out.value = Value();
    } else if (out.target == CompareTarget::kLease) {
      out.number = static_cast<int64_t>(Below(2) * 7);
    } else {
      out.number = static_cast<int64_t>(
          Below(out.target == CompareTarget::kVersion ? 4 : static_cast<uint64_t>(revision) + 2));
    }
    return out;
  }
  TxnRequest Txn(int64_t revision, int depth) {
    TxnRequest out;
    do {
      out = TxnRequest();
      for (uint64_t n = Below(3); n > 0; --n) {
        out.compare.push_back(AnyCompare(revision));
      }
      for (std::vector<Op>* ops : {&out.success, &out.failure}) {
        for (uint64_t n = Below(5); n > 0; --n) {
          ops->push_back(AnyOp(revision, depth));
        }
      }
    } while (CheckTxn(out, 128) != Error::kOk);
    return out;
  }
  Op AnyOp(int64_t revision, int depth) {
    switch (Below(depth < 2 ? 6 : 5)) {
      case 0: {
        RangeRequest range = Range(revision, revision - 3);
        return {range};
      }
      case 1:
        return {Delete()};
      case 5:
        return {std::make_unique<TxnRequest>(Txn(revision, depth + 1))};
      default:
        return {Put()};
    }
  }

  SeededRandom random_;
  std::vector<std::string> keys_;
  std::vector<std::string> values_;
};

class TwinLeases : public LeaseLookup {
 public:
  bool Exists(LeaseId id) const override { return Twin().LeaseExists(id.value()); }
};

enum class Engine { kMemory, kRocks };

// The store beside its twin, and the log that both were fed from.
class Pair {
 public:
  Pair(Engine engine, uint64_t seed) : engine_(engine), generator_(seed) {
    if (engine == Engine::kRocks) {
      std::string name = testing::TempDir() + "mainstay-twin-XXXXXX";
      dir_ = mkdtemp(name.data());
    }
    OpenBackend(nullptr);
    OpenStore();
  }
  ~Pair() {
    store_ = nullptr;
    backend_ = nullptr;
    if (!dir_.empty()) {
      std::filesystem::remove_all(dir_);
    }
  }

  void Batch() {
    for (uint64_t n = 1 + generator_.Below(4); n > 0; --n) {
      log_.push_back(generator_.Next(twin_.revision(), twin_.compacted()));
      const std::string wanted = ApplyToTwin(log_.back());
      ASSERT_EQ(Apply(log_.back()), wanted);
      ASSERT_EQ(store_->revision(), twin_.revision());
    }
    if (generator_.Below(2) == 0) {
      store_->CompactSome(batch_);
    }
    Publish();
  }

  void Reopen() {
    store_ = nullptr;
    if (engine_ == Engine::kRocks) {
      ASSERT_TRUE(backend_->Flush().ok());
      backend_ = nullptr;
      OpenBackend(nullptr);
    }
    OpenStore();
  }

  // What was not flushed is gone; the log brings it back, in batches of other sizes.
  void Crash() {
    store_ = nullptr;
    if (engine_ == Engine::kRocks) {
      backend_ = nullptr;  // without a flush, as a killed process leaves it
      OpenBackend(nullptr);
    } else {
      OpenBackend(static_cast<backend::MemoryBackend&>(*backend_).AfterCrash());
    }
    OpenStore();
    events_.clear();
    const uint64_t from = backend_->applied().index.value();
    ASSERT_LE(from, log_.size());
    for (applied_ = from; applied_ < log_.size();) {
      for (uint64_t n = 1 + generator_.Below(5); n > 0 && applied_ < log_.size(); --n) {
        Apply(log_[applied_++]);
      }
      if (generator_.Below(2) == 0) {
        store_->CompactSome(batch_);
      }
      Write();
    }
    ASSERT_EQ(store_->revision(), twin_.revision());
    events_.clear();
  }

  void Flush() {
    if (generator_.Below(2) == 0) {
      ASSERT_TRUE(backend_->Flush().ok());
    } else {
      backend_->RequestFlush();
    }
  }

  void CompareReads(int n) {
    const ReadView view = store_->View();
    for (; n > 0; --n) {
      const RangeRequest request = generator_.Range(twin_.revision(), twin_.compacted());
      if (CheckRange(request) == Error::kOk) {
        CompareRange(view, request);
      }
    }
  }

  void CompareRange(const ReadView& view, const RangeRequest& request) {
    const std::optional<TwinRange> wanted = twin_.Range(request);
    const auto found = view.Range(request);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    ASSERT_EQ(found->ok(), wanted.has_value());
    if (!wanted) {
      return;
    }
    ASSERT_EQ(DescribeRange(**found), Describe(*wanted));
    auto cursor = view.OpenRange(request);
    ASSERT_TRUE(cursor.ok() && cursor->ok());
    ASSERT_EQ((*cursor)->count(), wanted->count);
    ASSERT_EQ((*cursor)->more(), wanted->more);
    BufferChain out;
    while (!(*cursor)->done()) {
      ASSERT_TRUE((*cursor)->Read(1 + generator_.Below(200), &out).ok());
    }
    ASSERT_EQ(out.Flatten().size(), (*cursor)->encoded_bytes());
    if (request.revision == 0 && !request.has_filters()) {
      ASSERT_EQ(view.Count({request.key, request.range_end}), wanted->count);
    }
  }

  // All kept revisions: content, history, hashes; and the sizes.
  void CompareAll() {
    FinishCompaction();
    const ReadView view = store_->View();
    const std::string_view zero("\0", 1);
    const int64_t first = std::max<int64_t>(twin_.compacted(), 1);
    for (int64_t at = first; at <= twin_.revision(); ++at) {
      SCOPED_TRACE(testing::Message() << "revision " << at);
      CompareRange(view, {.key = zero, .range_end = zero, .revision = at});
      const auto hash = view.HashKv(at);
      ASSERT_TRUE(hash.ok() && hash->ok());
      ASSERT_EQ((*hash)->hash, twin_.Hash(at));
      ASSERT_EQ((*hash)->compact_revision, twin_.compacted());
    }
    CompareHistory(view);
    CompareRows(view);
    ASSERT_EQ(store_->logical_bytes(), twin_.LogicalBytes());
    ASSERT_EQ(store_->published_logical_bytes(), twin_.LogicalBytes());
    std::vector<std::pair<std::string, int64_t>> leased;
    store_->ForEachLeasedKey([&](std::string_view key, LeaseId lease) {
      leased.emplace_back(std::string(key), lease.value());
    });
    std::sort(leased.begin(), leased.end());
    ASSERT_EQ(leased, twin_.LeasedKeys());
  }

 private:
  void OpenBackend(std::unique_ptr<backend::Backend> left) {
    if (engine_ == Engine::kMemory) {
      backend_ = left != nullptr ? std::move(left) : backend::NewMemoryBackend();
      return;
    }
    auto opened =
        backend::OpenRocks(dir_ + "/store", {.memtable_bytes = 1 << 20, .on_error = nullptr});
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    backend_ = *std::move(opened);
  }
  void OpenStore() {
    auto opened = Store::Open(*backend_, {.record_cache_bytes = 512, .compaction_batch = 3});
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = *std::move(opened);
  }

  std::string ApplyToTwin(const Change& change) {
    if (const auto* put = std::get_if<PutRequest>(&change)) {
      return twin_.Put(*put).value_or("error");
    }
    if (const auto* remove = std::get_if<DeleteRangeRequest>(&change)) {
      return twin_.DeleteRange(*remove);
    }
    if (const auto* txn = std::get_if<TxnRequest>(&change)) {
      const auto out = twin_.Txn(*txn);
      return out ? out->text : "error";
    }
    if (const auto* revoke = std::get_if<Revoke>(&change)) {
      twin_.DeleteKeys(revoke->keys);
      return "revoke";
    }
    return twin_.Compact(std::get<CompactOp>(change).revision) ? "compact" : "error";
  }

  std::string Apply(const Change& change) {
    WriteContext context{batch_, leases_, lease_changes_};
    if (const auto* put = std::get_if<PutRequest>(&change)) {
      const auto out = store_->Put(*put, context);
      return out.ok() ? DescribePut(*out) : "error";
    }
    if (const auto* remove = std::get_if<DeleteRangeRequest>(&change)) {
      return DescribeDelete(store_->DeleteRange(*remove, context));
    }
    if (const auto* txn = std::get_if<TxnRequest>(&change)) {
      const auto out = store_->Txn(*txn, context);
      return out.ok() ? DescribeTxn(*out) : "error";
    }
    if (const auto* revoke = std::get_if<Revoke>(&change)) {
      store_->DeleteKeys(revoke->keys, context);
      return "revoke";
    }
    return store_->Compact(std::get<CompactOp>(change).revision, batch_) == Error::kOk ? "compact"
                                                                                       : "error";
  }

  void Publish() {
    applied_ = log_.size();
    Write();
  }
  void Write() {
    ASSERT_TRUE(backend_->Write(batch_, {Index(applied_), Term(1)}).ok());
    batch_.Clear();
    store_->Publish([this](std::vector<EventBatch>&& events) {
      for (EventBatch& e : events) {
        events_.push_back(std::move(e));
      }
    });
    CompareEvents();
  }

  // What watchers are told is what was written, one batch for a revision.
  void CompareEvents() {
    for (const EventBatch& batch : events_) {
      CompareBatch(batch, false);
    }
    events_.clear();
  }
  void CompareBatch(const EventBatch& batch, bool prev_kv) {
    if (batch.revision <= twin_.compacted()) {
      return;  // the twin may have forgotten it already
    }
    const std::vector<TwinRow> rows = twin_.RowsAt(batch.revision);
    ASSERT_EQ(batch.events.size(), rows.size()) << "revision " << batch.revision;
    for (size_t i = 0; i < rows.size(); ++i) {
      const Event& event = batch.events[i];
      ASSERT_EQ(event.type == Event::Type::kDelete, rows[i].tombstone);
      ASSERT_EQ(event.key, rows[i].kv.key);
      if (!rows[i].tombstone) {
        ASSERT_EQ(DescribeBuffer(event.kv), Describe(rows[i].kv));
        ASSERT_EQ(event.is_create, rows[i].kv.version == 1);
      }
      if (prev_kv && !event.is_create) {
        const auto previous = twin_.Before(rows[i]);
        ASSERT_EQ(event.prev_kv.empty(), !previous.has_value());
        if (previous) {
          ASSERT_EQ(DescribeBuffer(event.prev_kv), Describe(*previous));
        }
      }
    }
  }

  void CompareHistory(const ReadView& view) {
    // With predecessors only what is above the watermark has them all.
    for (const bool prev_kv : {false, true}) {
      int64_t at = std::max<int64_t>(twin_.compacted() + 1, 2);
      while (at <= twin_.revision()) {
        const auto history = view.ReadHistory(at, twin_.revision(), 1 + generator_.Below(300),
                                              1 + generator_.Below(4), prev_kv);
        ASSERT_TRUE(history.ok()) << history.status().ToString();
        ASSERT_TRUE(history->ok());
        ASSERT_GE((*history)->last_revision, at);
        int64_t next = at;
        for (const EventBatch& batch : (*history)->batches) {
          ASSERT_EQ(batch.revision, next++);
          CompareBatch(batch, prev_kv);
        }
        ASSERT_EQ(next, (*history)->last_revision + 1);
        at = next;
      }
    }
    if (twin_.compacted() > 1) {
      const auto history =
          view.ReadHistory(twin_.compacted() - 1, twin_.revision(), 1000, 100, false);
      ASSERT_TRUE(history.ok() && !history->ok());
      ASSERT_EQ(history->error(), Error::kCompacted);
    }
  }

  void CompareRows(const ReadView& view) {
    const std::vector<TwinRow> rows = twin_.Rows();
    size_t at = 0;
    const Status status =
        view.ForEachRevision([&](std::string_view key, std::string_view record) -> Status {
          EXPECT_LT(at, rows.size());
          if (at < rows.size()) {
            const TwinRow& row = rows[at++];
            EXPECT_EQ(key, RevisionBytes(row.main, row.sub, row.tombstone));
            EXPECT_EQ(record, EncodeTwin(row.kv, row.tombstone));
          }
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(at, rows.size());
    // Nothing else is left in the engine.
    size_t revision_rows = 0;
    size_t record_rows = 0;
    for (auto scan = backend_->NewIterator(nullptr, "r", "s"); scan->Valid(); scan->Next()) {
      ++revision_rows;
    }
    for (auto scan = backend_->NewIterator(nullptr, "k", "l"); scan->Valid(); scan->Next()) {
      ++record_rows;
    }
    ASSERT_EQ(revision_rows, rows.size());
    ASSERT_EQ(record_rows, rows.size());
  }

  void FinishCompaction() {
    for (int i = 0; store_->compacting(); ++i) {
      ASSERT_LT(i, 10'000) << "compaction does not come to its end";
      store_->CompactSome(batch_);
      Write();
    }
  }

  const Engine engine_;
  Generator generator_;
  std::string dir_;
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<Store> store_;
  Twin twin_;
  std::deque<Change> log_;
  uint64_t applied_ = 0;
  backend::WriteBatch batch_;
  TwinLeases leases_;
  std::vector<LeaseChange> lease_changes_;
  std::vector<EventBatch> events_;
};

void Run(Engine engine, uint64_t seed, int batches) {
  SCOPED_TRACE(testing::Message() << "MVCC_SEED=" << seed);
  Pair pair(engine, seed);
  SeededRandom random(seed ^ 0x5EED);
  for (int i = 0; i < batches && !testing::Test::HasFatalFailure(); ++i) {
    pair.Batch();
    pair.CompareReads(3);
    switch (random.Below(24)) {
      case 0:
        pair.Reopen();
        break;
      case 1:
        pair.Crash();
        break;
      case 2:
      case 3:
        pair.Flush();
        break;
      case 4:
        pair.CompareAll();
        break;
      default:
        break;
    }
  }
  if (!testing::Test::HasFatalFailure()) {
    pair.CompareAll();
  }
}

void RunSeeds(Engine engine, uint64_t seeds, int batches) {
  if (const char* seed = std::getenv("MVCC_SEED"); seed != nullptr) {
    Run(engine, std::strtoull(seed, nullptr, 10), batches);
    return;
  }
  if (const char* more = std::getenv("MVCC_SEEDS"); more != nullptr) {
    seeds = std::strtoull(more, nullptr, 10);
  }
  for (uint64_t seed = 1; seed <= seeds && !testing::Test::HasFatalFailure(); ++seed) {
    Run(engine, seed, batches);
  }
}

TEST(StorePropertyTest, IsItsTwinInMemory) {
  RunSeeds(Engine::kMemory, 15, 120);
}

TEST(StorePropertyTest, IsItsTwinOnRocks) {
  RunSeeds(Engine::kRocks, 3, 100);
}

}  // namespace
}  // namespace mainstay::mvcc
