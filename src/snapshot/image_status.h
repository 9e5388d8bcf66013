// What an etcd snapshot file says of itself: the summary of `snapshot status` and the hash of
// `hashkv`.
//
// Threads  Any; each call reads the file on its own.
// Errors   NotFound, DataLoss and InvalidArgument as bolt_reader.h says; DataLoss where the content
// is not etcd's. Sources  docs/on-disk-format.md, "Snapshot file".
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"
#include "env/file_system.h"

namespace mainstay::snapshot {

struct ImageStatus {
  uint32_t hash = 0;       // of all buckets' names, keys and values
  int64_t revision = 0;    // of the last record
  int64_t total_keys = 0;  // user keys that are alive at the end
  int64_t total_bytes = 0;
  std::string version;  // of the storage schema; empty before etcd 3.6
};
// Checks every page, and the digest behind the image if there is one.
StatusOr<ImageStatus> ReadImageStatus(FileSystem& files, const std::string& path);

struct ImageHash {
  uint32_t hash = 0;
  int64_t hash_revision = 0;
  int64_t compact_revision = -1;
};
// etcd's HashKV at `revision` (0: the newest). InvalidArgument if it is compacted or in the future,
// in etcd's words.
StatusOr<ImageHash> ReadImageHash(FileSystem& files, const std::string& path, int64_t revision);

}  // namespace mainstay::snapshot
