// etcd's hashes, folded from the revision rows: a checksum of a concatenation follows from those of
// its parts, so no record is read.
#include <algorithm>

#include "common/crc32c.h"
#include "mvcc/store_impl.h"

namespace mainstay::mvcc {
namespace {

// The version that a compaction at `at` keeps up to `at`, tombstones left out; null if none.
const VersionInfo* Keeps(const KeyRecord* record, int64_t at) {
  const VersionInfo* v = record != nullptr ? record->At(at) : nullptr;
  return v != nullptr && !v->tombstone ? v : nullptr;
}

bool Is(const VersionInfo* v, Revision revision) {
  return v != nullptr && v->mod == revision.main && v->sub == revision.sub;
}

}  // namespace

StatusOr<ErrorOr<ReadView::KvHash>> ReadView::HashKv(int64_t at) const {
  const int64_t compacted = version_->compact_revision;
  if (at > version_->revision) {
    return ErrorOr<KvHash>(Error::kFutureRev);
  }
  if (at > 0 && at < compacted) {
    return ErrorOr<KvHash>(Error::kCompacted);
  }
  MS_ASSIGN_OR_RETURN(const KvHash out, HashKvWith(at > 0 ? at : version_->revision, compacted));
  return ErrorOr<KvHash>(out);
}

StatusOr<ReadView::KvHash> ReadView::HashKvWith(int64_t at, int64_t compacted) const {
  KvHash out;
  out.compact_revision = compacted;
  out.hash_revision = at;
  // etcd skips superseded rows only while something is alive at the asked-for revision.
  bool any_alive = LiveTotal(version_->root) > 0 && out.hash_revision == version_->revision;
  if (!any_alive) {
    TreeCursor cursor(version_->root);
    for (cursor.Seek(""); cursor.Valid() && !any_alive; cursor.Next()) {
      any_alive = Keeps(cursor.record(), out.hash_revision) != nullptr;
    }
  }
  uint32_t crc = Crc32c("key");
  const auto scan = version_->shared->backend.NewIterator(nullptr, RevisionRowLower(0),
                                                          RevisionRowLower(out.hash_revision + 1));
  for (; scan->Valid(); scan->Next()) {
    const auto id = ParseRevisionRowKey(scan->key());
    const auto row = DecodeRevisionRow(scan->value());
    if (!id || !row) {
      return DataLoss("store: a revision row does not decode");
    }
    if (id->revision.main <= compacted) {
      const KeyRecord* record = FindKey(version_->root, row->user_key);
      // With nothing alive, what a finished compaction left is hashed: the rows that may still wait
      // for it are not.
      if (!Is(Keeps(record, any_alive ? out.hash_revision : compacted), id->revision)) {
        continue;
      }
    }
    if (id->revision.main == compacted && id->tombstone) {
      continue;
    }
    crc = Crc32cExtend(crc, scan->key().substr(1));
    crc = Crc32cCombine(crc, row->record_crc, row->record_bytes);
  }
  MS_RETURN_IF_ERROR(scan->status());
  out.hash = crc;
  return out;
}

Status ReadView::ForEachRevision(
    const std::function<Status(std::string_view, std::string_view)>& visit) const {
  const int64_t compacted = version_->compact_revision;
  const Shared& shared = *version_->shared;
  const auto scan = shared.backend.NewIterator(nullptr, RevisionRowLower(0),
                                               RevisionRowLower(version_->revision + 1));
  for (; scan->Valid(); scan->Next()) {
    const auto id = ParseRevisionRowKey(scan->key());
    const auto row = DecodeRevisionRow(scan->value());
    if (!id || !row) {
      return DataLoss("store: a revision row does not decode");
    }
    if (id->revision.main <= compacted) {
      const KeyRecord* record = FindKey(version_->root, row->user_key);
      const VersionInfo* v = record != nullptr ? record->At(compacted) : nullptr;
      const bool kept = Is(v, id->revision) && (!v->tombstone || v->mod == compacted);
      if (!kept) {
        continue;
      }
    }
    std::string record;
    MS_ASSIGN_OR_RETURN(
        const bool found,
        shared.backend.Get(nullptr, RecordRowKey(row->user_key, id->revision), &record));
    if (!found || record.size() != row->record_bytes || Crc32c(record) != row->record_crc) {
      return DataLoss("store: the record of revision " + std::to_string(id->revision.main) +
                      " is damaged");
    }
    MS_RETURN_IF_ERROR(visit(scan->key().substr(1), record));
  }
  return scan->status();
}

StatusOr<uint32_t> ReadView::HashAll() const {
  static constexpr std::string_view kBefore[] = {"alarm", "auth", "authRoles", "authUsers",
                                                 "cluster"};
  static constexpr std::string_view kAfter[] = {"lease", "members", "members_removed", "meta"};
  uint32_t crc = 0;
  const backend::Backend& backend = version_->shared->backend;
  const auto bucket = [&](std::string_view name) {
    crc = Crc32cExtend(crc, name);
    return backend::ForEachRow(
        backend, nullptr, name, [&](std::string_view key, std::string_view value) {
          if (name == "meta" &&
              (key == "consistent_index" || key == "term" || key == "storageVersion")) {
            return absl::OkStatus();
          }
          crc = Crc32cExtend(Crc32cExtend(crc, key), value);
          return absl::OkStatus();
        });
  };
  for (const std::string_view name : kBefore) {
    MS_RETURN_IF_ERROR(bucket(name));
  }
  crc = Crc32cExtend(crc, "key");
  MS_RETURN_IF_ERROR(ForEachRevision([&](std::string_view key, std::string_view record) {
    crc = Crc32cExtend(Crc32cExtend(crc, key), record);
    return absl::OkStatus();
  }));
  for (const std::string_view name : kAfter) {
    MS_RETURN_IF_ERROR(bucket(name));
  }
  return crc;
}

}  // namespace mainstay::mvcc
