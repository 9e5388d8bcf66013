// The inside of Store, shared by the files that implement it.
#pragma once

#include <deque>
#include <map>

#include "common/mutex.h"
#include "mvcc/rows.h"
#include "mvcc/store.h"
#include "mvcc/version.h"

namespace mainstay::mvcc {

// Bytes that etcd's page layout takes for one pair beside key and value.
inline constexpr int64_t kElementBytes = 16;
inline int64_t RowBytes(const VersionInfo& v) {
  return (v.tombstone ? 18 : 17) + static_cast<int64_t>(v.bytes) + kElementBytes;
}

struct Store::Impl {
  Impl(backend::Backend& b, Options o)
      : backend(b),
        options(o),
        shared(std::make_shared<Shared>(b, o.record_cache_bytes)),
        tree(nullptr) {}

  // ---- one write transaction: changes share a main revision, taken at the first change
  struct Txn {
    int64_t main = 0;  // 0: nothing changed yet
    int64_t sub = 0;
    uint64_t record_bytes = 0;  // what its ranges and deletes found
  };
  int64_t Seen(const Txn& txn) const { return txn.main != 0 ? txn.main : revision; }
  Revision NextRevision(Txn* txn);
  void Finish(Txn* txn);

  void PutKey(
      Txn* txn, std::string_view key, std::string_view value, LeaseId lease, WriteContext& context);
  void DeleteKey(Txn* txn, const KeyRecord* record, WriteContext& context);
  // Replaces or inserts the key's record with one more version on top, and writes its rows.
  void Push(const KeyRecord* old,
            std::string_view key,
            VersionInfo version,
            Buffer record,
            WriteContext& context);

  ErrorOr<PutResult> PutIn(Txn* txn, const PutRequest& request, WriteContext& context);
  DeleteResult DeleteRangeIn(Txn* txn, const DeleteRangeRequest& request, WriteContext& context);
  RangeResult RangeOfTxn(Txn* txn, const RangeRequest& request);
  RangeResult RangeIn(const Txn& txn, const RangeRequest& request);

  // txn.cc
  bool Holds(const Compare& compare);
  bool HoldsFor(const Compare& compare, const KeyRecord* record);
  struct Path;  // the outcome of every compare on the way
  bool Evaluate(const TxnRequest& request, Path* path);
  Error Validate(const TxnRequest& request, const Path& path, const WriteContext& context);
  void Execute(
      Txn* txn, const TxnRequest& request, const Path& path, WriteContext& context, TxnResult* out);

  // Records of the running batch are not in the backend yet.
  Buffer Record(std::string_view key, const VersionInfo& version);
  std::vector<const KeyRecord*> LiveRecords(KeyRange range) const;

  // compaction.cc
  void CompactKey(std::string_view key, int64_t at, backend::WriteBatch& batch, size_t* removed);

  backend::Backend& backend;
  const Options options;
  std::shared_ptr<const Shared> shared;

  // Owned by "apply".
  TreeEditor tree;
  Garbage garbage;
  int64_t revision = 1;
  int64_t compact_revision = -1;
  int64_t logical_bytes = 0;
  BufferArena arena;
  std::map<std::pair<int64_t, int64_t>, Buffer> batch_records;
  std::vector<EventBatch> events;
  Counts counts;
  int64_t rows_removed = 0;

  // Compaction: done up to `finished`; the present job goes to `job_to` and stands at `job_at`.
  int64_t finished = -1;
  int64_t job_to = -1;
  std::string job_at;
  std::weak_ptr<const Version_> gate;  // the last version of before the newest Compact()

  mutable Mutex mu;
  std::shared_ptr<Version_> current ABSL_GUARDED_BY(mu);
};

// view.cc: what a range request selects from a version.
struct Selection {
  struct Item {
    const KeyRecord* key;
    const VersionInfo* version;
  };
  std::vector<Item> items;
  int64_t count = 0;
  bool more = false;
};
using RecordReader = std::function<StatusOr<Buffer>(std::string_view key, const VersionInfo&)>;
// REQUIRES: the revision was checked. `at` as in the request (<= 0: newest).
StatusOr<Selection> Select(const Version_& version,
                           const RangeRequest& request,
                           const RecordReader& read);
// The record as the request wants it: whole, or without value (and lease: etcd 3.7 answers from its
// index).
Buffer WithoutValue(const Selection::Item& item, const RangeRequest& request);

}  // namespace mainstay::mvcc
