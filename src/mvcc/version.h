// A published state of the store, and how long what it uses must live.
//
// A version keeps its successor alive. So while a view of version v lives, v and all later versions
// do; what the step from v to v+1 replaced is used by v and earlier ones only and is freed with v,
// after every earlier version has gone.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "mvcc/record_cache.h"
#include "mvcc/tree.h"

namespace mainstay::mvcc {

// What every version of one store shares.
struct Shared {
  explicit Shared(backend::Backend& b, size_t cache_bytes) : backend(b), cache(cache_bytes) {}
  backend::Backend& backend;
  mutable RecordCache cache;
};

struct Version_ {
  std::shared_ptr<const Shared> shared;
  const Node* root = nullptr;
  int64_t revision = 1;
  int64_t compact_revision = -1;
  int64_t logical_bytes = 0;

  // Written once, by the apply thread, when the next version is published.
  std::shared_ptr<Version_> next;
  Garbage replaced;

  // One by one: a long chain of versions that nobody else holds must not recurse. Whether a
  // successor dies is left to its own count; one that does hands its successor to the loop.
  ~Version_() {
    static thread_local std::shared_ptr<Version_>* following = nullptr;
    if (following != nullptr) {
      *following = std::move(next);
      return;
    }
    std::shared_ptr<Version_> pending = std::move(next);
    following = &pending;
    while (pending != nullptr) {
      const std::shared_ptr<Version_> at = std::move(pending);
    }
    following = nullptr;
  }
};

// The record of one version of a key: from the cache or the backend. Empty result: DataLoss.
StatusOr<Buffer> FetchRecord(const Shared& shared,
                             std::string_view key,
                             const VersionInfo& version);

}  // namespace mainstay::mvcc
