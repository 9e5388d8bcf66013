#include "snapshot/bolt_writer.h"

#include <algorithm>

#include "common/check.h"
#include "common/coding.h"
#include "snapshot/bolt_format.h"

namespace mainstay::snapshot {
namespace {

constexpr size_t kFill = kPageBytes * 9 / 10;
constexpr size_t kElementsMax = 65534;
constexpr size_t kInlineMax = kPageBytes / 4;

void Append16(std::string* to, uint16_t v) {
  char b[2];
  StoreLE(b, v);
  to->append(b, 2);
}
void Append32(std::string* to, uint32_t v) {
  char b[4];
  StoreLE(b, v);
  to->append(b, 4);
}
void Append64(std::string* to, uint64_t v) {
  char b[8];
  StoreLE(b, v);
  to->append(b, 8);
}

std::string PageHeader(uint64_t id, uint16_t flags, size_t count, size_t overflow) {
  std::string out;
  Append64(&out, id);
  Append16(&out, flags);
  Append16(&out, static_cast<uint16_t>(count));
  Append32(&out, static_cast<uint32_t>(overflow));
  return out;
}

}  // namespace

void BoltWriter::BeginBucket(std::string_view name) {
  MS_CHECK(buckets_.empty() || buckets_.back().key < name);
  bucket_ = name;
}

Status BoltWriter::Add(std::string_view key, std::string_view value) {
  MS_CHECK(!key.empty() && (group_.empty() || group_.back().key < key));
  const size_t size = kElementBytes + key.size() + value.size();
  if ((group_.size() >= 2 && group_bytes_ >= kFill) ||
      (!group_.empty() && group_bytes_ + size > kPageBytes) || group_.size() == kElementsMax) {
    MS_RETURN_IF_ERROR(FlushLeaf(0));
  }
  group_.push_back({std::string(key), std::string(value)});
  group_bytes_ += size;
  return absl::OkStatus();
}

namespace {

// Elements and data of a leaf, without the page header.
template <class Pairs>
std::string LeafBody(const Pairs& pairs, uint32_t element_flags) {
  std::string out;
  size_t data = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    Append32(&out, element_flags);
    Append32(&out, static_cast<uint32_t>(kElementBytes * (pairs.size() - i) + data));
    Append32(&out, static_cast<uint32_t>(pairs[i].key.size()));
    Append32(&out, static_cast<uint32_t>(pairs[i].value.size()));
    data += pairs[i].key.size() + pairs[i].value.size();
  }
  for (const auto& pair : pairs) {
    out += pair.key;
    out += pair.value;
  }
  return out;
}

}  // namespace

Status BoltWriter::WritePage(uint16_t flags, size_t count, std::string_view body) {
  const size_t pages = (kHeaderBytes + body.size() + kPageBytes - 1) / kPageBytes;
  std::string bytes = PageHeader(next_page_, flags, count, pages - 1);
  bytes += body;
  bytes.resize(pages * kPageBytes, '\0');
  MS_RETURN_IF_ERROR(file_.WriteAt(next_page_ * kPageBytes, bytes));
  next_page_ += pages;
  return absl::OkStatus();
}

Status BoltWriter::FlushLeaf(uint32_t element_flags) {
  leaves_.push_back({group_.front().key, next_page_});
  MS_RETURN_IF_ERROR(WritePage(kLeafPage, group_.size(), LeafBody(group_, element_flags)));
  group_.clear();
  group_bytes_ = kHeaderBytes;
  return absl::OkStatus();
}

StatusOr<uint64_t> BoltWriter::BuildTree(std::vector<Child> level) {
  while (level.size() > 1) {
    std::vector<Child> above;
    for (size_t at = 0; at < level.size();) {
      size_t end = at;
      size_t bytes = kHeaderBytes;
      while (end < level.size() && end - at < kElementsMax &&
             (end - at < 2 || bytes + kElementBytes + level[end].first.size() <= kFill)) {
        bytes += kElementBytes + level[end++].first.size();
      }
      if (level.size() - end == 1) {
        // A branch needs two children: the last one takes one over, or joins this page.
        end = end - at > 2 ? end - 1 : end + 1;
      }
      const size_t count = end - at;
      std::string body;
      size_t data = 0;
      for (size_t i = 0; i < count; ++i) {
        Append32(&body, static_cast<uint32_t>(kElementBytes * (count - i) + data));
        Append32(&body, static_cast<uint32_t>(level[at + i].first.size()));
        Append64(&body, level[at + i].page);
        data += level[at + i].first.size();
      }
      for (size_t i = 0; i < count; ++i) {
        body += level[at + i].first;
      }
      above.push_back({level[at].first, next_page_});
      MS_RETURN_IF_ERROR(WritePage(kBranchPage, count, body));
      at = end;
    }
    level = std::move(above);
  }
  return level[0].page;
}

Status BoltWriter::EndBucket() {
  std::string header;
  if (leaves_.empty() && group_bytes_ <= kInlineMax) {
    // Small enough to live in the root's leaf: root page 0, then a page image.
    Append64(&header, 0);
    Append64(&header, 0);
    header += PageHeader(0, kLeafPage, group_.size(), 0);
    header += LeafBody(group_, 0);
    group_.clear();
    group_bytes_ = kHeaderBytes;
  } else {
    if (!group_.empty()) {
      MS_RETURN_IF_ERROR(FlushLeaf(0));
    }
    MS_ASSIGN_OR_RETURN(const uint64_t root, BuildTree(std::exchange(leaves_, {})));
    Append64(&header, root);
    Append64(&header, 0);
  }
  buckets_.push_back({bucket_, std::move(header)});
  return absl::OkStatus();
}

Status BoltWriter::Finish() {
  for (Pair& bucket : buckets_) {
    const size_t size = kElementBytes + bucket.key.size() + bucket.value.size();
    if (!group_.empty() && group_bytes_ + size > kPageBytes) {
      MS_RETURN_IF_ERROR(FlushLeaf(kBucketElement));
    }
    group_.push_back(std::move(bucket));
    group_bytes_ += size;
  }
  MS_RETURN_IF_ERROR(FlushLeaf(kBucketElement));
  MS_ASSIGN_OR_RETURN(const uint64_t root, BuildTree(std::exchange(leaves_, {})));
  for (uint64_t id = 0; id < 2; ++id) {
    std::string page = PageHeader(id, kMetaPage, 0, 0);
    Append32(&page, kMagic);
    Append32(&page, kFormatVersion);
    Append32(&page, kPageBytes);
    Append32(&page, 0);
    Append64(&page, root);
    Append64(&page, 0);
    Append64(&page, kNoFreelist);
    Append64(&page, next_page_);
    Append64(&page, 1 - id);  // page 0 is the newer one
    Append64(&page, Fnv1a(std::string_view(page).substr(kHeaderBytes)));
    page.resize(kPageBytes, '\0');
    MS_RETURN_IF_ERROR(file_.WriteAt(id * kPageBytes, page));
  }
  return absl::OkStatus();
}

}  // namespace mainstay::snapshot
