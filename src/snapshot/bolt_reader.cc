#include "snapshot/bolt_reader.h"

#include <algorithm>

#include "fmt/format.h"

#include "common/coding.h"
#include "snapshot/bolt_format.h"

namespace mainstay::snapshot {
namespace {

Status Damaged(const std::string& where, std::string_view what) {
  return DataLoss(fmt::format("bbolt: {}: {}", where, what));
}

std::string PageName(uint64_t id) {
  return fmt::format("page {}", id);
}

}  // namespace

std::optional<BoltReader::Meta> BoltReader::ReadMeta(const File& file, uint64_t offset) {
  std::string bytes;
  if (!file.ReadAt(offset, kHeaderBytes + kMetaBytes, &bytes).ok() ||
      bytes.size() != kHeaderBytes + kMetaBytes) {
    return std::nullopt;
  }
  const char* meta = bytes.data() + kHeaderBytes;
  Meta out;
  out.page_bytes = LoadLE<uint32_t>(meta + 8);
  out.root = LoadLE<uint64_t>(meta + 16);
  out.high_water = LoadLE<uint64_t>(meta + 40);
  out.txid = LoadLE<uint64_t>(meta + 48);
  const bool right = LoadLE<uint16_t>(bytes.data() + 8) == kMetaPage &&
                     LoadLE<uint32_t>(meta) == kMagic &&
                     LoadLE<uint32_t>(meta + 4) == kFormatVersion &&
                     LoadLE<uint64_t>(meta + 56) == Fnv1a(std::string_view(meta, 56)) &&
                     out.page_bytes >= kPageBytesMin && out.page_bytes <= kPageBytesMax &&
                     (out.page_bytes & (out.page_bytes - 1)) == 0;
  return right ? std::optional(out) : std::nullopt;
}

StatusOr<BoltReader> BoltReader::Open(const File& file) {
  MS_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
  std::optional<Meta> newest = ReadMeta(file, 0);
  // Without a first meta page its size is not known: the second one stands at one page, whatever
  // that is.
  for (uint64_t at = kPageBytesMin; at <= kPageBytesMax; at *= 2) {
    const std::optional<Meta> second = ReadMeta(file, at);
    if (second && second->page_bytes == at && (!newest || newest->page_bytes == at) &&
        (!newest || second->txid > newest->txid)) {
      newest = second;
    }
  }
  if (!newest) {
    return InvalidArgument("bbolt: invalid database");
  }
  if (newest->high_water < 3 || newest->high_water > size / newest->page_bytes) {
    return DataLoss(fmt::format("bbolt: the file has {} bytes, {} pages of {} are in use", size,
                                newest->high_water, newest->page_bytes));
  }
  return BoltReader(file, *newest);
}

StatusOr<std::string> BoltReader::ReadPage(uint64_t id) {
  const std::string where = PageName(id);
  if (id < 2 || id >= high_water_) {
    return Damaged(where, "out of the file's bounds");
  }
  std::string page;
  MS_RETURN_IF_ERROR(file_->ReadAt(id * page_bytes_, page_bytes_, &page));
  if (page.size() != page_bytes_) {
    return Damaged(where, "cut short");
  }
  if (LoadLE<uint64_t>(page.data()) != id) {
    return Damaged(where, fmt::format("calls itself {}", LoadLE<uint64_t>(page.data())));
  }
  const uint64_t overflow = LoadLE<uint32_t>(page.data() + 12);
  if (overflow >= high_water_ - id) {
    return Damaged(where, "its overflow leaves the file's bounds");
  }
  for (uint64_t at = id; at <= id + overflow; ++at) {
    if (used_[at]) {
      return Damaged(PageName(at), "used twice");
    }
    used_[at] = true;
  }
  if (overflow > 0) {
    const uint64_t length = page_bytes_ * (1 + overflow);
    MS_RETURN_IF_ERROR(file_->ReadAt(id * page_bytes_, length, &page));
    if (page.size() != length) {
      return Damaged(where, "cut short");
    }
  }
  return page;
}

// Both kinds of page have elements of 16 bytes behind the header; keys (and values) stand behind
// them.
Status BoltReader::Elements(std::string_view page,
                            const std::string& where,
                            bool branch,
                            const ElementVisitor& visit) {
  const size_t count = LoadLE<uint16_t>(page.data() + 10);
  if (count > (page.size() - kHeaderBytes) / kElementBytes) {
    return Damaged(where, "more elements than it has room for");
  }
  std::optional<std::string_view> before;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = kHeaderBytes + i * kElementBytes;
    const char* raw = page.data() + at;
    Element element;
    uint64_t begin = 0;
    uint64_t key_bytes = 0;
    uint64_t value_bytes = 0;
    if (branch) {
      begin = at + LoadLE<uint32_t>(raw);
      key_bytes = LoadLE<uint32_t>(raw + 4);
      element.child = LoadLE<uint64_t>(raw + 8);
    } else {
      element.flags = LoadLE<uint32_t>(raw);
      begin = at + LoadLE<uint32_t>(raw + 4);
      key_bytes = LoadLE<uint32_t>(raw + 8);
      value_bytes = LoadLE<uint32_t>(raw + 12);
    }
    if (begin + key_bytes + value_bytes > page.size()) {
      return Damaged(where, fmt::format("element {} leaves it", i));
    }
    element.key = page.substr(begin, key_bytes);
    element.value = page.substr(begin + key_bytes, value_bytes);
    if (before && *before >= element.key) {
      return Damaged(where, fmt::format("key {} is not behind the one before", i));
    }
    before = element.key;
    MS_RETURN_IF_ERROR(visit(element));
  }
  return absl::OkStatus();
}

