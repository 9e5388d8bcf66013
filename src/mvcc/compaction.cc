// Compaction: the watermark moves at once; the rows that it supersedes are found through the
// revision rows between the old and the new watermark and go in small steps. Work in proportion to
// what changed, not to the store.
#include "common/check.h"
#include "common/log.h"
#include "mvcc/store_impl.h"

namespace mainstay::mvcc {

namespace {
constexpr std::string_view kMetaBucket = "meta";
constexpr std::string_view kScheduled = "scheduledCompactRev";
constexpr std::string_view kFinished = "finishedCompactRev";
}  // namespace

Error Store::Compact(int64_t revision, backend::WriteBatch& batch) {
  Impl& s = *impl_;
  if (revision <= s.compact_revision) {
    return Error::kCompacted;
  }
  if (revision > s.revision) {
    return Error::kFutureRev;
  }
  s.compact_revision = revision;
  backend::PutRow(batch, kMetaBucket, kScheduled, RevisionKey({revision, 0}, false));
  MutexLock lock(s.mu);
  s.gate = s.current;
  return Error::kOk;
}

bool Store::compacting() const {
  return impl_->finished < impl_->compact_revision;
}

void Store::Impl::CompactKey(std::string_view key,
                             int64_t at,
                             backend::WriteBatch& batch,
                             size_t* removed) {
  const KeyRecord* record = FindKey(tree.root(), key);
  if (record == nullptr) {
    return;
  }
  // Kept: everything after `at`, and the newest up to it if that is a put, or a delete at exactly
  // `at`.
  std::vector<const VersionInfo*> kept;
  std::vector<const VersionInfo*> dropped;
  bool boundary_passed = false;
  for (const VersionInfo* v = &record->newest; v != nullptr; v = v->older) {
    if (v->mod > at) {
      kept.push_back(v);
      continue;
    }
    const bool keep = !boundary_passed && (!v->tombstone || v->mod == at);
    boundary_passed = true;
    (keep ? kept : dropped).push_back(v);
  }
  if (dropped.empty()) {
    return;
  }
  for (const VersionInfo* v : dropped) {
    const Revision id{v->mod, v->sub};
    batch.Delete(RecordRowKey(key, id));
    batch.Delete(RevisionRowKey(id, v->tombstone != 0));
    logical_bytes -= RowBytes(*v);
    ++*removed;
    ++rows_removed;
  }
  // The whole old chain goes to the garbage, since readers of before may stand in it; what is kept
  // is copied.
  for (const VersionInfo* v = record->newest.older; v != nullptr; v = v->older) {
    garbage.Add(v);
  }
  if (kept.empty()) {
    const std::string owned(key);
    tree.Remove(owned, &garbage);
    return;
  }
  const VersionInfo* older = nullptr;
  for (size_t i = kept.size(); i-- > 1;) {
    auto* copy = new VersionInfo(*kept[i]);
    copy->older = older;
    older = copy;
  }
  VersionInfo newest = *kept[0];
  newest.older = older;
  tree.Set(KeyRecord::Make(key, newest), &garbage);
}

bool Store::CompactSome(backend::WriteBatch& batch) {
  Impl& s = *impl_;
  if (s.finished >= s.compact_revision) {
    return false;
  }
  if (s.job_to < 0) {
    if (!s.gate.expired()) {
      return false;  // a reader may still need what would go
    }
    s.job_to = s.compact_revision;
    s.job_at = RevisionRowLower(s.finished < 0 ? 0 : s.finished);
  }
  const auto scan = s.backend.NewIterator(nullptr, s.job_at, RevisionRowLower(s.job_to + 1));
  size_t removed = 0;
  size_t looked_at = 0;
  for (; scan->Valid(); scan->Next()) {
    if (removed >= s.options.compaction_batch || looked_at >= 4 * s.options.compaction_batch) {
      s.job_at = std::string(scan->key());
      return true;
    }
    ++looked_at;
    const auto row = DecodeRevisionRow(scan->value());
    MS_CHECK_MSG(row.has_value(), "a revision row does not decode");
    s.CompactKey(row->user_key, s.job_to, batch, &removed);
  }
  MS_CHECK_MSG(scan->status().ok(), scan->status().ToString());
  s.finished = s.job_to;
  s.job_to = -1;
  backend::PutRow(batch, kMetaBucket, kFinished, RevisionKey({s.finished, 0}, false));
  MS_LOG(kInfo, "finished scheduled compaction").Num("compact-revision", s.finished);
  return true;
}

}  // namespace mainstay::mvcc
