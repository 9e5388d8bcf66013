#include "main/snapshot_export.h"

#include "common/coding.h"
#include "snapshot/export.h"

namespace mainstay::main {

Status ExportSnapshot(const server::PinnedState& state,
                      FileSystem& files,
                      const std::string& path) {
  snapshot::BucketRows rows;
  for (const std::string_view bucket : {"alarm", "auth", "authRoles", "authUsers", "cluster",
                                        "lease", "members", "members_removed", "meta"}) {
    MS_RETURN_IF_ERROR(backend::ForEachRow(*state.backend, state.rows.get(), bucket,
                                           [&](std::string_view key, std::string_view value) {
                                             rows[std::string(bucket)].emplace(key, value);
                                             return absl::OkStatus();
                                           }));
  }
  std::string index;
  AppendBE64(&index, state.applied_index.value());
  std::string term;
  AppendBE64(&term, state.applied_term.value());
  rows["meta"]["consistent_index"] = index;
  rows["meta"]["term"] = term;
  // Mainstay's own marks are nothing that etcd's tools know.
  std::erase_if(rows["meta"], [](const auto& row) { return row.first.starts_with("mainstay"); });
  return snapshot::ExportImage(state.view, std::move(rows), files, path);
}

}  // namespace mainstay::main
