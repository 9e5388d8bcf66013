// The data directory: where things lie, whose it is, and whether it may be used.
//
//   <data-dir>/member/          0700
//     wal/                      the log, in etcd's format (or Options::wal_dir)
//     store/                    the state, RocksDB
//     store.lock                held while a process uses the directory
//
// Errors   FailedPrecondition with a text for the operator: a stock etcd directory, a log without
// its store.
//          Unavailable: another process holds the directory. Internal: not writable.
// Threads  The caller's; touches the disk.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "env/file_system.h"
#include "server/options.h"

namespace mainstay::server {

struct DataDir {
  std::string member;
  std::string wal;
  std::string store;
  std::unique_ptr<FileLock> lock;
  bool has_log =
      false;  // at least one *.wal: the member exists, flags about the initial cluster do not count
  bool has_store = false;
};

// Makes what is missing (0700), tests that it is writable, takes the lock, looks at what is there.
StatusOr<DataDir> OpenDataDir(FileSystem& files, const Options& options);

}  // namespace mainstay::server
