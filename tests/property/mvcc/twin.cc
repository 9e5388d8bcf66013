#include "tests/property/mvcc/twin.h"

#include <algorithm>

#include "common/crc32c.h"

namespace mainstay::mvcc {
namespace {

bool In(KeyRange range, std::string_view key) {
  if (range.single()) {
    return key == range.key;
  }
  return key >= range.key && (range.open_ended() || key < range.end);
}

template <class T>
bool Judge(CompareResult wanted, const T& a, const T& b) {
  return wanted == CompareResult::kEqual     ? a == b
         : wanted == CompareResult::kGreater ? a > b
         : wanted == CompareResult::kLess    ? a < b
                                             : a != b;
}

template <class T>
int Order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

int OrderBy(SortTarget target, const TwinKv& a, const TwinKv& b) {
  switch (target) {
    case SortTarget::kVersion:
      return Order(a.version, b.version);
    case SortTarget::kCreate:
      return Order(a.create, b.create);
    case SortTarget::kMod:
      return Order(a.mod, b.mod);
    case SortTarget::kValue:
      return Order(a.value, b.value);
    case SortTarget::kKey:
      break;
  }
  return Order(a.key, b.key);
}

}  // namespace

std::string Describe(const TwinKv& kv) {
  return kv.key + "=" + kv.value + "@" + std::to_string(kv.create) + "," + std::to_string(kv.mod) +
         "," + std::to_string(kv.version) + "," + std::to_string(kv.lease) + " ";
}

std::string Describe(const TwinRange& range) {
  std::string out = "range " + std::to_string(range.count) + (range.more ? "+ " : " ");
  for (const TwinKv& kv : range.kvs) {
    out += Describe(kv);
  }
  return out;
}

std::string RevisionBytes(int64_t main, int64_t sub, bool tombstone) {
  std::string out;
  for (int i = 56; i >= 0; i -= 8) {
    out.push_back(static_cast<char>(main >> i));
  }
  out.push_back('_');
  for (int i = 56; i >= 0; i -= 8) {
    out.push_back(static_cast<char>(sub >> i));
  }
  return tombstone ? out + 't' : out;
}

std::string EncodeTwin(const TwinKv& kv, bool tombstone) {
  Record record{.key = kv.key};
  if (!tombstone) {
    record = {kv.key, kv.value, kv.create, kv.mod, kv.version, LeaseId(kv.lease)};
  }
  std::string out(EncodedSize(record), '\0');
  EncodeRecord(record, out.data());
  return out;
}

std::optional<TwinKv> Twin::Get(const std::string& key, int64_t at) const {
  const auto it = keys_.find(key);
  if (it == keys_.end()) {
    return std::nullopt;
  }
  const TwinRow* newest = nullptr;
  for (const TwinRow& row : it->second) {
    if (row.main <= at) {
      newest = &row;
    }
  }
  return newest == nullptr || newest->tombstone ? std::nullopt : std::optional(newest->kv);
}

std::vector<TwinKv> Twin::LiveIn(KeyRange range, int64_t at) const {
  std::vector<TwinKv> out;
  for (const auto& [key, rows] : keys_) {
    if (In(range, key)) {
      if (const auto kv = Get(key, at)) {
        out.push_back(*kv);
      }
    }
  }
  return out;
}

TwinRange Twin::RangeAt(const RangeRequest& request, int64_t at) const {
  TwinRange out;
  std::vector<TwinKv> all = LiveIn({request.key, request.range_end}, at);
  out.count = static_cast<int64_t>(all.size());
  if (request.count_only) {
    return out;
  }
  if (request.has_filters()) {
    std::erase_if(all, [&](const TwinKv& kv) {
      return (request.min_mod_revision != 0 && kv.mod < request.min_mod_revision) ||
             (request.max_mod_revision != 0 && kv.mod > request.max_mod_revision) ||
             (request.min_create_revision != 0 && kv.create < request.min_create_revision) ||
             (request.max_create_revision != 0 && kv.create > request.max_create_revision);
    });
  }
  // Without an order and filters etcd reads no more than it needs, and only then sorts what it
  // read.
  if (request.sort_order == SortOrder::kNone && !request.has_filters() && request.limit > 0 &&
      static_cast<int64_t>(all.size()) > request.limit) {
    all.resize(static_cast<size_t>(request.limit) + 1);
  }
  SortOrder order = request.sort_order;
  if (request.sort_target != SortTarget::kKey && order == SortOrder::kNone) {
    order = SortOrder::kAscend;
  }
  if (order != SortOrder::kNone) {
    std::stable_sort(all.begin(), all.end(), [&](const TwinKv& a, const TwinKv& b) {
      const int o = OrderBy(request.sort_target, a, b);
      return order == SortOrder::kAscend ? o < 0 : o > 0;
    });
  }
  if (request.limit > 0 && static_cast<int64_t>(all.size()) > request.limit) {
    all.resize(static_cast<size_t>(request.limit));
    out.more = true;
  }
  if (request.keys_only) {
    for (TwinKv& kv : all) {
      kv.value.clear();
      // etcd's index, which answers these, knows no lease; sorting by value reads the records.
      kv.lease = request.sort_target == SortTarget::kValue ? kv.lease : 0;
    }
  }
  out.kvs = std::move(all);
  return out;
}

std::optional<TwinRange> Twin::Range(const RangeRequest& request) const {
  if (request.revision > revision_ || (request.revision > 0 && request.revision < compacted_)) {
    return std::nullopt;
  }
  return RangeAt(request, request.revision > 0 ? request.revision : revision_);
}

std::string Twin::PutIn(const PutRequest& request, Writing* w) {
  const std::string key(request.key);
  const std::optional<TwinKv> old = Live(key);
  if (w->main == 0) {
    w->main = revision_ + 1;
  }
  TwinRow row;
  row.main = w->main;
  row.sub = w->sub++;
  row.kv = {key,
            // An open-ended delete of the same txn may have taken the key since it was checked.
            request.ignore_value ? (old ? old->value : "") : std::string(request.value),
            old ? old->create : row.main, row.main, old ? old->version + 1 : 1,
            request.ignore_lease ? (old ? old->lease : 0) : request.lease.value()};
  keys_[key].push_back(row);
  return "put " + (request.prev_kv && old ? Describe(*old) : "");
}

std::string Twin::DeleteIn(const DeleteRangeRequest& request, Writing* w) {
  const std::vector<TwinKv> gone = LiveIn({request.key, request.range_end}, revision_ + 1);
  std::string out = "del " + std::to_string(gone.size()) + " ";
  for (const TwinKv& kv : gone) {
    if (w->main == 0) {
      w->main = revision_ + 1;
    }
    TwinRow row;
    row.main = w->main;
    row.sub = w->sub++;
    row.tombstone = true;
    row.kv.key = kv.key;
    keys_[kv.key].push_back(row);
    out += request.prev_kv ? Describe(kv) : "";
  }
  return out;
}

std::optional<std::string> Twin::Put(const PutRequest& request) {
  if (request.lease.value() != 0 && !LeaseExists(request.lease.value())) {
    return std::nullopt;
  }
  if ((request.ignore_value || request.ignore_lease) && !Live(std::string(request.key))) {
    return std::nullopt;
  }
  Writing w;
  std::string out = PutIn(request, &w);
  Finish(w);
  return out;
}

std::string Twin::DeleteRange(const DeleteRangeRequest& request) {
  Writing w;
  std::string out = DeleteIn(request, &w);
  Finish(w);
  return out;
}

void Twin::DeleteKeys(const std::vector<std::string>& keys) {
  Writing w;
  for (const std::string& key : keys) {
    DeleteIn({.key = key}, &w);
  }
  Finish(w);
}

bool Twin::Holds(const Compare& compare) const {
  std::vector<TwinKv> all = LiveIn({compare.key, compare.range_end}, revision_);
  if (all.empty()) {
    if (compare.target == CompareTarget::kValue) {
      return false;
    }
    all.emplace_back();
  }
  return std::all_of(all.begin(), all.end(), [&](const TwinKv& kv) {
    switch (compare.target) {
      case CompareTarget::kVersion:
        return Judge(compare.result, kv.version, compare.number);
      case CompareTarget::kCreate:
        return Judge(compare.result, kv.create, compare.number);
      case CompareTarget::kMod:
        return Judge(compare.result, kv.mod, compare.number);
      case CompareTarget::kLease:
        return Judge(compare.result, kv.lease, compare.number);
      case CompareTarget::kValue:
        break;
    }
    return Judge<std::string_view>(compare.result, kv.value, compare.value);
  });
}

void Twin::Choose(const TxnRequest& request, std::vector<bool>* path) const {
  const bool yes = std::all_of(request.compare.begin(), request.compare.end(),
                               [&](const Compare& c) { return Holds(c); });
  path->push_back(yes);
  for (const Op& op : yes ? request.success : request.failure) {
    if (const auto* txn = std::get_if<std::unique_ptr<TxnRequest>>(&op.request)) {
      Choose(**txn, path);
    }
  }
}

bool Twin::Allowed(const TxnRequest& request, const std::vector<bool>& path, size_t* at) const {
  for (const Op& op : path[(*at)++] ? request.success : request.failure) {
    if (const auto* range = std::get_if<RangeRequest>(&op.request)) {
      if (range->revision != 0 && (range->revision > revision_ || range->revision < compacted_)) {
        return false;
      }
    } else if (const auto* put = std::get_if<PutRequest>(&op.request)) {
      if ((put->lease.value() != 0 && !LeaseExists(put->lease.value())) ||
          ((put->ignore_value || put->ignore_lease) && !Live(std::string(put->key)))) {
        return false;
      }
    } else if (const auto* txn = std::get_if<std::unique_ptr<TxnRequest>>(&op.request)) {
      if (!Allowed(**txn, path, at)) {
        return false;
      }
    }
  }
  return true;
}

std::string Twin::Run(const TxnRequest& request,
                      const std::vector<bool>& path,
                      size_t* at,
                      Writing* w) {
  const bool yes = path[(*at)++];
  std::string out = yes ? "yes\n" : "no\n";
  for (const Op& op : yes ? request.success : request.failure) {
    if (const auto* range = std::get_if<RangeRequest>(&op.request)) {
      // Without a revision a range sees what the txn has done so far.
      out += Describe(RangeAt(*range, range->revision > 0 ? range->revision : revision_ + 1));
    } else if (const auto* put = std::get_if<PutRequest>(&op.request)) {
      out += PutIn(*put, w);
    } else if (const auto* remove = std::get_if<DeleteRangeRequest>(&op.request)) {
      out += DeleteIn(*remove, w);
    } else {
      out += "[" + Run(*std::get<std::unique_ptr<TxnRequest>>(op.request), path, at, w) + "]";
    }
    out += "\n";
  }
  return out;
}

std::optional<TwinTxn> Twin::Txn(const TxnRequest& request) {
  std::vector<bool> path;
  Choose(request, &path);
  size_t at = 0;
  if (!Allowed(request, path, &at)) {
    return std::nullopt;
  }
  at = 0;
  Writing w;
  TwinTxn out;
  out.succeeded = path[0];
  out.text = Run(request, path, &at, &w);
  Finish(w);
  return out;
}

bool Twin::Compact(int64_t revision) {
  if (revision <= compacted_ || revision > revision_) {
    return false;
  }
  compacted_ = revision;
  for (auto& [key, rows] : keys_) {
    // The newest row up to the watermark stays if it is a put, or a tombstone exactly there.
    size_t newest = rows.size();
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].main <= revision) {
        newest = i;
      }
    }
    std::vector<TwinRow> kept;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].main > revision ||
          (i == newest && (!rows[i].tombstone || rows[i].main == revision))) {
        kept.push_back(rows[i]);
      }
    }
    rows = std::move(kept);
  }
  std::erase_if(keys_, [](const auto& key) { return key.second.empty(); });
  return true;
}

