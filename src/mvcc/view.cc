#include <algorithm>

#include "common/check.h"
#include "common/coding.h"
#include "mvcc/store_impl.h"

namespace mainstay::mvcc {
namespace {

// Records that a loop may look up by itself.
constexpr int64_t kInlineRecordsMax = 64;

using Item = Selection::Item;

bool Keep(const RangeRequest& r, const VersionInfo& v) {
  return !(r.max_mod_revision != 0 && v.mod > r.max_mod_revision) &&
         !(r.min_mod_revision != 0 && v.mod < r.min_mod_revision) &&
         !(r.max_create_revision != 0 && v.create > r.max_create_revision) &&
         !(r.min_create_revision != 0 && v.create < r.min_create_revision);
}

template <class F>
void SortBy(std::vector<Item>* items, bool descend, F field) {
  std::stable_sort(items->begin(), items->end(), [&](const Item& a, const Item& b) {
    return descend ? field(b) < field(a) : field(a) < field(b);
  });
}

Status SortItems(const RangeRequest& request, const RecordReader& read, std::vector<Item>* items) {
  const bool descend = request.sort_order == SortOrder::kDescend;
  switch (request.sort_target) {
    case SortTarget::kKey:
      if (descend) {
        std::reverse(items->begin(), items->end());
      }
      break;
    case SortTarget::kVersion:
      SortBy(items, descend, [](const Item& i) { return i.version->version; });
      break;
    case SortTarget::kCreate:
      SortBy(items, descend, [](const Item& i) { return i.version->create; });
      break;
    case SortTarget::kMod:
      SortBy(items, descend, [](const Item& i) { return i.version->mod; });
      break;
    case SortTarget::kValue: {
      struct Valued {
        Item item;
        Buffer record;
        std::string_view value;
      };
      std::vector<Valued> valued;
      valued.reserve(items->size());
      for (const Item& item : *items) {
        MS_ASSIGN_OR_RETURN(Buffer record, read(item.key->key(), *item.version));
        Record fields;
        if (!DecodeRecord(record.view(), &fields)) {
          return DataLoss("store: a record does not decode");
        }
        valued.push_back({item, std::move(record), fields.value});
      }
      std::stable_sort(valued.begin(), valued.end(), [&](const Valued& a, const Valued& b) {
        return descend ? b.value < a.value : a.value < b.value;
      });
      for (size_t i = 0; i < valued.size(); ++i) {
        (*items)[i] = valued[i].item;
      }
      break;
    }
  }
  return absl::OkStatus();
}

const VersionInfo* LiveAt(const KeyRecord* record, int64_t at) {
  const VersionInfo* v = record->At(at);
  return v != nullptr && !v->tombstone ? v : nullptr;
}

}  // namespace

StatusOr<Selection> Select(const Version_& version,
                           const RangeRequest& request,
                           const RecordReader& read) {
  Selection out;
  const KeyRange range{request.key, request.range_end};
  const bool newest = request.revision <= 0 || request.revision >= version.revision;
  const int64_t at = newest ? version.revision : request.revision;
  const bool whole = request.sorts() || request.has_filters();
  const size_t scan_max = request.count_only            ? 0
                          : whole || request.limit <= 0 ? SIZE_MAX
                                                        : static_cast<size_t>(request.limit) + 1;
  if (range.single()) {
    const KeyRecord* record = FindKey(version.root, request.key);
    if (const VersionInfo* v = record != nullptr ? LiveAt(record, at) : nullptr; v != nullptr) {
      out.count = 1;
      if (scan_max > 0) {
        out.items.push_back({record, v});
      }
    }
  } else {
    // At the newest revision the tree knows the count; at an older one the range is walked.
    bool counted = false;
    if (newest && (range.open_ended() || range.key < range.end)) {
      out.count =
          (range.open_ended() ? LiveTotal(version.root) : LiveBefore(version.root, range.end)) -
          LiveBefore(version.root, range.key);
      counted = true;
    }
    TreeCursor cursor(version.root);
    for (cursor.Seek(range.key); cursor.Valid() && !(counted && out.items.size() >= scan_max);
         cursor.Next()) {
      const KeyRecord* record = cursor.record();
      if (!range.open_ended() && record->key() >= range.end) {
        break;
      }
      const VersionInfo* v = LiveAt(record, at);
      if (v == nullptr) {
        continue;
      }
      out.count += counted ? 0 : 1;
      if (out.items.size() < scan_max) {
        out.items.push_back({record, v});
      }
    }
  }
  if (request.count_only) {
    return out;
  }
  if (request.has_filters()) {
    std::erase_if(out.items, [&](const Item& item) { return !Keep(request, *item.version); });
  }
  // A target without an order sorts upwards, but only what the limit let in: as etcd.
  if (request.sort_order != SortOrder::kNone || request.sort_target != SortTarget::kKey) {
    MS_RETURN_IF_ERROR(SortItems(request, read, &out.items));
  }
  if (request.limit > 0 && out.items.size() > static_cast<size_t>(request.limit)) {
    out.items.resize(static_cast<size_t>(request.limit));
    out.more = true;
  }
  return out;
}

Buffer WithoutValue(const Selection::Item& item, const RangeRequest& request) {
  // etcd 3.7 answers keys_only from its index, which knows no lease; sorted by value it reads the
  // records, which do.
  const VersionInfo& v = *item.version;
  const Record fields{
      item.key->key(), "",        v.create,
      v.mod,           v.version, LeaseId(request.sort_target == SortTarget::kValue ? v.lease : 0)};
  MutableBuffer out(EncodedSize(fields));
  EncodeRecord(fields, out.data());
  const size_t size = out.size();
  return std::move(out).Finish(size);
}

int64_t ReadView::revision() const {
  return version_->revision;
}
int64_t ReadView::compact_revision() const {
  return version_->compact_revision;
}

Error ReadView::CheckRevision(int64_t at) const {
  if (at <= 0) {
    return Error::kOk;
  }
  if (at > version_->revision) {
    return Error::kFutureRev;
  }
  return at < version_->compact_revision ? Error::kCompacted : Error::kOk;
}

bool ReadView::AnswersWithoutDisk(const RangeRequest& request) const {
  const bool newest = request.revision <= 0 || request.revision == version_->revision;
  const KeyRange range{request.key, request.range_end};
  if (request.count_only) {
    return newest || range.single();
  }
  if (request.sorts() || request.has_filters() || request.sort_target == SortTarget::kValue) {
    return false;
  }
  if (CheckRevision(request.revision) != Error::kOk) {
    return true;
  }
  const int64_t at = newest ? version_->revision : request.revision;
  if (range.single()) {
    const KeyRecord* record = FindKey(version_->root, request.key);
    const VersionInfo* v = record != nullptr ? LiveAt(record, at) : nullptr;
    return v == nullptr || request.keys_only || version_->shared->cache.Contains({v->mod, v->sub});
  }
  if (!newest) {
    return false;
  }
  int64_t seen = 0;
  TreeCursor cursor(version_->root);
  for (cursor.Seek(range.key); cursor.Valid(); cursor.Next()) {
    const KeyRecord* record = cursor.record();
    if (!range.open_ended() && record->key() >= range.end) {
      return true;
    }
    if (!record->live()) {
      continue;
    }
    if (request.limit > 0 && seen >= request.limit) {
      return true;
    }
    if (++seen > kInlineRecordsMax) {
      return false;
    }
    if (!request.keys_only &&
        !version_->shared->cache.Contains({record->newest.mod, record->newest.sub})) {
      return false;
    }
  }
  return true;
}

int64_t ReadView::Count(KeyRange range) const {
  if (range.single()) {
    const KeyRecord* record = FindKey(version_->root, range.key);
    return record != nullptr && record->live() ? 1 : 0;
  }
  if (!range.open_ended() && range.key >= range.end) {
    return 0;
  }
  return (range.open_ended() ? LiveTotal(version_->root) : LiveBefore(version_->root, range.end)) -
         LiveBefore(version_->root, range.key);
}

StatusOr<Buffer> ReadView::Get(std::string_view key, int64_t at) const {
  const KeyRecord* record = FindKey(version_->root, key);
  const VersionInfo* v = record != nullptr ? LiveAt(record, at) : nullptr;
  if (v == nullptr) {
    return Buffer();
  }
  return FetchRecord(*version_->shared, key, *v);
}

// ---- ranges
// -------------------------------------------------------------------------------------------------------

struct RangeCursor::State {
  std::shared_ptr<const Version_> version;
  RangeRequest request;
  std::string key, range_end;  // what the request's views pointed at may be gone
  std::vector<Item> items;
  size_t at = 0;
  std::unique_ptr<backend::Iterator>
      scan;  // over record rows, for runs of records that are not in the cache
};

RangeCursor::RangeCursor() : state_(std::make_unique<State>()) {}
RangeCursor::~RangeCursor() = default;
RangeCursor::RangeCursor(RangeCursor&&) noexcept = default;
RangeCursor& RangeCursor::operator=(RangeCursor&&) noexcept = default;
size_t RangeCursor::kv_count() const {
  return state_->items.size();
}
bool RangeCursor::done() const {
  return state_->at == state_->items.size();
}

StatusOr<Buffer> RangeCursor::ReadOne() {
  State& s = *state_;
  MS_CHECK(!done());
  const Item& item = s.items[s.at++];
  if (s.request.keys_only) {
    return WithoutValue(item, s.request);
  }
  const Revision revision{item.version->mod, item.version->sub};
  if (Buffer hit = s.version->shared->cache.Get(revision); !hit.empty()) {
    return hit;
  }
  // Neighbours in key order lie side by side: a few steps forward are cheaper than a search.
  const std::string row = RecordRowKey(item.key->key(), revision);
  if (s.scan == nullptr) {
    s.scan = s.version->shared->backend.NewIterator(nullptr, row, "l");
  }
  for (int step = 0; step < 4 && s.scan->Valid() && s.scan->key() < row; ++step) {
    s.scan->Next();
  }
  if (!s.scan->Valid() || s.scan->key() != row) {
    // Also for what was written after the iterator was made.
    return FetchRecord(*s.version->shared, item.key->key(), *item.version);
  }
  if (s.scan->value().size() != item.version->bytes) {
    return DataLoss("store: a record is cut");
  }
  return Buffer::Copy(s.scan->value());
}

Status RangeCursor::Read(size_t bytes_max, BufferChain* out) {
  size_t bytes = 0;
  while (!done() && (bytes == 0 || bytes < bytes_max)) {
    MS_ASSIGN_OR_RETURN(Buffer record, ReadOne());
    MutableBuffer head(2 * kVarintMax);
    const auto head_bytes =
        static_cast<size_t>(PutBytesHead(head.data(), 2, record.size()) - head.data());
    bytes += head_bytes + record.size();
    out->Append(std::move(head).Finish(head_bytes));
    out->Append(std::move(record));
  }
  return absl::OkStatus();
}

StatusOr<ErrorOr<RangeCursor>> ReadView::OpenRange(const RangeRequest& request) const {
  if (const Error error = CheckRevision(request.revision); error != Error::kOk) {
    return ErrorOr<RangeCursor>(error);
  }
  const RecordReader read = [this](std::string_view key, const VersionInfo& v) {
    return FetchRecord(*version_->shared, key, v);
  };
  MS_ASSIGN_OR_RETURN(Selection selection, Select(*version_, request, read));
  RangeCursor cursor;
  cursor.count_ = selection.count;
  cursor.more_ = selection.more;
  cursor.revision_ = version_->revision;
  for (const Item& item : selection.items) {
    const size_t size =
        request.keys_only ? WithoutValue(item, request).size() : item.version->bytes;
    cursor.encoded_bytes_ += 1 + VarintSize(size) + size;
  }
  cursor.state_->version = version_;
  cursor.state_->request = request;
  cursor.state_->request.key = {};
  cursor.state_->request.range_end = {};
  cursor.state_->items = std::move(selection.items);
  return ErrorOr<RangeCursor>(std::move(cursor));
}

StatusOr<ErrorOr<RangeResult>> ReadView::Range(const RangeRequest& request) const {
  MS_ASSIGN_OR_RETURN(ErrorOr<RangeCursor> opened, OpenRange(request));
  if (!opened.ok()) {
    return ErrorOr<RangeResult>(opened.error());
  }
  RangeCursor& cursor = *opened;
  RangeResult out;
  out.count = cursor.count();
  out.more = cursor.more();
  out.revision = cursor.revision();
  out.kvs.reserve(cursor.kv_count());
  while (!cursor.done()) {
    MS_ASSIGN_OR_RETURN(Buffer record, cursor.ReadOne());
    out.kvs.push_back(std::move(record));
  }
  return ErrorOr<RangeResult>(std::move(out));
}

// ---- history
// ------------------------------------------------------------------------------------------------------

namespace {

// The version of `record` at exactly `revision`; null if compaction has taken it.
const VersionInfo* Exactly(const KeyRecord* record, Revision revision) {
  const VersionInfo* v = record != nullptr ? &record->newest : nullptr;
  while (v != nullptr && Revision{v->mod, v->sub} > revision) {
    v = v->older;
  }
  return v != nullptr && v->mod == revision.main && v->sub == revision.sub ? v : nullptr;
}

}  // namespace

StatusOr<ErrorOr<ReadView::History>> ReadView::ReadHistory(
    int64_t from, int64_t to, size_t bytes_max, size_t revisions_max, bool prev_kv) const {
  if (from < version_->compact_revision) {
    return ErrorOr<History>(Error::kCompacted);
  }
  History out;
  const Shared& shared = *version_->shared;
  to = std::min(to, version_->revision);
  const auto scan =
      shared.backend.NewIterator(nullptr, RevisionRowLower(from), RevisionRowLower(to + 1));
  size_t bytes = 0;
  for (; scan->Valid(); scan->Next()) {
    const auto id = ParseRevisionRowKey(scan->key());
    const auto row = DecodeRevisionRow(scan->value());
    if (!id || !row) {
      return DataLoss("store: a revision row does not decode");
    }
    if (out.batches.empty() || out.batches.back().revision != id->revision.main) {
      if (!out.batches.empty() && (bytes >= bytes_max || out.batches.size() >= revisions_max)) {
        out.last_revision = id->revision.main - 1;
        return ErrorOr<History>(std::move(out));
      }
      out.batches.push_back({id->revision.main, {}});
    }
    const KeyRecord* record = FindKey(version_->root, row->user_key);
    const VersionInfo* v = Exactly(record, id->revision);
    if (v == nullptr) {
      continue;  // superseded at or below the watermark and waiting for its removal
    }
    Event event;
    event.type = id->tombstone ? Event::Type::kDelete : Event::Type::kPut;
    if (id->tombstone) {
      const Record told{.key = row->user_key, .mod_revision = id->revision.main};
      MutableBuffer encoded(EncodedSize(told));
      EncodeRecord(told, encoded.data());
      const size_t size = encoded.size();
      event.kv = std::move(encoded).Finish(size);
    } else {
      MS_ASSIGN_OR_RETURN(event.kv, FetchRecord(shared, row->user_key, *v));
    }
    Record inside;
    if (!DecodeRecord(event.kv.view(), &inside)) {
      return DataLoss("store: a record does not decode");
    }
    event.key = inside.key;
    event.is_create = !id->tombstone && v->version == 1;
    if (!event.is_create) {
      const VersionInfo* before = v->older;
      event.prev_revision = before != nullptr ? before->mod : 0;
      if (prev_kv && before != nullptr && !before->tombstone) {
        MS_ASSIGN_OR_RETURN(event.prev_kv, FetchRecord(shared, row->user_key, *before));
      } else if (prev_kv && id->revision.main > version_->compact_revision) {
        return ErrorOr<History>(Error::kCompacted);
      }
    }
    bytes += event.kv.size() + event.prev_kv.size();
    out.batches.back().events.push_back(std::move(event));
  }
  MS_RETURN_IF_ERROR(scan->status());
  std::erase_if(out.batches, [](const EventBatch& b) { return b.events.empty(); });
  out.last_revision = to;
  return ErrorOr<History>(std::move(out));
}

}  // namespace mainstay::mvcc
