// mvcc::Store: every kept version of every key. An ordered, counted index in memory; records in the
// backend.
//
// Role        Fed by server::Applier; read through ReadView; hands an EventBatch per revision to
// the watch hub. Invariants  I1 revision() only grows, by one per write that changed something.  I2
// compacted <= revision.
//             I3 every live key has exactly one newest version, the same in the index and in the
//             backend. I4 what apply does depends on the requests and the state before them only.
// Threads     "apply": everything that changes. View() and ReadViews: any.
// Ownership   Owns the index. Borrows the Backend, which outlives it and every view.
// Errors      Error values for clients; Status for a broken store. CHECK-fails on I1-I3.
// Sources     docs/on-disk-format.md for the rows; etcd's grpc-api pages for behaviour.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "common/buffer.h"
#include "common/error.h"
#include "common/status.h"
#include "common/types.h"
#include "mvcc/event.h"
#include "mvcc/request.h"

namespace mainstay::mvcc {

struct Version_;

// Reads one range in bounded pieces. Its answer's length is known before any value is read. Not
// thread-safe; may touch the disk. Keeps its view alive.
class RangeCursor {
 public:
  ~RangeCursor();
  RangeCursor(RangeCursor&&) noexcept;
  RangeCursor& operator=(RangeCursor&&) noexcept;
  int64_t count() const { return count_; }
  bool more() const { return more_; }
  int64_t revision() const { return revision_; }
  size_t kv_count() const;
  // Bytes of all records as `repeated KeyValue kvs = 2` of a RangeResponse.
  uint64_t encoded_bytes() const { return encoded_bytes_; }
  bool done() const;
  // Appends records, framed as field 2, until `bytes_max` is reached or all are out; at least one a
  // call.
  Status Read(size_t bytes_max, BufferChain* out);
  // The next record alone, unframed. REQUIRES: !done().
  StatusOr<Buffer> ReadOne();

 private:
  friend class ReadView;
  struct State;
  RangeCursor();
  std::unique_ptr<State> state_;
  int64_t count_ = 0;
  bool more_ = false;
  int64_t revision_ = 0;
  uint64_t encoded_bytes_ = 0;
};

// One consistent state, cheap to take and to copy. Hold it shortly: it delays the physical part of
// compaction.
class ReadView {
 public:
  ReadView() = default;  // of nothing; only assignable
  int64_t revision() const;
  // -1: never compacted. Reading at it works, below it does not.
  int64_t compact_revision() const;

  // kFutureRev, kCompacted, or kOk. `at` <= 0 = the newest.
  Error CheckRevision(int64_t at) const;
  // True if the answer can be given from memory in a few microseconds: a loop may call Range()
  // itself.
  bool AnswersWithoutDisk(const RangeRequest& request) const;
  // REQUIRES: CheckRange(request) == kOk. Status: the store is broken.
  StatusOr<ErrorOr<RangeResult>> Range(const RangeRequest& request) const;
  StatusOr<ErrorOr<RangeCursor>> OpenRange(const RangeRequest& request) const;
  // Live keys in the range at the newest revision. O(log n).
  int64_t Count(KeyRange range) const;
  // The record of `key` as of revision `at`; empty if there was none.
  StatusOr<Buffer> Get(std::string_view key, int64_t at) const;

  struct History {
    std::vector<EventBatch> batches;
    int64_t last_revision = 0;  // everything from the start to here is in
  };
  // Events of [from, to], whole revisions, until `bytes_max` of records or `revisions_max`
  // revisions are in; at least one revision. kCompacted if `from` < compact_revision(). With
  // prev_kv each event that is no creation carries its predecessor, or kCompacted is answered when
  // that is gone.
  StatusOr<ErrorOr<History>> ReadHistory(
      int64_t from, int64_t to, size_t bytes_max, size_t revisions_max, bool prev_kv) const;