Status BoltReader::WalkTree(uint64_t id,
                            int depth,
                            const Bounds& bounds,
                            const ElementVisitor& leaf) {
  const std::string where = PageName(id);
  if (depth > kDepthMax) {
    return Damaged(where, "the tree is too deep");
  }
  MS_ASSIGN_OR_RETURN(const std::string page, ReadPage(id));
  const uint16_t flags = LoadLE<uint16_t>(page.data() + 8);
  if (flags != kBranchPage && flags != kLeafPage) {
    return Damaged(where, fmt::format("neither branch nor leaf: flags {:#x}", flags));
  }
  const auto in_bounds = [&](std::string_view key) {
    return (!bounds.low || key >= *bounds.low) && (!bounds.high || key < *bounds.high);
  };
  if (flags == kLeafPage) {
    return Elements(page, where, false, [&](const Element& element) {
      return in_bounds(element.key) ? leaf(element)
                                    : Damaged(where, "a key is out of its parent's bounds");
    });
  }
  std::vector<Element> children;
  MS_RETURN_IF_ERROR(Elements(page, where, true, [&](const Element& element) {
    children.push_back(element);
    return in_bounds(element.key) ? absl::OkStatus()
                                  : Damaged(where, "a key is out of its parent's bounds");
  }));
  if (children.empty()) {
    return Damaged(where, "a branch without children");
  }
  for (size_t i = 0; i < children.size(); ++i) {
    Bounds below;
    below.low = std::string(children[i].key);
    below.high =
        i + 1 < children.size() ? std::optional(std::string(children[i + 1].key)) : bounds.high;
    MS_RETURN_IF_ERROR(WalkTree(children[i].child, depth + 1, below, leaf));
  }
  return absl::OkStatus();
}

Status BoltReader::WalkBucket(const Element& element,
                              const BucketVisitor& bucket,
                              const PairVisitor& pair) {
  const std::string name(element.key);
  const std::string where = fmt::format("bucket \"{}\"", name);
  if (element.flags != kBucketElement || element.value.size() < kBucketHeaderBytes) {
    return Damaged(where, "not a bucket");
  }
  MS_RETURN_IF_ERROR(bucket(name));
  const ElementVisitor leaf = [&](const Element& e) {
    return e.flags == 0 ? pair(name, e.key, e.value) : Damaged(where, "a bucket inside of it");
  };
  const uint64_t root = LoadLE<uint64_t>(element.value.data());
  if (root != 0) {
    return WalkTree(root, 0, {}, leaf);
  }
  // Its one page stands in the element.
  const std::string_view page = element.value.substr(kBucketHeaderBytes);
  if (page.size() < kHeaderBytes || LoadLE<uint16_t>(page.data() + 8) != kLeafPage) {
    return Damaged(where, "its inline page is no leaf");
  }
  return Elements(page, where, false, leaf);
}

Status BoltReader::Walk(const BucketVisitor& bucket, const PairVisitor& pair) {
  used_.assign(high_water_, false);
  return WalkTree(root_, 0, {},
                  [&](const Element& element) { return WalkBucket(element, bucket, pair); });
}

}  // namespace mainstay::snapshot
