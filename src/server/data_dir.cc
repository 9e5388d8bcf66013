#include "server/data_dir.h"

#include <string_view>

#include "common/log.h"

namespace mainstay::server {
namespace {

Status TestWritable(FileSystem& files, const std::string& dir) {
  const std::string probe = dir + "/.touch";
  {
    StatusOr<std::unique_ptr<File>> file = files.Open(probe, OpenMode::kCreateOrOpen);
    if (!file.ok()) {
      return file.status();
    }
  }
  return files.Remove(probe);
}

void WarnOfStrangers(FileSystem& files, const std::string& data_dir) {
  StatusOr<std::vector<std::string>> names = files.List(data_dir);
  if (!names.ok()) {
    return;
  }
  for (const std::string& name : *names) {
    if (name != "member" && name != "proxy") {
      MS_LOG(kWarn, "found invalid file under data directory")
          .Str("filename", name)
          .Str("data-dir", data_dir);
    }
  }
}

bool HasLog(FileSystem& files, const std::string& wal_dir) {
  StatusOr<std::vector<std::string>> names = files.List(wal_dir);
  if (!names.ok()) {
    return false;
  }
  for (std::string_view name : *names) {
    if (name.ends_with(".wal")) {
      return true;
    }
  }
  return false;
}

// A directory that stock etcd made: its bbolt file is there and ours is not. Starting empty beside
// it would look like losing everything, so it is refused by name.
Status RefuseForeign(FileSystem& files, const DataDir& dir, const std::string& data_dir) {
  if (files.Exists(dir.member + "/snap/db") && !dir.has_store) {
    return FailedPrecondition(
        "data directory " + data_dir +
        " was made by etcd (found member/snap/db and no member/store); Mainstay does not start "
        "on it and leaves it as it is: point --data-dir elsewhere");
  }
  if (files.Exists(data_dir + "/proxy")) {
    return FailedPrecondition(
        "data directory " + data_dir +
        " holds a proxy of etcd v2, which is not supported; remove it or point --data-dir "
        "elsewhere");
  }
  if (dir.has_log && !dir.has_store) {
    return FailedPrecondition("database file (" + dir.store + ") of the backend is missing");
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<DataDir> OpenDataDir(FileSystem& files, const Options& options) {
  DataDir dir;
  dir.member = options.data_dir + "/member";
  dir.wal = options.wal_dir.empty() ? dir.member + "/wal" : options.wal_dir;
  dir.store = dir.member + "/store";
  MS_RETURN_IF_ERROR(files.MakeDirs(options.data_dir));
  if (const uint32_t mode = files.Permissions(options.data_dir); (mode & 077) != 0) {
    MS_LOG(kWarn, "check file permission")
        .Str("error",
             "directory \"" + options.data_dir +
                 "\" exists, but the permission is wider than 0700; the recommended permission is "
                 "\"drwx------\" to prevent possible unprivileged access to the data");
  }
  MS_RETURN_IF_ERROR(TestWritable(files, options.data_dir));
  MS_RETURN_IF_ERROR(files.MakeDirs(dir.member));
  MS_RETURN_IF_ERROR(files.MakeDirs(dir.wal));
  MS_ASSIGN_OR_RETURN(dir.lock, files.Lock(dir.member + "/store.lock"));
  dir.has_log = HasLog(files, dir.wal);
  dir.has_store = files.Exists(dir.store);
  MS_RETURN_IF_ERROR(RefuseForeign(files, dir, options.data_dir));
  WarnOfStrangers(files, options.data_dir);
  MS_RETURN_IF_ERROR(files.SyncDir(options.data_dir));
  MS_RETURN_IF_ERROR(files.SyncDir(dir.member));
  return dir;
}

}  // namespace mainstay::server
