#include <algorithm>

#include "common/check.h"
#include "common/crc32c.h"
#include "common/log.h"
#include "mvcc/store_impl.h"

namespace mainstay::mvcc {

StatusOr<Buffer> FetchRecord(const Shared& shared,
                             std::string_view key,
                             const VersionInfo& version) {
  const Revision revision{version.mod, version.sub};
  if (Buffer hit = shared.cache.Get(revision); !hit.empty()) {
    return hit;
  }
  std::string bytes;
  MS_ASSIGN_OR_RETURN(const bool found,
                      shared.backend.Get(nullptr, RecordRowKey(key, revision), &bytes));
  if (!found || bytes.size() != version.bytes) {
    return DataLoss("store: the record of revision " + std::to_string(version.mod) +
                    " is missing or cut");
  }
  Buffer record = Buffer::Copy(bytes);
  shared.cache.Put(revision, record);
  return record;
}

Revision Store::Impl::NextRevision(Txn* txn) {
  if (txn->main == 0) {
    txn->main = revision + 1;
    events.push_back({txn->main, {}});
  }
  return {txn->main, txn->sub++};
}

void Store::Impl::Finish(Txn* txn) {
  if (txn->main != 0) {
    revision = txn->main;
  }
}

Buffer Store::Impl::Record(std::string_view key, const VersionInfo& version) {
  if (const auto own = batch_records.find({version.mod, version.sub}); own != batch_records.end()) {
    return own->second;
  }
  StatusOr<Buffer> record = FetchRecord(*shared, key, version);
  // Apply cannot go on without the record: another member may have it, and then this one differs.
  MS_CHECK_MSG(record.ok(), record.status().ToString());
  return *std::move(record);
}

void Store::Impl::Push(const KeyRecord* old,
                       std::string_view key,
                       VersionInfo version,
                       Buffer record,
                       WriteContext& context) {
  if (old != nullptr) {
    version.older = new VersionInfo(old->newest);
  }
  const Revision at{version.mod, version.sub};
  const bool tombstone = version.tombstone != 0;
  context.batch.Put(RecordRowKey(key, at), record.view());
  context.batch.Put(
      RevisionRowKey(at, tombstone),
      EncodeRevisionRow({key, static_cast<uint32_t>(record.size()), Crc32c(record.view())}));
  logical_bytes += RowBytes(version);
  tree.Set(KeyRecord::Make(key, version), &garbage);
  batch_records.emplace(std::pair{at.main, at.sub}, std::move(record));
}

void Store::Impl::PutKey(
    Txn* txn, std::string_view key, std::string_view value, LeaseId lease, WriteContext& context) {
  const KeyRecord* old = FindKey(tree.root(), key);
  const bool lives = old != nullptr && old->live();
  const Revision at = NextRevision(txn);
  VersionInfo next;
  next.mod = at.main;
  next.sub = static_cast<uint32_t>(at.sub);
  next.create = lives ? old->newest.create : at.main;
  next.version = lives ? old->newest.version + 1 : 1;
  next.lease = lease.value();
  const mvcc::Record fields{key, value, next.create, next.mod, next.version, lease};
  const size_t size = EncodedSize(fields);
  EncodeRecord(fields, arena.Reserve(size));
  Buffer record = arena.Commit(size);
  next.bytes = static_cast<uint32_t>(size) & 0x7FFFFFFF;

  Event event;
  event.type = Event::Type::kPut;
  event.kv = record;
  mvcc::Record inside;
  MS_CHECK(DecodeRecord(record.view(), &inside));
  event.key = inside.key;
  event.is_create = !lives;
  const int64_t old_lease = lives ? old->newest.lease : 0;
  if (lives) {
    event.prev_revision = old->newest.mod;
    const auto own = batch_records.find({old->newest.mod, old->newest.sub});
    event.prev_kv = own != batch_records.end()
                        ? own->second
                        : shared->cache.Get({old->newest.mod, old->newest.sub});
  }
  Push(old, inside.key, next, std::move(record), context);
  if (old_lease != lease.value()) {
    context.lease_changes.push_back({std::string(inside.key), LeaseId(old_lease), lease});
  }
  events.back().events.push_back(std::move(event));
}

void Store::Impl::DeleteKey(Txn* txn, const KeyRecord* record, WriteContext& context) {
  const Revision at = NextRevision(txn);
  VersionInfo next;
  next.mod = at.main;
  next.sub = static_cast<uint32_t>(at.sub);
  next.tombstone = 1;
  const mvcc::Record stored{.key = record->key()};
  const size_t stored_size = EncodedSize(stored);
  EncodeRecord(stored, arena.Reserve(stored_size));
  Buffer tombstone = arena.Commit(stored_size);
  next.bytes = static_cast<uint32_t>(stored_size) & 0x7FFFFFFF;

  const mvcc::Record told{.key = record->key(), .mod_revision = at.main};
  const size_t told_size = EncodedSize(told);
  EncodeRecord(told, arena.Reserve(told_size));
  Event event;
  event.type = Event::Type::kDelete;
  event.kv = arena.Commit(told_size);
  mvcc::Record inside;
  MS_CHECK(DecodeRecord(event.kv.view(), &inside));
  event.key = inside.key;
  event.prev_revision = record->newest.mod;
  const auto own = batch_records.find({record->newest.mod, record->newest.sub});
  event.prev_kv = own != batch_records.end()
                      ? own->second
                      : shared->cache.Get({record->newest.mod, record->newest.sub});
  if (record->newest.lease != 0) {
    context.lease_changes.push_back(
        {std::string(inside.key), LeaseId(record->newest.lease), LeaseId(0)});
  }
  Push(record, inside.key, next, std::move(tombstone), context);
  events.back().events.push_back(std::move(event));
}

std::vector<const KeyRecord*> Store::Impl::LiveRecords(KeyRange range) const {
  std::vector<const KeyRecord*> out;
  if (range.single()) {
    if (const KeyRecord* record = FindKey(tree.root(), range.key);
        record != nullptr && record->live()) {
      out.push_back(record);
    }
    return out;
  }
  TreeCursor cursor(tree.root());
  for (cursor.Seek(range.key); cursor.Valid(); cursor.Next()) {
    const KeyRecord* record = cursor.record();
    if (!range.open_ended() && record->key() >= range.end) {
      break;
    }
    if (record->live()) {
      out.push_back(record);
    }
  }
  return out;
}

ErrorOr<PutResult> Store::Impl::PutIn(Txn* txn, const PutRequest& request, WriteContext& context) {
  const KeyRecord* old = FindKey(tree.root(), request.key);
  const bool lives = old != nullptr && old->live();
  PutResult out;
  LeaseId lease = request.lease;
  Buffer held;  // keeps a value that is used again
  std::string_view value = request.value;
  if (lives && (request.prev_kv || request.ignore_value)) {
    held = Record(request.key, old->newest);
    if (request.prev_kv) {
      out.prev_kv = held;
    }
  }
  // The key was there before the txn; an open-ended delete of the same txn may have taken it away
  // since.
  if (request.ignore_value && lives) {
    mvcc::Record fields;
    MS_CHECK(DecodeRecord(held.view(), &fields));
    value = fields.value;
  }
  if (request.ignore_lease && lives) {
    lease = LeaseId(old->newest.lease);
  }
  PutKey(txn, request.key, value, lease, context);
  ++counts.puts;
  counts.put_bytes += static_cast<int64_t>(request.key.size() + value.size());
  out.revision = txn->main;
  return out;
}

DeleteResult Store::Impl::DeleteRangeIn(Txn* txn,
                                        const DeleteRangeRequest& request,
                                        WriteContext& context) {
  DeleteResult out;
  ++counts.deletes;
  for (const KeyRecord* record : LiveRecords({request.key, request.range_end})) {
    if (request.prev_kv) {
      out.prev_kvs.push_back(Record(record->key(), record->newest));
    }
    DeleteKey(txn, record, context);
    ++out.deleted;
  }
  out.revision = Seen(*txn);
  return out;
}

namespace {

// What can only be judged on the state: the lease of a put, and the key that an ignore_ option
// needs.
Error ValidatePut(const PutRequest& request, const KeyRecord* old, const WriteContext& context) {
  if (request.lease.value() != 0 && !context.leases.Exists(request.lease)) {
    return Error::kLeaseNotFound;
  }
  if ((request.ignore_value || request.ignore_lease) && (old == nullptr || !old->live())) {
    return Error::kKeyNotFound;
  }
  return Error::kOk;
}

}  // namespace

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Store::~Store() {
  // Views are gone by contract; what the last version still reaches is freed here.
  const Node* root = impl_->tree.root();
  impl_->garbage.Free();
  {
    MutexLock lock(impl_->mu);
    impl_->current = nullptr;
  }
  DestroyTree(root);
}

ErrorOr<PutResult> Store::Put(const PutRequest& request, WriteContext& context) {
  if (const Error error = ValidatePut(request, FindKey(impl_->tree.root(), request.key), context);
      error != Error::kOk) {
    return error;
  }
  Impl::Txn txn;
  ErrorOr<PutResult> out = impl_->PutIn(&txn, request, context);
  impl_->Finish(&txn);
  return out;
}

DeleteResult Store::DeleteRange(const DeleteRangeRequest& request, WriteContext& context) {
  Impl::Txn txn;
  DeleteResult out = impl_->DeleteRangeIn(&txn, request, context);
  impl_->Finish(&txn);
  return out;
}

int64_t Store::DeleteKeys(const std::vector<std::string>& keys, WriteContext& context) {
  Impl::Txn txn;
  impl_->counts.deletes += static_cast<int64_t>(keys.size());
  for (const std::string& key : keys) {
    if (const KeyRecord* record = FindKey(impl_->tree.root(), key);
        record != nullptr && record->live()) {
      impl_->DeleteKey(&txn, record, context);
    }
  }
  impl_->Finish(&txn);
  return impl_->revision;
}

void Store::Publish(const std::function<void(std::vector<EventBatch>&&)>& before_visible) {
  Impl& s = *impl_;
  for (auto& [id, record] : s.batch_records) {
    // A copy of its own: a slice would keep the batch's whole block alive in the cache.
    s.shared->cache.Put({id.first, id.second}, Buffer::Copy(record.view()));
  }
  s.batch_records.clear();
  // The arena's block goes on: the watch log keeps these slices, and a block of its own for each
  // small batch would cost it many times their bytes.
  auto next = std::make_shared<Version_>();
  next->shared = s.shared;
  next->root = s.tree.root();
  next->revision = s.revision;
  next->compact_revision = s.compact_revision;
  next->logical_bytes = s.logical_bytes;
  s.tree.NextVersion();
  std::vector<EventBatch> events = std::move(s.events);
  s.events.clear();
  if (before_visible) {
    before_visible(std::move(events));
  }
  std::shared_ptr<Version_> before;
  {
    MutexLock lock(s.mu);
    before = std::move(s.current);
    before->next = next;
    before->replaced = std::move(s.garbage);
    s.current = std::move(next);
  }
  s.garbage = Garbage();
}

Store::Counts Store::TakeCounts() {
  return std::exchange(impl_->counts, Counts());
}
int64_t Store::rows_removed() const {
  return impl_->rows_removed;
}
int64_t Store::revision() const {
  return impl_->revision;
}
int64_t Store::compact_revision() const {
  return impl_->compact_revision;
}
int64_t Store::logical_bytes() const {
  return impl_->logical_bytes;
}
int64_t Store::key_count() const {
  return LiveTotal(impl_->tree.root());
}

ReadView Store::View() const {
  MutexLock lock(impl_->mu);
  return ReadView(impl_->current);
}

int64_t Store::published_logical_bytes() const {
  MutexLock lock(impl_->mu);
  return impl_->current->logical_bytes;
}

int64_t Store::open_views() const {
  MutexLock lock(impl_->mu);
  return impl_->current.use_count();
}

void Store::ForEachLeasedKey(const std::function<void(std::string_view, LeaseId)>& visit) const {
  TreeCursor cursor(impl_->tree.root());
  for (cursor.Seek(""); cursor.Valid(); cursor.Next()) {
    const KeyRecord* record = cursor.record();
    if (record->live() && record->newest.lease != 0) {
      visit(record->key(), LeaseId(record->newest.lease));
    }
  }
}

}  // namespace mainstay::mvcc
