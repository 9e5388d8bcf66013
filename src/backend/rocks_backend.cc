#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <deque>

#include "backend/backend.h"
#include "common/check.h"
#include "common/coding.h"
#include "common/log.h"
#include "common/mutex.h"

namespace mainstay::backend {
namespace {

// The applied mark's own key: in the state space, sorted before every bucket.
constexpr std::string_view kMarkKey = "s";

rocksdb::Slice ToSlice(std::string_view s) {
  return {s.data(), s.size()};
}
std::string_view FromSlice(const rocksdb::Slice& s) {
  return {s.data(), s.size()};
}

Status Convert(const rocksdb::Status& s, std::string_view what) {
  if (s.ok()) {
    return absl::OkStatus();
  }
  const std::string text = "store: " + std::string(what) + ": " + s.ToString();
  return s.IsCorruption() ? DataLoss(text)
         : s.IsNoSpace()  ? ResourceExhausted(text)
                          : Internal(text);
}

class RocksSnapshot : public Snapshot {
 public:
  explicit RocksSnapshot(rocksdb::DB* db) : db_(db), snapshot_(db->GetSnapshot()) {}
  RocksSnapshot(const RocksSnapshot&) = delete;
  RocksSnapshot& operator=(const RocksSnapshot&) = delete;
  ~RocksSnapshot() override { db_->ReleaseSnapshot(snapshot_); }
  const rocksdb::Snapshot* get() const { return snapshot_; }

 private:
  rocksdb::DB* db_;
  const rocksdb::Snapshot* snapshot_;
};

class RocksIterator : public Iterator {
 public:
  RocksIterator(rocksdb::DB* db,
                const rocksdb::Snapshot* snapshot,
                std::string_view lower,
                std::string_view upper)
      : lower_(lower), upper_(upper), lower_slice_(lower_), upper_slice_(upper_) {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot;
    options.iterate_lower_bound = &lower_slice_;
    options.iterate_upper_bound = &upper_slice_;
    options.fill_cache = false;  // scans must not push out what point reads use
    options.auto_prefix_mode = false;
    it_.reset(db->NewIterator(options));
    it_->Seek(lower_slice_);
  }
  bool Valid() const override { return it_->Valid(); }
  void Seek(std::string_view key) override { it_->Seek(ToSlice(key)); }
  void Next() override { it_->Next(); }
  std::string_view key() const override { return FromSlice(it_->key()); }
  std::string_view value() const override { return FromSlice(it_->value()); }
  Status status() const override { return Convert(it_->status(), "scan"); }

 private:
  const std::string lower_, upper_;
  const rocksdb::Slice lower_slice_, upper_slice_;
  std::unique_ptr<rocksdb::Iterator> it_;
};

class Rocks : public Backend, public rocksdb::EventListener {
 public:
  explicit Rocks(RocksOptions options) : options_(std::move(options)) {}
  Rocks(const Rocks&) = delete;
  Rocks& operator=(const Rocks&) = delete;
  ~Rocks() override {
    if (db_ != nullptr) {
      // Destruction without Flush() is how a crash is tested: nothing is written here.
      rocksdb::CancelAllBackgroundWork(db_.get(), /*wait=*/true);
      db_.reset();
    }
  }

