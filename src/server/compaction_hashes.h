// What the store hashed to when each of the newest compactions began: HashKV at such a revision is
// answered from here, as etcd does, so that members which compacted at different moments can still
// be compared.
//
// Role        Filled by a job after each compaction that the applier starts; asked by
// Member::HashKv(). Invariants  Holds the newest kKept compactions by revision. Of one process:
// gone after a restart, as etcd's. Threads     Any.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/mutex.h"
#include "mvcc/store.h"

namespace mainstay::server {

class CompactionHashes {
 public:
  static constexpr size_t kKept = 10;

  void Store(const mvcc::ReadView::KvHash& hash) {
    MutexLock lock(mu_);
    hashes_[hash.hash_revision] = hash;
    if (hashes_.size() > kKept) {
      hashes_.erase(hashes_.begin());
    }
  }
  std::optional<mvcc::ReadView::KvHash> Find(int64_t revision) const {
    MutexLock lock(mu_);
    const auto it = hashes_.find(revision);
    return it == hashes_.end() ? std::nullopt : std::optional(it->second);
  }

 private:
  mutable Mutex mu_;
  std::map<int64_t, mvcc::ReadView::KvHash> hashes_ ABSL_GUARDED_BY(mu_);
};

// A compaction that has been applied and published. `before` is of the state before it: while it is
// held no row goes.
struct CompactionBegun {
  int64_t revision = 0;
  int64_t previous = -1;  // the watermark until then
  mvcc::ReadView before;
  mvcc::ReadView after;
};

}  // namespace mainstay::server
