// The whole state as an etcd snapshot's database image: the ten buckets of etcd 3.7, readable by
// etcdutl.
//
// Threads  bg-N; holds the view meanwhile.
// Errors   Status of the disk; DataLoss when a record fails its checksum.
#pragma once

#include <map>
#include <string>

#include "backend/backend.h"
#include "common/status.h"
#include "env/file_system.h"
#include "mvcc/store.h"

namespace mainstay::snapshot {

// Rows of the buckets beside `key`, by bucket and key, as of the same applied index as the view.
using BucketRows = std::map<std::string, std::map<std::string, std::string>, std::less<>>;

// Writes the image into the new file `path`; the SHA-256 trailer is the caller's.
Status ExportImage(const mvcc::ReadView& view,
                   BucketRows rows,
                   FileSystem& files,
                   const std::string& path);

}  // namespace mainstay::snapshot
