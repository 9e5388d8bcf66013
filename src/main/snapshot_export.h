// Joins the server's pinned state with the codec of etcd's snapshot files.
#pragma once

#include <string>

#include "common/status.h"
#include "env/file_system.h"
#include "server/server.h"

namespace mainstay::main {

// An rpc::SnapshotExporter.
Status ExportSnapshot(const server::PinnedState& state, FileSystem& files, const std::string& path);

}  // namespace mainstay::main