  Status Open(const std::string& dir) {
    rocksdb::Options o;
    o.create_if_missing = true;
    o.avoid_flush_during_shutdown = true;
    o.write_buffer_size = options_.memtable_bytes;
    o.max_write_buffer_number = 4;
    o.max_background_jobs = 2;
    o.max_background_flushes = 1;  // flushes finish in order, as flushed_applied_index() needs
    o.max_background_compactions = 1;
    o.bytes_per_sync = 256 << 10;
    // One such buffer is held for each file that a compaction reads or writes.
    o.compaction_readahead_size = 256 << 10;
    o.writable_file_max_buffer_size = 256 << 10;
    // A file's index and filter are built in memory.
    o.target_file_size_base = 16 << 20;
    o.level_compaction_dynamic_level_bytes = true;
    o.max_open_files = 512;
    o.use_fsync = false;
    o.keep_log_file_num = 2;
    o.max_log_file_size = 1 << 20;
    o.compression = rocksdb::kLZ4Compression;
    o.rate_limiter.reset(rocksdb::NewGenericRateLimiter(96 << 20, 10 * 1000, 10,
                                                        rocksdb::RateLimiter::Mode::kWritesOnly,
                                                        /*auto_tuned=*/false));
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(options_.block_cache_bytes);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    table.cache_index_and_filter_blocks = true;
    table.pin_l0_filter_and_index_blocks_in_cache = true;
    table.format_version = 5;
    o.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    o.statistics = nullptr;
    // RocksDB keeps listeners by shared pointer; this object outlives the database that it owns.
    o.listeners.emplace_back(static_cast<rocksdb::EventListener*>(this),
                             [](rocksdb::EventListener*) {});
    rocksdb::DB* db = nullptr;
    MS_RETURN_IF_ERROR(Convert(rocksdb::DB::Open(o, dir, &db), "open " + dir));
    db_.reset(db);
    std::string mark;
    const rocksdb::Status read = db_->Get(rocksdb::ReadOptions(), ToSlice(kMarkKey), &mark);
    if (read.ok()) {
      if (mark.size() != 16) {
        return DataLoss("store: the applied mark is malformed");
      }
      MutexLock lock(mu_);
      applied_ = {Index(LoadBE64(mark.data())), Term(LoadBE64(mark.data() + 8))};
      flushed_ = applied_.index;
    } else if (!read.IsNotFound()) {
      return Convert(read, "read the applied mark");
    }
    return absl::OkStatus();
  }

  Status Write(const WriteBatch& batch, AppliedMark mark) override {
    rocksdb::WriteBatch out(batch.bytes() + batch.count() * 16 + 64);
    for (size_t i = 0; i < batch.count(); ++i) {
      const WriteBatch::Change change = batch.at(i);
      const rocksdb::Status s = change.is_delete
                                    ? out.Delete(ToSlice(change.key))
                                    : out.Put(ToSlice(change.key), ToSlice(change.value));
      MS_RETURN_IF_ERROR(Convert(s, "batch"));
    }
    char bytes[16];
    StoreBE64(bytes, mark.index.value());
    StoreBE64(bytes + 8, mark.term.value());
    MS_RETURN_IF_ERROR(
        Convert(out.Put(ToSlice(kMarkKey), rocksdb::Slice(bytes, sizeof bytes)), "batch"));
    rocksdb::WriteOptions write;
    write.disableWAL = true;
    MS_RETURN_IF_ERROR(Convert(db_->Write(write, &out), "write"));
    MutexLock lock(mu_);
    applied_ = mark;
    unflushed_ += batch.bytes();
    // Only this thread writes, so the newest sequence number is that of this batch's end.
    marks_.push_back({db_->GetLatestSequenceNumber(), mark.index, unflushed_});
    return absl::OkStatus();
  }

  AppliedMark applied() const override {
    MutexLock lock(mu_);
    return applied_;
  }
  Index flushed_applied_index() const override {
    MutexLock lock(mu_);
    return flushed_;
  }
  uint64_t unflushed_bytes() const override {
    MutexLock lock(mu_);
    return unflushed_;
  }
  void RequestFlush() override {
    rocksdb::FlushOptions flush;
    flush.wait = false;
    flush.allow_write_stall = true;
    if (const rocksdb::Status s = db_->Flush(flush); !s.ok()) {
      Fail(Convert(s, "flush"));
    }
  }
  Status Flush() override {
    const Index wanted = applied().index;
    rocksdb::FlushOptions flush;
    flush.wait = true;
    flush.allow_write_stall = true;
    MS_RETURN_IF_ERROR(Convert(db_->Flush(flush), "flush"));
    MutexLock lock(mu_);
    if (flushed_ < wanted) {
      flushed_ = wanted;  // nothing was in memory, or the event is still on its way
    }
    return absl::OkStatus();
  }