  // etcd's HashKV at `at` (0: newest). O(records). bg-N.
  struct KvHash {
    uint32_t hash = 0;
    int64_t compact_revision = 0;
    int64_t hash_revision = 0;
  };
  StatusOr<ErrorOr<KvHash>> HashKv(int64_t at) const;
  // What HashKv(at) would have answered with `compacted` as the watermark. REQUIRES: the removal of
  // rows for a later watermark has not begun, which holding a view of before it ensures;
  // CheckRevision(at) == kOk.
  StatusOr<KvHash> HashKvWith(int64_t at, int64_t compacted) const;
  // Maintenance.Hash: the ten buckets in etcd's layout. bg-N.
  StatusOr<uint32_t> HashAll() const;

  // The `key` bucket of an etcd snapshot, in order: 17/18-byte revision key and record bytes. Only
  // what a finished compaction would have kept.
  Status ForEachRevision(
      const std::function<Status(std::string_view rev_key, std::string_view record)>& row) const;

 private:
  friend class Store;
  friend class RangeCursor;
  explicit ReadView(std::shared_ptr<const Version_> version) : version_(std::move(version)) {}
  std::shared_ptr<const Version_> version_;
};

class LeaseLookup {
 public:
  virtual ~LeaseLookup() = default;
  virtual bool Exists(LeaseId id) const = 0;
};

// A key that changed its lease; 0 = none. Told to the lessor by the applier, in order.
struct LeaseChange {
  std::string key;
  LeaseId from, to;
};

struct WriteContext {
  backend::WriteBatch& batch;
  const LeaseLookup& leases;
  std::vector<LeaseChange>& lease_changes;
};

class Store {
 public:
  struct Options {
    size_t record_cache_bytes = 32 << 20;
    // Compaction: rows removed in one step (--compaction-batch-limit).
    size_t compaction_batch = 1000;
    // TxnResult::record_bytes at which a txn's further ranges only count.
    uint64_t txn_answer_bytes_max = INT32_MAX;
  };
  // Loads the index from the backend. Errors: DataLoss for rows that make no sense.
  static StatusOr<std::unique_ptr<Store>> Open(backend::Backend& backend, Options options);
  ~Store();

  // ---- apply. Each sees what earlier calls of the batch did; nothing is visible to readers before
  // Publish().
  ErrorOr<PutResult> Put(const PutRequest& request, WriteContext& context);
  DeleteResult DeleteRange(const DeleteRangeRequest& request, WriteContext& context);
  ErrorOr<TxnResult> Txn(const TxnRequest& request, WriteContext& context);
  // For a revoked lease. `keys` ascending. One revision, or none if no key is there.
  int64_t DeleteKeys(const std::vector<std::string>& keys, WriteContext& context);
  // Moves the watermark at once. kCompacted, kFutureRev, or kOk; the rows go in steps.
  Error Compact(int64_t revision, backend::WriteBatch& batch);
  // True while superseded rows of compactions wait to be removed.
  bool compacting() const;
  // One step of the removal: puts deletes of at most Options::compaction_batch rows into the batch.
  // False if nothing can be done now (nothing to do, or a view of the time before still lives).
  bool CompactSome(backend::WriteBatch& batch);
  // Called after the batch is in the backend: readers see it from now on. Returns the events of the
  // batch's revisions. `before_visible` gets them first, so that a watch hub knows of a revision
  // before anybody can read it.
  void Publish(const std::function<void(std::vector<EventBatch>&&)>& before_visible);

  // Operations since the last call, those inside transactions included; "apply" only. For metrics.
  struct Counts {
    int64_t ranges = 0, puts = 0, deletes = 0;
    int64_t put_bytes = 0;  // keys and values
    int64_t total() const { return ranges + puts + deletes; }
  };
  Counts TakeCounts();
  // Rows that compactions have removed since the start; "apply" only.
  int64_t rows_removed() const;

  // The state including the running batch; "apply" only.
  int64_t revision() const;
  int64_t compact_revision() const;
  // The exact logical size: bytes of all retained rows in etcd's layout. "apply" only.
  int64_t logical_bytes() const;
  int64_t key_count() const;

  // ---- any thread
  ReadView View() const;
  // Logical size as of the last Publish().
  int64_t published_logical_bytes() const;
  // How many hold the newest state now, the store itself included.
  int64_t open_views() const;

  // Every live key with a lease, for the lessor's start.
  void ForEachLeasedKey(
      const std::function<void(std::string_view key, LeaseId lease)>& visit) const;

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainstay::mvcc