std::vector<TwinRow> Twin::Rows() const {
  std::vector<TwinRow> out;
  for (const auto& [key, rows] : keys_) {
    out.insert(out.end(), rows.begin(), rows.end());
  }
  std::sort(out.begin(), out.end(), [](const TwinRow& a, const TwinRow& b) {
    return std::pair(a.main, a.sub) < std::pair(b.main, b.sub);
  });
  return out;
}

std::vector<TwinRow> Twin::RowsAt(int64_t main) const {
  std::vector<TwinRow> out = Rows();
  std::erase_if(out, [&](const TwinRow& row) { return row.main != main; });
  return out;
}

std::optional<TwinKv> Twin::Before(const TwinRow& row) const {
  std::optional<TwinKv> out;
  for (const TwinRow& other : keys_.at(row.kv.key)) {
    if (std::pair(other.main, other.sub) < std::pair(row.main, row.sub)) {
      out = other.tombstone ? std::nullopt : std::optional(other.kv);
    }
  }
  return out;
}

uint32_t Twin::Hash(int64_t at) const {
  const bool any_alive =
      !LiveIn({std::string_view("\0", 1), std::string_view("\0", 1)}, at).empty();
  uint32_t crc = Crc32c("key");
  for (const TwinRow& row : Rows()) {
    if (row.main > at || (row.main == compacted_ && row.tombstone)) {
      continue;
    }
    if (row.main <= compacted_ && any_alive) {
      // Of what a compaction at `at` would leave only the rows that it keeps.
      const auto kv = Get(row.kv.key, at);
      if (!kv || kv->mod != row.main || row.tombstone) {
        continue;
      }
      // The same key may have been written twice in a revision.
      const auto& rows = keys_.at(row.kv.key);
      const auto later = std::find_if(rows.begin(), rows.end(), [&](const TwinRow& r) {
        return r.main == row.main && r.sub > row.sub;
      });
      if (later != rows.end()) {
        continue;
      }
    }
    crc = Crc32cExtend(crc, RevisionBytes(row.main, row.sub, row.tombstone));
    crc = Crc32cExtend(crc, EncodeTwin(row.kv, row.tombstone));
  }
  return crc;
}

int64_t Twin::LogicalBytes() const {
  int64_t out = 0;
  for (const TwinRow& row : Rows()) {
    out += (row.tombstone ? 18 : 17) + 16 +
           static_cast<int64_t>(EncodeTwin(row.kv, row.tombstone).size());
  }
  return out;
}

std::vector<std::pair<std::string, int64_t>> Twin::LeasedKeys() const {
  std::vector<std::pair<std::string, int64_t>> out;
  for (const auto& [key, rows] : keys_) {
    if (const auto kv = Get(key, revision_); kv && kv->lease != 0) {
      out.emplace_back(key, kv->lease);
    }
  }
  return out;
}

}  // namespace mainstay::mvcc