  std::shared_ptr<const Snapshot> NewSnapshot() const override {
    return std::make_shared<RocksSnapshot>(db_.get());
  }
  StatusOr<bool> Get(const Snapshot* snapshot,
                     std::string_view key,
                     std::string* value) const override {
    rocksdb::ReadOptions options;
    options.snapshot = Unwrap(snapshot);
    const rocksdb::Status s = db_->Get(options, ToSlice(key), value);
    if (s.IsNotFound()) {
      return false;
    }
    MS_RETURN_IF_ERROR(Convert(s, "read"));
    return true;
  }
  std::unique_ptr<Iterator> NewIterator(const Snapshot* snapshot,
                                        std::string_view lower,
                                        std::string_view upper) const override {
    return std::make_unique<RocksIterator>(db_.get(), Unwrap(snapshot), lower, upper);
  }
  uint64_t FilesBytes() const override {
    uint64_t files = 0;
    uint64_t memory = 0;
    db_->GetIntProperty("rocksdb.total-sst-files-size", &files);
    db_->GetIntProperty("rocksdb.cur-size-all-mem-tables", &memory);
    return files + memory;
  }
  Status Checkpoint(const std::string& dir) override {
    rocksdb::Checkpoint* checkpoint = nullptr;
    MS_RETURN_IF_ERROR(Convert(rocksdb::Checkpoint::Create(db_.get(), &checkpoint), "checkpoint"));
    const std::unique_ptr<rocksdb::Checkpoint> owned(checkpoint);
    return Convert(owned->CreateCheckpoint(dir, /*log_size_for_flush=*/0), "checkpoint");
  }
  Status CompactAll() override {
    rocksdb::CompactRangeOptions options;
    options.exclusive_manual_compaction = false;
    options.allow_write_stall = false;
    return Convert(db_->CompactRange(options, nullptr, nullptr), "compact");
  }

  // ---- rocksdb::EventListener, on RocksDB's threads
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo& info) override {
    MutexLock lock(mu_);
    while (!marks_.empty() && marks_.front().sequence <= info.largest_seqno) {
      flushed_ = marks_.front().index;
      flushed_bytes_ = marks_.front().bytes;
      marks_.pop_front();
    }
    unflushed_ -= flushed_bytes_;
    for (Mark& mark : marks_) {
      mark.bytes -= flushed_bytes_;
    }
    flushed_bytes_ = 0;
  }
  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) override {
    Fail(Convert(*error, "background work"));
  }

 private:
  static const rocksdb::Snapshot* Unwrap(const Snapshot* snapshot) {
    return snapshot != nullptr ? static_cast<const RocksSnapshot*>(snapshot)->get() : nullptr;
  }
  void Fail(const Status& status) {
    if (!failed_.exchange(true) && options_.on_error) {
      options_.on_error(status);
    }
  }
  struct Mark {
    rocksdb::SequenceNumber sequence;
    Index index;
    uint64_t bytes;
  };
  const RocksOptions options_;
  std::unique_ptr<rocksdb::DB> db_;
  std::atomic<bool> failed_{false};
  mutable Mutex mu_;
  AppliedMark applied_ ABSL_GUARDED_BY(mu_);
  Index flushed_ ABSL_GUARDED_BY(mu_);
  uint64_t unflushed_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t flushed_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Mark> marks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

StatusOr<std::unique_ptr<Backend>> OpenRocks(const std::string& dir, RocksOptions options) {
  auto rocks = std::make_unique<Rocks>(std::move(options));
  MS_RETURN_IF_ERROR(rocks->Open(dir));
  return rocks;
}

}  // namespace mainstay::backend
