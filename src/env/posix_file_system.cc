#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "env/file_system.h"

namespace mainstay {
namespace {

class PosixFile : public File {
 public:
  PosixFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;
  ~PosixFile() override { ::close(fd_); }

  Status ReadAt(uint64_t offset, size_t length, std::string* out) const override {
    out->resize(length);
    size_t done = 0;
    while (done < length) {
      const ssize_t n =
          ::pread(fd_, out->data() + done, length - done, static_cast<off_t>(offset + done));
      if (n < 0) {
        if (errno == EINTR) {
          continue;
        }
        return Fail("read");
      }
      if (n == 0) {
        break;
      }
      done += static_cast<size_t>(n);
    }
    out->resize(done);
    return absl::OkStatus();
  }
  Status WriteAt(uint64_t offset, std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0) {
        if (errno == EINTR) {
          continue;
        }
        return Fail("write");
      }
      bytes.remove_prefix(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
    return absl::OkStatus();
  }
  Status DataSync() override { return ::fdatasync(fd_) == 0 ? absl::OkStatus() : Fail("sync"); }
  Status Truncate(uint64_t size) override {
    return ::ftruncate(fd_, static_cast<off_t>(size)) == 0 ? absl::OkStatus() : Fail("truncate");
  }
  Status Preallocate(uint64_t size) override {
    const int error = ::posix_fallocate(fd_, 0, static_cast<off_t>(size));
    return error == 0 ? absl::OkStatus() : ErrnoStatus("allocate " + path_, error);
  }
  StatusOr<uint64_t> Size() const override {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) {
      return Fail("stat");
    }
    return static_cast<uint64_t>(info.st_size);
  }
  const std::string& path() const override { return path_; }

 private:
  Status Fail(std::string_view what) const {
    return ErrnoStatus(std::string(what) + " " + path_, errno);
  }
  const int fd_;
  const std::string path_;
};

class PosixLock : public FileLock {
 public:
  explicit PosixLock(int fd) : fd_(fd) {}
  PosixLock(const PosixLock&) = delete;
  PosixLock& operator=(const PosixLock&) = delete;
  ~PosixLock() override { ::close(fd_); }

 private:
  const int fd_;
};

class Posix : public FileSystem {
 public:
  StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override {
    int flags = O_CLOEXEC | (mode == OpenMode::kRead ? O_RDONLY : O_RDWR);
    if (mode == OpenMode::kCreate) {
      flags |= O_CREAT | O_EXCL;
    } else if (mode == OpenMode::kCreateOrOpen) {
      flags |= O_CREAT;
    }
    const int fd = ::open(path.c_str(), flags, 0600);
    if (fd < 0) {
      return ErrnoStatus("open " + path, errno);
    }
    return std::make_unique<PosixFile>(fd, path);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return ::rename(from.c_str(), to.c_str()) == 0
               ? absl::OkStatus()
               : ErrnoStatus("rename " + from + " to " + to, errno);
  }
  Status Remove(const std::string& path) override {
    return ::remove(path.c_str()) == 0 ? absl::OkStatus() : ErrnoStatus("remove " + path, errno);
  }
  Status RemoveTree(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    return error ? ErrnoStatus("remove " + path, error.value()) : absl::OkStatus();
  }
  Status MakeDirs(const std::string& path) override {
    std::string made;
    for (size_t at = 0; at != std::string::npos;) {
      at = path.find('/', at + 1);
      made = path.substr(0, at);
      if (!made.empty() && ::mkdir(made.c_str(), 0700) != 0 && errno != EEXIST) {
        return ErrnoStatus("create directory " + made, errno);
      }
    }
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
      return ErrnoStatus("create directory " + path, ENOTDIR);
    }
    return absl::OkStatus();
  }
  StatusOr<std::vector<std::string>> List(const std::string& dir) override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end;
         it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    if (error) {
      return ErrnoStatus("list " + dir, error.value());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  uint32_t Permissions(const std::string& path) override {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0700;
  }
  bool Exists(const std::string& path) override { return ::access(path.c_str(), F_OK) == 0; }
  Status SyncDir(const std::string& dir) override {
    const int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
      return ErrnoStatus("open " + dir, errno);
    }
    const int error = ::fsync(fd) == 0 ? 0 : errno;
    ::close(fd);
    return error == 0 ? absl::OkStatus() : ErrnoStatus("sync " + dir, error);
  }
  StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
      return ErrnoStatus("open " + path, errno);
    }
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      ::close(fd);
      return error == EWOULDBLOCK ? Unavailable("lock " + path + ": held by another process")
                                  : ErrnoStatus("lock " + path, error);
    }
    return std::make_unique<PosixLock>(fd);
  }
};

}  // namespace

FileSystem& PosixFileSystem() {
  static Posix fs;
  return fs;
}

StatusOr<std::string> ReadWholeFile(FileSystem& fs, const std::string& path, uint64_t size_max) {
  MS_ASSIGN_OR_RETURN(std::unique_ptr<File> file, fs.Open(path, OpenMode::kRead));
  std::string out;
  // Not by size: files of /proc and pipes say 0.
  MS_RETURN_IF_ERROR(file->ReadAt(0, 64 << 10, &out));
  if (out.size() == 64 << 10) {
    MS_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
    if (size > size_max) {
      return ResourceExhausted("read " + path + ": larger than allowed");
    }
    MS_RETURN_IF_ERROR(file->ReadAt(0, size, &out));
  }
  return out;
}

Status WriteFileAtomically(FileSystem& fs, const std::string& path, std::string_view bytes) {
  const std::string part = path + ".tmp";
  {
    MS_ASSIGN_OR_RETURN(std::unique_ptr<File> file, fs.Open(part, OpenMode::kCreateOrOpen));
    MS_RETURN_IF_ERROR(file->Truncate(0));
    MS_RETURN_IF_ERROR(file->WriteAt(0, bytes));
    MS_RETURN_IF_ERROR(file->DataSync());
  }
  MS_RETURN_IF_ERROR(fs.Rename(part, path));
  const size_t slash = path.rfind('/');
  return fs.SyncDir(slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash));
}

}  // namespace mainstay
