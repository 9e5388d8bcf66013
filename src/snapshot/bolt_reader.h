// BoltReader: reads a bbolt database image, trusting nothing in it.
//
// Role        Under snapshot status, hashkv and restore; knows pages, not what is in them.
// Invariants  Walk() visits each page at most once: a cycle or a page used twice is an error, never
// a loop. Threads     One at a time. Borrows the file, which outlives it. Errors      DataLoss
// naming the page, for anything that bbolt's own checker would refuse; InvalidArgument for what is
//             no bbolt file at all.
// Limits      Memory: the pages from the root to the present leaf, each with its overflow; a bit
// per page. Depth:
//             kDepthMax. Page sizes 512 bytes to 16 MiB, as the meta page says.
// Sources     docs/on-disk-format.md, "Snapshot file".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "env/file_system.h"

namespace mainstay::snapshot {

class BoltReader {
 public:
  static constexpr int kDepthMax = 40;
  using BucketVisitor = std::function<Status(std::string_view bucket)>;
  using PairVisitor =
      std::function<Status(std::string_view bucket, std::string_view key, std::string_view value)>;

  static StatusOr<BoltReader> Open(const File& file);

  // Every bucket in order of its name, each followed by its pairs in key order; checks all pages on
  // the way. A bucket in a bucket is refused: etcd has none. Stops at the first error of a visitor
  // and returns it.
  Status Walk(const BucketVisitor& bucket, const PairVisitor& pair);

  uint64_t page_bytes() const { return page_bytes_; }
  // What the image takes of the file; behind it may stand a digest, or unused space.
  uint64_t image_bytes() const { return page_bytes_ * high_water_; }

 private:
  struct Meta {
    uint64_t page_bytes = 0, root = 0, high_water = 0, txid = 0;
  };
  // What the parent says of a page: its first key, and the first key of its right neighbour.
  struct Bounds {
    std::optional<std::string> low, high;
  };
  struct Element {
    uint32_t flags = 0;
    std::string_view key, value;
    uint64_t child = 0;
  };
  using ElementVisitor = std::function<Status(const Element&)>;

  BoltReader(const File& file, const Meta& meta)
      : file_(&file),
        page_bytes_(meta.page_bytes),
        root_(meta.root),
        high_water_(meta.high_water) {}
  static std::optional<Meta> ReadMeta(const File& file, uint64_t offset);
  StatusOr<std::string> ReadPage(uint64_t id);
  static Status Elements(std::string_view page,
                         const std::string& where,
                         bool branch,
                         const ElementVisitor& visit);
  Status WalkTree(uint64_t id, int depth, const Bounds& bounds, const ElementVisitor& leaf);
  Status WalkBucket(const Element& element, const BucketVisitor& bucket, const PairVisitor& pair);

  const File* file_;
  uint64_t page_bytes_;
  uint64_t root_;
  uint64_t high_water_;
  std::vector<bool> used_;
};

}  // namespace mainstay::snapshot
