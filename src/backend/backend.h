// Backend: an ordered key-value engine without a redo log of its own. The Raft log is the redo log:
// each batch carries the applied index, and after a crash replay goes on from the index that was
// flushed.
//
// Role        Written by server::Applier; read through mvcc. The only folder that knows RocksDB.
// Invariants  I1 a batch is applied whole or not at all.  I2 flushed_applied_index() <=
// applied().index.
//             I3 after a crash the content is that of some batch boundary at or after
//             flushed_applied_index().
// Threads     Write(): "apply". Everything else: any.
// Ownership   Snapshots and iterators must not outlive the backend.
// Errors      A failed write or background error is final: the owner stops this member. DataLoss
// when a checksum fails. Sources     docs/on-disk-format.md for the keys.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/types.h"

namespace mainstay::backend {

// Changes that take effect together, in order; a later change of a key wins.
class WriteBatch {
 public:
  void Put(std::string_view key, std::string_view value);
  void Delete(std::string_view key);
  void Clear();
  size_t count() const { return changes_.size(); }
  size_t bytes() const { return data_.size(); }
  bool empty() const { return changes_.empty(); }
  struct Change {
    bool is_delete;
    std::string_view key, value;
  };
  // Valid until the batch changes.
  Change at(size_t i) const;

 private:
  struct Span {
    size_t offset;
    uint32_t key_bytes;
    uint32_t value_bytes;
    bool is_delete;
  };
  std::vector<Span> changes_;
  std::string data_;
};

// Rows of the state space (first byte 's'): etcd's buckets beside `key`, with etcd's keys and
// values.
std::string StateKey(std::string_view bucket, std::string_view key);
void PutRow(WriteBatch& batch,
            std::string_view bucket,
            std::string_view key,
            std::string_view value);
void DeleteRow(WriteBatch& batch, std::string_view bucket, std::string_view key);

struct AppliedMark {
  Index index;
  Term term;
  friend bool operator==(const AppliedMark&, const AppliedMark&) = default;
};

class Snapshot {
 public:
  virtual ~Snapshot() = default;
};

class Iterator {
 public:
  virtual ~Iterator() = default;
  virtual bool Valid() const = 0;
  virtual void Seek(std::string_view key) = 0;
  virtual void Next() = 0;
  // Valid until the next move.
  virtual std::string_view key() const = 0;
  virtual std::string_view value() const = 0;
  virtual Status status() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Status Write(const WriteBatch& batch, AppliedMark mark) = 0;
  // Of the last Write(), or found at open; {0, 0} in a new store.
  virtual AppliedMark applied() const = 0;
  virtual Index flushed_applied_index() const = 0;
  // Starts a flush of what is in memory; flushed_applied_index() moves when it is done.
  virtual void RequestFlush() = 0;
  // Flushes and waits. At an orderly stop.
  virtual Status Flush() = 0;
  virtual uint64_t unflushed_bytes() const = 0;

  virtual std::shared_ptr<const Snapshot> NewSnapshot() const = 0;
  // `snapshot` null: the newest content. False: no such key.
  virtual StatusOr<bool> Get(const Snapshot* snapshot,
                             std::string_view key,
                             std::string* value) const = 0;
  // Keys in [lower, upper), positioned at the first. Borrows the snapshot.
  virtual std::unique_ptr<Iterator> NewIterator(const Snapshot* snapshot,
                                                std::string_view lower,
                                                std::string_view upper) const = 0;
  // What the files take on disk.
  virtual uint64_t FilesBytes() const = 0;
  // A consistent copy in a new directory, hard links where possible.
  virtual Status Checkpoint(const std::string& dir) = 0;
  // Gives space of deleted data back; may take long. bg-N.
  virtual Status CompactAll() = 0;
};

// All rows of a bucket, in key order: (key, value).
Status ForEachRow(const Backend& backend,
                  const Snapshot* snapshot,
                  std::string_view bucket,
                  const std::function<Status(std::string_view, std::string_view)>& row);

struct RocksOptions {
  size_t block_cache_bytes = 64 << 20;
  size_t memtable_bytes = 8 << 20;
  bool unsafe_no_fsync = false;
  // Called at most once, on any thread, when the engine cannot go on.
  std::function<void(const Status&)> on_error;
};
// Opens or creates the store in `dir`, whose parent exists.
StatusOr<std::unique_ptr<Backend>> OpenRocks(const std::string& dir, RocksOptions options);

// In memory, for tests and the simulator; models what a crash leaves.
class MemoryBackend : public Backend {
 public:
  // What a crash now would leave: the content as of the last flush, in a new backend.
  virtual std::unique_ptr<MemoryBackend> AfterCrash() const = 0;
};
std::unique_ptr<MemoryBackend> NewMemoryBackend();

}  // namespace mainstay::backend
