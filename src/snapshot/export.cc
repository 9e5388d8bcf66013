#include "snapshot/export.h"

#include "common/coding.h"
#include "snapshot/bolt_writer.h"

namespace mainstay::snapshot {
namespace {

// In bbolt's order. All ten always: etcdutl takes them for granted.
constexpr std::string_view kBuckets[] = {"alarm",           "auth", "authRoles", "authUsers",
                                         "cluster",         "key",  "lease",     "members",
                                         "members_removed", "meta"};

std::string RevisionBytes(int64_t main) {
  std::string out;
  AppendBE64(&out, static_cast<uint64_t>(main));
  out.push_back('_');
  AppendBE64(&out, 0);
  return out;
}

}  // namespace

Status ExportImage(const mvcc::ReadView& view,
                   BucketRows rows,
                   FileSystem& files,
                   const std::string& path) {
  std::map<std::string, std::string>& meta = rows["meta"];
  // What the image holds is what a finished compaction leaves, however far this store's own removal
  // is.
  if (view.compact_revision() >= 0) {
    meta["scheduledCompactRev"] = meta["finishedCompactRev"] =
        RevisionBytes(view.compact_revision());
  }
  std::map<std::string, std::string>& auth = rows["auth"];
  if (!auth.contains("authRevision")) {
    auth["authRevision"] = std::string("\0\0\0\0\0\0\0\1", 8);
  }
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files.Open(path, OpenMode::kCreate));
  BoltWriter writer(*file);
  for (const std::string_view bucket : kBuckets) {
    writer.BeginBucket(bucket);
    if (bucket == "key") {
      MS_RETURN_IF_ERROR(view.ForEachRevision(
          [&](std::string_view key, std::string_view record) { return writer.Add(key, record); }));
    } else {
      for (const auto& [key, value] : rows[std::string(bucket)]) {
        MS_RETURN_IF_ERROR(writer.Add(key, value));
      }
    }
    MS_RETURN_IF_ERROR(writer.EndBucket());
  }
  return writer.Finish();
}

}  // namespace mainstay::snapshot
