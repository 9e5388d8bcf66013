// Loading: one walk over the record rows, which lie in key order, newest version first.
#include <algorithm>

#include "common/check.h"
#include "mvcc/store_impl.h"

namespace mainstay::mvcc {
namespace {

StatusOr<int64_t> ReadMark(const backend::Backend& backend, std::string_view name) {
  std::string bytes;
  MS_ASSIGN_OR_RETURN(const bool found,
                      backend.Get(nullptr, backend::StateKey("meta", name), &bytes));
  if (!found) {
    return -1;
  }
  const auto id = ParseRevisionRowKey("r" + bytes);
  if (!id) {
    return DataLoss("store: " + std::string(name) + " does not decode");
  }
  return id->revision.main;
}

class Loader {
 public:
  // Takes one row; rows of a key come together, newest first.
  Status Add(const RecordRow& row, std::string_view value) {
    VersionInfo v;
    v.mod = row.revision.main;
    v.sub = static_cast<uint32_t>(row.revision.sub);
    v.bytes = static_cast<uint32_t>(value.size()) & 0x7FFFFFFF;
    Record fields;
    if (!DecodeRecord(value, &fields) || fields.key != row.user_key) {
      return DataLoss("store: the record at revision " + std::to_string(v.mod) +
                      " does not fit its key");
    }
    // A tombstone is the one record without a mod_revision.
    v.tombstone = fields.mod_revision == 0 ? 1 : 0;
    if (!v.tombstone && fields.mod_revision != v.mod) {
      return DataLoss("store: the record at revision " + std::to_string(v.mod) +
                      " claims another revision");
    }
    v.create = fields.create_revision;
    v.version = fields.version;
    v.lease = fields.lease.value();
    if (versions_.empty() || key_ != row.user_key) {
      Finish();
      key_ = row.user_key;
    }
    versions_.push_back(v);
    bytes_ += RowBytes(v);
    revision_ = std::max(revision_, v.mod);
    return absl::OkStatus();
  }
  void Finish() {
    if (versions_.empty()) {
      return;
    }
    const VersionInfo* older = nullptr;
    for (size_t i = versions_.size(); i-- > 1;) {
      auto* copy = new VersionInfo(versions_[i]);
      copy->older = older;
      older = copy;
    }
    versions_[0].older = older;
    records_.push_back(KeyRecord::Make(key_, versions_[0]));
    versions_.clear();
  }
  const std::vector<const KeyRecord*>& records() const { return records_; }
  int64_t bytes() const { return bytes_; }
  int64_t revision() const { return revision_; }

 private:
  std::string key_;
  std::vector<VersionInfo> versions_;
  std::vector<const KeyRecord*> records_;
  int64_t bytes_ = 0;
  int64_t revision_ = 1;
};

}  // namespace

StatusOr<std::unique_ptr<Store>> Store::Open(backend::Backend& backend, Options options) {
  auto impl = std::make_unique<Impl>(backend, options);
  MS_ASSIGN_OR_RETURN(impl->compact_revision, ReadMark(backend, "scheduledCompactRev"));
  MS_ASSIGN_OR_RETURN(impl->finished, ReadMark(backend, "finishedCompactRev"));
  impl->compact_revision = std::max(impl->compact_revision, impl->finished);
  Loader loader;
  const auto scan = backend.NewIterator(nullptr, "k", "l");
  for (; scan->Valid(); scan->Next()) {
    const auto row = ParseRecordRowKey(scan->key());
    if (!row) {
      return DataLoss("store: a record row's key does not decode");
    }
    MS_RETURN_IF_ERROR(loader.Add(*row, scan->value()));
  }
  MS_RETURN_IF_ERROR(scan->status());
  loader.Finish();
  impl->tree.BulkLoad(loader.records());
  impl->logical_bytes = loader.bytes();
  // The newest rows may have been deletes that a compaction took: the revision never goes back.
  impl->revision = std::max({int64_t{1}, loader.revision(), impl->compact_revision});
  auto version = std::make_shared<Version_>();
  version->shared = impl->shared;
  version->root = impl->tree.root();
  version->revision = impl->revision;
  version->compact_revision = impl->compact_revision;
  version->logical_bytes = impl->logical_bytes;
  impl->tree.NextVersion();
  {
    MutexLock lock(impl->mu);
    impl->current = std::move(version);
  }
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

}  // namespace mainstay::mvcc
