// RecordCache: hot records in memory, bounded in bytes. A record never changes, so an entry is
// right for ever.
//
// Threads  Any. Sharded by revision; each shard has its own lock, held for a lookup or an insert.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "common/buffer.h"
#include "common/mutex.h"
#include "common/types.h"

namespace mainstay::mvcc {

class RecordCache {
 public:
  explicit RecordCache(size_t bytes_max) : shard_bytes_max_(bytes_max / kShards) {}
  // Empty if absent.
  Buffer Get(Revision revision);
  bool Contains(Revision revision);
  // `record` should own about its own size: a slice of a big block keeps the block.
  void Put(Revision revision, Buffer record);

 private:
  static constexpr size_t kShards = 16;
  struct Slot {
    Revision revision;
    Buffer record;
    bool used = false;  // since the hand passed last
  };
  struct Shard {
    Mutex mu;
    absl::flat_hash_map<std::pair<int64_t, int64_t>, uint32_t> index ABSL_GUARDED_BY(mu);
    std::vector<Slot> slots ABSL_GUARDED_BY(mu);
    std::vector<uint32_t> free ABSL_GUARDED_BY(mu);
    size_t hand ABSL_GUARDED_BY(mu) = 0;
    size_t bytes ABSL_GUARDED_BY(mu) = 0;
  };
  Shard& ShardOf(Revision revision) {
    return shards_[static_cast<size_t>(
        (static_cast<uint64_t>(revision.main) + static_cast<uint64_t>(revision.sub)) % kShards)];
  }
  static size_t Cost(const Buffer& record) { return record.size() + 96; }
  const size_t shard_bytes_max_;
  std::array<Shard, kShards> shards_;
};

}  // namespace mainstay::mvcc
