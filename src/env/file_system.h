// The disk as a parameter. Production is POSIX; tests and the simulator model crashes: what was not
// synced may be lost or torn, what was synced stays.
//
// Errors   Every call says which path failed. A failed sync must not be retried: the page cache may
// have dropped the
//          data (the caller stops this member).
// Threads  FileSystem: any. One File: one thread at a time, but for ReadAt().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace mainstay {

class File {
 public:
  virtual ~File() = default;
  // Up to `length` bytes at `offset`; shorter only at the end of the file. Any thread.
  virtual Status ReadAt(uint64_t offset, size_t length, std::string* out) const = 0;
  virtual Status WriteAt(uint64_t offset, std::string_view bytes) = 0;
  // Data, and the metadata that reading it back needs, are durable when this returns OK.
  virtual Status DataSync() = 0;
  virtual Status Truncate(uint64_t size) = 0;
  // Allocates blocks so that later writes below `size` change no metadata; extends the file with
  // zeros.
  virtual Status Preallocate(uint64_t size) = 0;
  virtual StatusOr<uint64_t> Size() const = 0;
  virtual const std::string& path() const = 0;
};

enum class OpenMode : uint8_t {
  kRead,          // must exist
  kReadWrite,     // must exist
  kCreate,        // read and write; must not exist
  kCreateOrOpen,  // read and write
};

class FileLock {
 public:
  virtual ~FileLock() = default;  // releases
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // New files get mode 0600.
  virtual StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status Remove(const std::string& path) = 0;
  virtual Status RemoveTree(const std::string& path) = 0;
  // With parents; mode 0700; OK if it exists.
  virtual Status MakeDirs(const std::string& path) = 0;
  // Names, sorted, without "." and "..".
  virtual StatusOr<std::vector<std::string>> List(const std::string& dir) = 0;
  virtual bool Exists(const std::string& path) = 0;
  // Permission bits (0700, ...). A file system without them says 0700; so does one that cannot tell.
  virtual uint32_t Permissions(const std::string& path) {
    (void)path;
    return 0700;
  }
  // Makes creations, renames and removals in `dir` durable.
  virtual Status SyncDir(const std::string& dir) = 0;
  // Exclusive advisory lock on a file that exists or is created; Unavailable if another process
  // holds it.
  virtual StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) = 0;
};

FileSystem& PosixFileSystem();

// Reads a whole file. NotFound if absent; ResourceExhausted beyond `size_max`.
StatusOr<std::string> ReadWholeFile(FileSystem& fs, const std::string& path, uint64_t size_max);
// Writes `path` so that a crash leaves the old content or the new: temporary file, sync, rename,
// directory sync.
Status WriteFileAtomically(FileSystem& fs, const std::string& path, std::string_view bytes);

}  // namespace mainstay
