// BoltWriter: writes a bbolt database image from buckets whose pairs come in key order.
//
// Role        The codec of etcd's snapshot files; knows pages, not what is in them.
// Invariants  The image is a function of the pairs alone: equal content, equal bytes. It passes
// bbolt's own checker. Threads     One. Limits      Memory: one leaf page and a first key per page
// already written. Sources     docs/on-disk-format.md, "Snapshot file".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "env/file_system.h"

namespace mainstay::snapshot {

inline constexpr size_t kPageBytes = 4096;

class BoltWriter {
 public:
  // Writes into `file`, which is empty.
  explicit BoltWriter(File& file) : file_(file) {}
  // Buckets in bytewise order of their names, each once.
  void BeginBucket(std::string_view name);
  // Keys ascending, not empty.
  Status Add(std::string_view key, std::string_view value);
  Status EndBucket();
  // Root and meta pages. The image is complete when this returned OK; it is not synced.
  Status Finish();
  // REQUIRES: Finish() was called.
  uint64_t image_bytes() const { return next_page_ * kPageBytes; }

 private:
  struct Pair {
    std::string key, value;
  };
  struct Child {
    std::string first;
    uint64_t page;
  };
  Status FlushLeaf(uint32_t element_flags);
  StatusOr<uint64_t> BuildTree(std::vector<Child> level);
  Status WritePage(uint16_t flags, size_t count, std::string_view elements_and_data);

  File& file_;
  uint64_t next_page_ = 2;
  std::string bucket_;
  std::vector<Pair> group_;
  size_t group_bytes_ = 16;
  std::vector<Child> leaves_;
  std::vector<Pair> buckets_;  // name and bucket header, for the root
};

}  // namespace mainstay::snapshot
